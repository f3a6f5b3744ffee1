//! The terminal: how wide text on standard output may be.

use corelane_report::text::Width;
use std::io;

/// The width of text on standard output: that of the terminal; into a file or a pipe nothing is cut.
pub fn width() -> Width {
    match terminal_size::terminal_size_of(io::stdout()) {
        Some((columns, _)) => Width::of_terminal(columns.0.into()),
        None => Width::UNBOUNDED,
    }
}
