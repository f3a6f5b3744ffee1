//! Generators of requests over streams in the foreground, for any protocol: errors, the live view, the verdict.

use super::live::{ForegroundLoad, Growing, View};
use super::sources;
use crate::outcome::{cannot_run, usage};
use corelane_host::inventory::devices_towards;
use corelane_load::{Generator, LiveStreams, StreamLoad, StreamLoadError, StreamStart};
use corelane_measure::quantity;
use corelane_worker::tls::TrustError;
use std::convert::Infallible;

/// Errors of a protocol that are the fault of flags.
pub trait Flagged {
    fn flags(&self) -> &'static str;
}

impl Flagged for Infallible {
    fn flags(&self) -> &'static str {
        match *self {}
    }
}

impl<P: StreamStart<Error: Flagged>> ForegroundLoad for StreamLoad<P> {
    /// Planning errors become usage errors that name the argument at fault.
    fn refused(error: StreamLoadError<P::Error>) -> anyhow::Error {
        let flag = match &error {
            StreamLoadError::Source(error) => return sources::refuse(error),
            StreamLoadError::Protocol(error) => error.flags(),
            StreamLoadError::Tls(TrustError::Name(_)) => "URL, --header",
            StreamLoadError::Tls(TrustError::Certificate(_)) => "--certificate, --key",
            StreamLoadError::Tls(_) => "--ca",
            StreamLoadError::NoConnections => "--connections",
            StreamLoadError::Engine(_) => return cannot_run(format!("--engine: {error}")),
            StreamLoadError::Crew(_) => return error.into(),
        };
        usage(flag, error)
    }

    fn devices(plan: &Self::Plan) -> Vec<String> {
        devices_towards(
            plan.pools
                .iter()
                .filter_map(|pool| Some(pool.target.address()?.ip())),
        )
    }

    fn view(&self) -> Option<View> {
        let plan = self.plan();
        let [open, connections] =
            [self.total(&LiveStreams::OPEN), plan.connections() as u64].map(quantity::count);
        let (stage, left) = match self.phase() {
            _ if self.is_draining() => ("draining: waiting for outstanding responses".to_owned(), None),
            Some((place, left)) => {
                let phase = &plan.phases[place];
                (
                    format!("{} ({} of {})", phase.name, place + 1, plan.phases.len()),
                    left,
                )
            }
            None if self.is_opening() => ("connecting".to_owned(), None),
            None => ("ending".to_owned(), None),
        };
        let growing = match self.is_opening() {
            true => vec![Growing::of(self, &LiveStreams::OPENED)],
            false => {
                let failed = Growing::of(self, &LiveStreams::FAILED);
                let answered = [Growing::of(self, &LiveStreams::OK)];
                let received = [Growing::of(self, &LiveStreams::RECEIVED_BYTES)];
                let failed = (failed.count > 0).then_some(failed);
                answered.into_iter().chain(failed).chain(received).collect()
            }
        };
        Some(View {
            stage,
            left,
            growing,
            facts: vec![format!("{open} of {connections} connections open")],
        })
    }
}
