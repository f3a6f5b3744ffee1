//! Documents of every experiment: what they say as JSON, as text and as a page.

mod classify;
mod diff;
mod html;
mod observed;
mod scale;
mod simulate;
mod streams;
mod support;
