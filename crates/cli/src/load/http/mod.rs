//! `corelane load http`: the generator of HTTP requests in the foreground.

mod arguments;
mod text;

pub use arguments::{AlignArgument, EXAMPLES, LoadHttpArguments};

use crate::interrupt::Interrupt;
use crate::outcome::{Done, GateFailed, Outcome, usage};
use corelane_load::http::{FIGURES, HttpLoad, HttpLoadError, HttpLoaded, HttpProgress, Needs};
use corelane_report::gate::Gate;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the running generator is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Between two lines of progress.
const LINE: Duration = Duration::from_secs(1);

/// `corelane load http`.
pub fn run(arguments: &LoadHttpArguments) -> Outcome {
    let gates = gates(&arguments.fail_if)?;
    let plan = arguments::request(arguments)?.resolve().map_err(name_flag)?;
    let needs = Needs::of(&plan);
    if arguments.dry_run {
        let document = serde_json::json!({ "plan": plan, "needs": needs });
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(Done);
    }
    let mut notes = Vec::new();
    for need in needs.lacking() {
        let remedy = need.remedy.as_deref().unwrap_or_default();
        let available = need.available.unwrap_or_default();
        notes.push(format!(
            "{} {} needed, {available} available: {remedy}",
            need.needed, need.what
        ));
    }
    for note in &notes {
        eprintln!("corelane: {note}");
    }
    let interrupt = Interrupt::catch()?;
    let mut loaded = attend(HttpLoad::start(plan).map_err(name_flag)?, &interrupt)?;
    loaded.notes.extend(notes);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&loaded)?)?;
    } else {
        write!(out, "{}", text::summary(&loaded))?;
    }
    out.flush()?;
    judge(&loaded, &gates)
}

/// Shows progress until the run has ended.
fn attend(mut load: HttpLoad, interrupt: &Interrupt) -> anyhow::Result<HttpLoaded> {
    let show = std::io::stderr().is_terminal();
    let (mut last, mut shown) = (HttpProgress::default(), Instant::now());
    while !load.wait(LOOK) {
        if interrupt.asked() {
            load.stop();
        }
        if show && shown.elapsed() >= LINE {
            let progress = load.progress();
            eprintln!("{}", text::line(last, progress, shown.elapsed()));
            (last, shown) = (progress, Instant::now());
        }
    }
    Ok(load.finish()?)
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
    if loaded.requests.ok == 0 {
        let why = loaded.limited_by.as_deref().unwrap_or("see the causes above");
        anyhow::bail!("no request was answered as expected: {why}");
    }
    Ok(Done)
}

/// Errors of planning are errors of arguments.
fn name_flag(error: HttpLoadError) -> anyhow::Error {
    let flag = match &error {
        HttpLoadError::Request(_) => "--method, --header",
        HttpLoadError::Body { .. } => "--body-file",
        HttpLoadError::NoConnections => "--connections",
        HttpLoadError::Host { .. } => "URL",
        HttpLoadError::Source(_) => "--sources, --align",
        HttpLoadError::Crew(_) => return error.into(),
    };
    usage(flag, error)
}
