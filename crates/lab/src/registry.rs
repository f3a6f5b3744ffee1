//! What the lab knows by name, a line each: the documents of experiments and generators, and the servers and generators that
//! run as child processes. In: the text of a saved document, or the orders of a parent. Out: the document, or the child's
//! replies.

use crate::child::{self, Answer, ChildSide, Order, Output, Subject};
use crate::document::{Document, DocumentError};
use crate::nic::PROBE;
use crate::saved::{Origin, Recorded};
use corelane_load::{Generator, LoadReport, MergedLoad};
use corelane_report::json;
use corelane_report::page::Rendered;
use corelane_serve::Server;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::Receiver;
use thiserror::Error;

/// Everything; a new experiment, server or generator is a line.
static ENTRIES: &[Entry] = &[
    experiment::<crate::scale::datagrams::ScaleReport>(),
    experiment::<crate::scale::streams::StreamsReport>(),
    experiment::<crate::scale::memcached::MemcachedScaleReport>(),
    experiment::<crate::classify::ClassifyReport>(),
    experiment::<crate::simulate::SimulateReport>(),
    experiment::<crate::engines::EnginesReport>(),
    experiment::<crate::rebalance::Rebalancing>(),
    experiment::<crate::nic::NicReport>(),
    experiment::<crate::path::PathReport>(),
    experiment::<crate::cache::CacheReport>(),
    server::<corelane_serve::udp::UdpServer>(),
    server::<corelane_serve::http::HttpServer>(),
    server::<corelane_serve::tcp::TcpServer>(),
    server::<corelane_serve::memcached::MemcachedServer>(),
    server::<Subject>(),
    generator::<corelane_load::udp::UdpLoad>(),
    generator::<corelane_load::http::HttpLoad>(),
    generator::<corelane_load::memcached::MemcachedLoad>(),
    generator::<corelane_load::memcached::MemcachedUdpLoad>(),
    generator::<corelane_load::tcp::TcpLoad>(),
    generator::<corelane_load::packets::PacketsLoad>(),
    other::<crate::join::Joined>(&["corelane/joined/1"]),
    other::<crate::explained::CaptureExplained>(&["corelane/bridge-explain/1"]),
    child(|kind| kind == PROBE, probe),
];

/// What is known of one experiment, server or generator.
struct Entry {
    /// The schemas of its documents, and how they are read.
    schemas: &'static [&'static str],
    read: fn(&str) -> Read,
    /// How several of them are merged, if they can be.
    merge: Option<Merge>,
    /// Whether its child process is of this kind.
    is_kind: fn(&str) -> bool,
    /// What its child process does.
    run: ChildSide,
}

type Read = Result<Box<dyn Rendered>, DocumentError>;

/// Merges documents of one kind; returns the document that they amount to, or the place of one that cannot be merged.
pub type Merge = fn(&[String]) -> Result<String, (usize, MergeError)>;

/// Why a document cannot be merged.
#[derive(Debug, Error)]
pub enum MergeError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// Its counts contradict each other.
    #[error("its counts cannot be: {0}: give a document as `load` wrote it")]
    Impossible(String),
}

const fn experiment<D: Document + 'static>() -> Entry {
    Entry {
        schemas: D::SCHEMAS,
        read: |text| Ok(Box::new(D::from_json(text)?)),
        ..child(|_| false, |_, _, _| Ok(()))
    }
}

const fn server<S: Server>() -> Entry {
    child(
        |kind| kind.strip_suffix(child::SERVER) == Some(S::NAME),
        child::serve::<S>,
    )
}

const fn generator<G: Generator<Report: LoadReport>>() -> Entry {
    Entry {
        schemas: const { &[<G::Report as LoadReport>::SCHEMA] },
        read: |text| Ok(Box::new(Recorded::<G::Report>::read(text)?)),
        merge: Some(merge_reports::<G::Report>),
        ..child(|kind| kind == G::KIND, child::generate::<G>)
    }
}

/// A document of another verb.
const fn other<D: Rendered + DeserializeOwned + 'static>(schemas: &'static [&'static str]) -> Entry {
    Entry {
        schemas,
        read: |text| Ok(Box::new(serde_json::from_str::<D>(text)?)),
        ..child(|_| false, |_, _, _| Ok(()))
    }
}

/// Merged documents with the origin of each, in the same order: what wrote it, when, by which command, and the conditions.
#[derive(Serialize)]
struct Merged<S> {
    #[serde(flatten)]
    all: MergedLoad<S>,
    generators: Vec<Origin>,
}

fn merge_reports<R: LoadReport>(texts: &[String]) -> Result<String, (usize, MergeError)> {
    let read = |text: &String| {
        let report: R = serde_json::from_str(text)?;
        report.check().map_err(MergeError::Impossible)?;
        Ok((report, serde_json::from_str(text)?))
    };
    let reports = texts
        .iter()
        .enumerate()
        .map(|(place, text)| read(text).map_err(|error| (place, error)));
    let (reports, generators): (Vec<R>, Vec<Origin>) = reports.collect::<Result<_, _>>()?;
    let all = MergedLoad::of(&reports);
    json::pretty(&Merged { all, generators }).map_err(|error| (0, error.into()))
}

const fn child(is_kind: fn(&str) -> bool, run: ChildSide) -> Entry {
    Entry {
        schemas: &[],
        read: |_| Err(DocumentError::Schema(String::new())),
        merge: None,
        is_kind,
        run,
    }
}

/// Probes the device of a guest.
fn probe((plan, _): (Box<RawValue>, bool), _: &Receiver<Order>, output: &Output<'_>) -> Result<(), String> {
    let probed = crate::nic::probe(&child::read_plan(plan)?).map_err(|error| error.to_string())?;
    child::answer(output, &Answer::report(&probed))
}

/// Reads a document of whichever kind.
///
/// # Errors
/// When it is none that can be read here.
pub fn read(text: &str) -> Read {
    let document: Value = serde_json::from_str(text)?;
    let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
    let entry = of_schema(schema).ok_or_else(|| DocumentError::Schema(schema.to_owned()))?;
    (entry.read)(text)
}

/// How documents of this schema are merged; `None` if they cannot be.
#[must_use]
pub fn merge(schema: &str) -> Option<Merge> {
    of_schema(schema)?.merge
}

fn of_schema(schema: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.schemas.contains(&schema))
}

/// The child's side: reads the plan from `input`, runs it, replies on `output`, and returns when it is done or `input`
/// ends.
///
/// # Errors
/// When the pipe to the parent breaks. What fails otherwise is reported to the parent.
pub fn run_child(input: impl BufRead + Send + 'static, output: impl Write + Send) -> io::Result<()> {
    child::run(input, output, |kind| {
        let known = ENTRIES.iter().find(|entry| (entry.is_kind)(kind));
        known.map(|entry| entry.run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::order;
    use corelane_load::tcp::TcpLoad;
    use serde_json::json;
    use std::io::Cursor;

    #[test]
    fn a_plan_that_needs_more_memory_than_there_is_is_refused_before_anything_is_allocated() {
        let lease = json!({ "address": "127.0.0.1", "connections": u64::MAX / 2, "ports": "kernel" });
        let plan = json!({ "connect_timeout_s": 5.0, "direction": "write", "drain_s": null, "duration_s": 1.0,
            "engine": null, "memory": "first-touch", "stall_s": 1.0, "target": "127.0.0.1:9",
            "workers": [{ "bucket": null, "cpu": 0, "leases": [lease], "own_descriptors": false }],
            "write_bytes": 1, "write_bytes_per_second": null });
        let order = order(TcpLoad::KIND, &plan).unwrap();
        let mut output = Vec::new();
        run_child(Cursor::new(order + "\n"), &mut output).unwrap();
        let answer = String::from_utf8(output).unwrap();
        assert!(
            answer.contains("failed") && answer.contains("of memory"),
            "{answer}"
        );
    }
}
