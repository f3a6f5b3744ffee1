//! `corelane load http`: the generator of HTTP requests in the foreground.

mod arguments;
mod text;

pub use arguments::{EXAMPLES, LoadHttpArguments};

use super::live::{Growing, Shown, Unit, View};
use super::sources;
use crate::outcome::{Done, GateFailed, Outcome, usage};
use corelane_load::http::{FIGURES, HttpLoad, HttpLoadError, HttpLoaded, TlsLoadError};
use corelane_measure::quantity;
use corelane_report::gate::Gate;

/// `corelane load http`.
pub fn run(arguments: &LoadHttpArguments) -> Outcome {
    let gates = gates(&arguments.fail_if)?;
    let plan = arguments::request(arguments)?.resolve().map_err(name_flag)?;
    let foreground = &arguments.foreground;
    let Some((mut loaded, notes)) = foreground.run::<HttpLoad>(plan)? else {
        return Ok(Done);
    };
    loaded.notes.extend(notes);
    foreground.output().report(&loaded, text::summary)?;
    judge(&loaded, &gates)
}

impl Shown for HttpLoad {
    fn refused(error: HttpLoadError) -> anyhow::Error {
        name_flag(error)
    }

    fn view(&mut self) -> Option<View> {
        let (progress, plan) = (self.progress(), self.plan());
        let counted = |name, count, unit| Growing { name, count, unit };
        let connections = format!(
            "{} of {} connections open",
            quantity::count(progress.open),
            quantity::count(plan.connections() as u64)
        );
        let (stage, left) = match self.phase() {
            _ if progress.draining => ("draining: waiting for the last answers".to_owned(), None),
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
        let mut growing = vec![counted("answered", progress.ok, Unit::Events)];
        if progress.failed > 0 {
            growing.push(counted("failed", progress.failed, Unit::Events));
        }
        growing.push(counted("received", progress.received_bytes, Unit::Bytes));
        if progress.opening {
            growing = vec![counted("opened", progress.open, Unit::Events)];
        }
        Some(View {
            stage,
            left,
            growing,
            facts: vec![connections],
            measured: "latency",
            seen: self.seen(),
        })
    }
}

fn gates(texts: &[String]) -> anyhow::Result<Vec<Gate>> {
    let parse = |text: &String| Gate::parse(text, FIGURES).map_err(|error| usage("--fail-if", error));
    texts.iter().map(parse).collect()
}

/// A run without a single success has failed; one that did not pass a gate, too, in its own way.
fn judge(loaded: &HttpLoaded, gates: &[Gate]) -> Outcome {
    let failed: Vec<String> = gates
        .iter()
        .filter_map(|gate| gate.failed(|name| loaded.figure(name)))
        .collect();
    if !failed.is_empty() {
        return Err(GateFailed(failed.join("; ")).into());
    }
    if loaded.counts.requests.ok == 0 {
        let why = loaded.limited_by.as_deref().unwrap_or("see the causes above");
        anyhow::bail!("no request was answered as expected: {why}");
    }
    Ok(Done)
}

/// Errors of planning are errors of arguments.
fn name_flag(error: HttpLoadError) -> anyhow::Error {
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
