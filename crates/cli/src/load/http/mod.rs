//! `corelane load http`: the HTTP request generator in the foreground.

mod arguments;

pub use arguments::{EXAMPLES, LoadHttpArguments};

use super::live::{Growing, Shown, View};
use super::sources;
use crate::outcome::{Outcome, usage};
use corelane_load::http::{HttpLoad, HttpLoadError, HttpLoaded, TlsLoadError};
use corelane_measure::quantity;

/// `corelane load http`.
pub fn run(arguments: &LoadHttpArguments) -> Outcome {
    let plan = arguments::request(arguments)?
        .resolve()
        .map_err(HttpLoad::refused)?;
    arguments.foreground.run::<HttpLoad>(plan)
}

impl Shown for HttpLoad {
    /// Planning errors become usage errors that name the argument at fault.
    fn refused(error: HttpLoadError) -> anyhow::Error {
        let flag = match &error {
            HttpLoadError::Source(error) => return sources::refuse(error),
            HttpLoadError::Request(_) => "--method, --header",
            HttpLoadError::Body { .. } => "--body-file",
            HttpLoadError::Tls(TlsLoadError::Name(_)) => "URL, --header",
            HttpLoadError::Tls(_) => "--ca",
            HttpLoadError::NoConnections => "--connections",
            HttpLoadError::Host { .. } => "URL",
            HttpLoadError::Crew(_) => return error.into(),
        };
        usage(flag, error)
    }

    fn note(loaded: &mut HttpLoaded, notes: Vec<String>) {
        loaded.notes.extend(notes);
    }

    /// A run without a successful request has failed.
    fn verdict(loaded: &HttpLoaded) -> Outcome {
        if loaded.counts.requests.ok > 0 {
            return Ok(());
        }
        let why = loaded.limited_by.as_deref().unwrap_or("see the causes above");
        anyhow::bail!("no request succeeded: {why}")
    }

    fn view(&mut self) -> Option<View> {
        let (progress, plan) = (self.progress(), self.plan());
        let [open, connections] = [progress.open, plan.connections() as u64].map(quantity::count);
        let (stage, left) = match self.phase() {
            _ if progress.draining => ("draining: waiting for outstanding responses".to_owned(), None),
            Some((place, left)) => {
                let phase = &plan.phases[place];
                (
                    format!("{} ({} of {})", phase.name, place + 1, plan.phases.len()),
                    left,
                )
            }
            None if progress.opening => ("connecting".to_owned(), None),
            None => ("ending".to_owned(), None),
        };
        let growing = match progress.opening {
            true => vec![Growing::events("opened", progress.open)],
            false => {
                let answered = [Growing::events("answered", progress.ok)];
                let received = [Growing::bytes("received", progress.received_bytes)];
                let failed = (progress.failed > 0).then(|| Growing::events("failed", progress.failed));
                answered.into_iter().chain(failed).chain(received).collect()
            }
        };
        Some(View {
            stage,
            left,
            growing,
            facts: vec![format!("{open} of {connections} connections open")],
            measured: "latency",
            seen: self.seen(),
        })
    }
}
