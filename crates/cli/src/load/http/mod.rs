//! `corelane load http`: the HTTP request generator in the foreground.

mod arguments;

pub use arguments::{EXAMPLES, LoadHttpArguments};

use crate::outcome::Outcome;
use corelane_load::http::HttpLoad;

/// `corelane load http`.
pub fn run(arguments: &LoadHttpArguments) -> Outcome {
    arguments.foreground.run::<HttpLoad>(arguments::plan(arguments)?)
}
