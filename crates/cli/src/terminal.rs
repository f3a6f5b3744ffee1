//! The terminal: how wide text on standard output and standard error may be.

use corelane_report::text::{WIDTH, Width};
use std::io;
use terminal_size::terminal_size_of;

/// The width of text on standard output: that of the terminal; into a file or a pipe nothing is cut.
pub fn width() -> Width {
    match terminal_size_of(io::stdout()) {
        Some((columns, _)) => Width::of_terminal(columns.0.into()),
        None => Width::UNBOUNDED,
    }
}

/// Columns of standard error; the usual number if it is no terminal.
pub fn error_columns() -> usize {
    terminal_size_of(io::stderr()).map_or(WIDTH, |(columns, _)| columns.0.into())
}
