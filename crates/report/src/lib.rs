//! Values to text: tables, paragraphs, plots, pages, gates. It knows no experiment.
//!
//! Nothing here reads a clock, a file, an environment variable or the terminal, so the same data gives the same text
//! everywhere.

#![forbid(unsafe_code)]

pub mod date;
pub mod diff;
pub mod exposition;
pub mod gate;
pub mod html;
pub mod json;
pub mod measurement;
pub mod page;
pub mod reading;
mod sections;
pub mod table;
pub mod text;
