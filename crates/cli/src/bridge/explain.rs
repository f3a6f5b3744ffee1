//! `corelane bridge --explain`: which frames of a capture change CPU, where and why, by the fields that are hashed.

use super::file;
use super::planned::Settings;
use crate::capture;
use crate::log::log_line;
use crate::outcome::{Outcome, usage};
use crate::serve::foreground::Refused;
use crate::shared::{JsonArgument, print};
use crate::steering::worker_cpus;
use crate::terminal::width;
use corelane_lab::explained::CaptureExplained;
use corelane_link::LinkSpec;
use corelane_report::page::Rendered;
use corelane_rss::IndirectionTable;
use corelane_serve::bridge::read_keys;
use corelane_stage::explain::{Explained, STAGES};
use corelane_stage::reassembly::Placement;
use std::path::Path;
use std::time::Duration;

/// The keys of a file, besides [`STAGES`], that say how many buckets there are, and which is that of a hash.
const OF_BUCKETS: [&str; 7] = [
    "buckets",
    "cpus",
    "hash",
    "key",
    "steering",
    "table_size",
    "workers",
];

/// What explains frames to a bridge with these settings, as far as they matter. Errors name the flag.
pub fn by(mut settings: Settings) -> anyhow::Result<Explained> {
    let reassemble = settings.stages.reassemble.as_ref();
    if reassemble.is_some_and(|plan| plan.at == Placement::Owner) {
        let why = "at=owner: --explain makes datagrams whole where their fragments arrive: give at=arrival";
        return Err(usage("--reassemble", why));
    }
    read_keys(&mut settings.stages).map_err(Refused::refused)?;
    let cpus = worker_cpus(settings.cpus.as_deref(), settings.workers)?;
    let plan = settings.buckets.given(cpus.len())?;
    let device = IndirectionTable::round_robin(plan.table.size(), plan.buckets.into())?;
    Ok(Explained::new(plan.spread(), device, &settings.stages))
}

/// Explains the frames of a capture.
pub fn run(capture: &str, mut explained: Explained, json: JsonArgument) -> Outcome {
    let spec: LinkSpec = capture.parse().map_err(|error| usage("--explain", error))?;
    let Some(file) = spec.read.filter(|_| !capture.contains(',')) else {
        let why = "give a capture without options, such as pcap:FILE";
        return Err(usage("--explain", why));
    };
    let mut first = None;
    let unread = capture::each_frame(&file, None, |frame, _| {
        let time = frame.time;
        let since = time.saturating_sub(*first.get_or_insert(time));
        explained.frame(frame.number + 1, frame.data, Duration::from_nanos(since));
    })?;
    let document = CaptureExplained(explained.report());
    print(json, &document, |document| {
        document.page().text(width()) + &unread.text()
    })
}

/// A file is that of a bridge, which also has links: names what of it makes no difference here.
pub fn note_unused(config: &Path) -> Outcome {
    let unused = file::keys_but(config, &[&OF_BUCKETS[..], &STAGES[..]].concat())?;
    if !unused.is_empty() {
        let (config, unused) = (config.display(), unused.join(", "));
        log_line(&format!("--config {config}: --explain does not use {unused}"));
    }
    Ok(())
}
