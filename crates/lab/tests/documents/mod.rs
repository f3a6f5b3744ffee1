//! Documents of every experiment, as JSON, text and HTML.

mod classify;
mod diff;
mod html;
mod observed;
mod scale;
mod simulate;
mod streams;
mod streams_page;
mod support;
mod understood;
