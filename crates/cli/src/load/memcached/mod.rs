//! `corelane load memcached`: the generator for caches in the foreground, over connections or datagrams.

mod arguments;
mod datagrams;
mod owners;
mod streams;

pub use arguments::{LoadMemcachedArguments, ShapeArguments};

use crate::outcome::Outcome;

/// `corelane load memcached`.
pub fn run(arguments: &LoadMemcachedArguments) -> Outcome {
    match arguments.udp.udp {
        true => datagrams::run(arguments),
        false => streams::run(arguments),
    }
}
