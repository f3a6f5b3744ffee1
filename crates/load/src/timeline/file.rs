//! A timeline file that is written while generators run. A killed run leaves every line but the last whole.
//!
//! In: the lines that a generator's sampler closes, here or in a child process. Out: the file.

use super::format::{Header, Origin, SCHEMA, Second, write_line};
use crate::Generator;
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// Identity of this machine since it started.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The network namespace of the calling thread.
const NETWORK_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A timeline file that is being written.
#[derive(Debug)]
pub struct TimelineFile {
    origin: Origin,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: File,
    has_header: bool,
    /// The first error. Nothing is written after it: a line after a partial one would be damaged.
    failed: Option<io::Error>,
}

impl TimelineFile {
    /// The timeline of a run of this plan, written to `out`. Of `origin`, tool, command line and conditions are given.
    /// `in_this_namespace`: the generator runs in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the plan is no JSON.
    pub fn create(
        out: File,
        origin: Origin,
        plan: &impl Serialize,
        in_this_namespace: bool,
    ) -> io::Result<Self> {
        let namespace = fs::metadata(NETWORK_NAMESPACE).map(|file| file.ino()).ok();
        let machine = fs::read_to_string(BOOT_ID).ok();
        Ok(Self {
            origin: Origin {
                plan: identity(&serde_json::to_vec(plan)?),
                machine: machine.map(|id| id.trim().to_owned()),
                network_namespace: namespace.filter(|_| in_this_namespace),
                ..origin
            },
            state: Mutex::new(State {
                out,
                has_header: false,
                failed: None,
            }),
        })
    }

    /// Writes the header, if it is not there yet: a run that is killed before its first line leaves at least that.
    /// [`Self::finish`] reports errors.
    pub fn begin<G: Generator>(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.has_header {
            state.failed = write_line(&mut state.out, &self.header::<G>()).err();
            state.has_header = true;
        }
    }

    /// Writes a line of this kind of generator, after the header if it is the first. [`Self::finish`] reports errors.
    pub fn write<G: Generator>(&self, second: &Second) {
        self.begin::<G>();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none() {
            state.failed = write_line(&mut state.out, second).err();
        }
    }

    fn header<G: Generator>(&self) -> Header {
        Header {
            schema: SCHEMA.to_owned(),
            generators: vec![self.origin.clone()],
            durations: G::TIMED.map_or("", |times| times.label).to_owned(),
            units: Header::units(&G::units()),
            aligned: None,
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If a line could not be written; the file ends before it.
    pub fn finish(self) -> io::Result<()> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failed.map_or(Ok(()), Err)
    }
}

/// The 64-bit FNV-1a hash of a plan. It is not cryptographic: two plans can be made to have the same.
fn identity(plan: &[u8]) -> String {
    let hash = plan.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_differ_have_different_identities() {
        assert_eq!(identity(b"a"), "af63dc4c8601ec8c");
        assert_ne!(identity(b"ab"), identity(b"ba"));
    }
}
