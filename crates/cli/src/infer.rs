//! `corelane infer`: infers what a device hashes. Input: samples of packets with the hash or queue that the device
//! assigned. Output: key, fields, dialect and table, and for undetermined parts the samples that would determine them.

use crate::capture::{self, Unused};
use crate::documents::entries;
use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::terminal::width;
use crate::values::{self, PROTOCOLS};
use clap::Args;
use corelane_measure::quantity::{count, or_missing};
use corelane_packet::{Dissection, HashTypes, Refusal, TransportHeader};
use corelane_report::table::Rows;
use corelane_rss::infer::{self, Field, Inference, InferredTable, Sample, Verdict};
use corelane_rss::{Key, Protocol, Tuple};
use serde::Serialize;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane infer --pcap capture.pcapng\n  \
    corelane infer --samples samples.txt --key 6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa\n\
    A sample is one line with source, destination, protocol, hash and queue, - if unknown:\n  \
    66.9.149.187:2794 161.142.100.80:1766 tcp 0x51ccc178 3\n\
    Exit code 1 if a part is undetermined, or no indirection table fits.";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct InferArguments {
    /// Samples, one per line
    #[arg(long, value_name = "FILE", group = "source")]
    samples: Option<PathBuf>,
    /// Capture; hash and queue are read from pcapng's epb_hash (Toeplitz) and epb_queue
    #[arg(long, value_name = "FILE", group = "source")]
    pcap: Option<PathBuf>,
    /// Log of `hash queue` pairs for the capture's frames, in order
    #[arg(long, value_name = "FILE", requires = "pcap")]
    log: Option<PathBuf>,
    /// Key configured on the device: reports how the device uses it, and makes samples with only a queue sufficient
    #[arg(long, value_name = "KEY", value_parser = values::key)]
    key: Option<Key>,
    /// Set aside at most this many contradicting samples, if they can be identified, and infer from the rest
    #[arg(long, alias = "tolerate", value_name = "N", default_value_t = 0)]
    set_aside: usize,
    #[command(flatten)]
    json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/infer/1")]
struct InferDocument<'a> {
    #[serde(flatten)]
    inference: &'a Inference,
    #[serde(flatten)]
    unused: Unused,
}

/// Infers and prints. Returns an error if a part is undetermined.
pub fn run(arguments: &InferArguments) -> Outcome {
    let (samples, unused) = match (&arguments.samples, &arguments.pcap) {
        (Some(path), _) => (entries("--samples", path, sample)?, Unused::default()),
        (None, Some(path)) => of_capture(path, arguments.log.as_deref())?,
        (None, None) => return Err(usage("--samples", "give samples, or a capture with --pcap")),
    };
    let inference = infer::infer_tolerating(&samples, arguments.key.as_ref(), arguments.set_aside);
    let document = InferDocument {
        inference: &inference,
        unused,
    };
    print(arguments.json, &document, |document| {
        text(&inference) + &set_aside(&samples, &inference.set_aside) + &document.unused.text()
    })?;
    match inference.verdict {
        Verdict::Settled => Ok(()),
        Verdict::NotEnough => anyhow::bail!("not enough: {}", inference.needed.join("; ")),
        Verdict::NoTableFits => anyhow::bail!(
            "{NO_TABLE}{}",
            contradiction(
                &samples,
                "a rule for single flows (ntuple, aRFS), RPS, or a table that changed meanwhile chooses the queues"
            )
        ),
        Verdict::NothingFits => anyhow::bail!(
            "no key, fields and dialect explain these samples{}",
            contradiction(
                &samples,
                "check that the hash is Toeplitz and that the device's settings did not change"
            )
        ),
    }
}

/// If at most 1 in `FEW` samples contradict the others, the samples are suspected, otherwise the device.
const FEW: usize = 20;

const NO_TABLE: &str = "no indirection table of up to 4,096 entries gives these queues";

/// Describes contradicting samples, if there are only a few and they can be identified; otherwise returns the advice.
fn contradiction(samples: &[Sample], advice: &str) -> String {
    match infer::contradicting(samples, samples.len() / FEW) {
        Some(wrong) if !wrong.is_empty() => format!(
            ": {} of {} contradict the others (number {}): --set-aside {} infers from the rest",
            wrong.len(),
            samples.len(),
            numbers(&wrong),
            wrong.len()
        ),
        _ => format!(": {advice}"),
    }
}

/// Samples listed in the text; the JSON document has all.
const NAMED: usize = 10;

/// Formats indices of samples as numbers from 1.
fn numbers(places: &[usize]) -> String {
    let mut shown: Vec<String> = places
        .iter()
        .take(NAMED)
        .map(|place| (place + 1).to_string())
        .collect();
    if places.len() > NAMED {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn set_aside(samples: &[Sample], places: &[usize]) -> String {
    let named = places.iter().take(NAMED).map(|place| {
        let (number, tuple) = (place + 1, &samples[*place].tuple);
        format!("set aside: sample {number}, {tuple}, contradicts the others\n")
    });
    let mut text: String = named.collect();
    if let Some(more @ 1..) = places.len().checked_sub(NAMED) {
        text.push_str(&format!("… and {} more (--json has them)\n", count(more as u64)));
    }
    text
}

/// Parses a line such as `66.9.149.187:2794 161.142.100.80:1766 tcp 0x51ccc178 3`; the queue is optional.
fn sample(line: &str) -> Result<Sample, String> {
    let mut words = line.split_whitespace().filter(|word| *word != "->");
    let mut word = |what: &str| words.next().ok_or_else(|| format!("no {what}"));
    let mut end = |what| {
        let text = word(what)?;
        text.parse::<SocketAddr>()
            .map_err(|_| format!("{text:?} is no {what}: write ADDRESS:PORT"))
    };
    let tuple = Tuple::new(end("source")?, end("destination")?).map_err(|error| error.to_string())?;
    let text = word("protocol")?;
    let protocol = PROTOCOLS.iter().find(|(name, ..)| *name == text);
    let protocol = protocol.ok_or_else(|| format!("{text:?} is no protocol: write tcp, udp or other"))?;
    let hash = known(word("hash")?, |text| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    });
    let queue = known(words.next().unwrap_or("-"), |text| text.parse().ok());
    Ok(Sample {
        tuple,
        protocol: protocol.1,
        hash: hash.map_err(|text| format!("{text:?} is no hash: write 0x and up to 8 digits, or -"))?,
        queue: queue.map_err(|text| format!("{text:?} is no queue: write its number, or -"))?,
    })
}

/// Parses a word; `-` is `None`. Returns the word if it is invalid.
fn known<T>(word: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, String> {
    match word {
        "-" => Ok(None),
        text => read(text).map(Some).ok_or_else(|| text.to_owned()),
    }
}

/// The frames of a capture with a known hash or queue, and what of it was not used.
fn of_capture(path: &Path, log: Option<&Path>) -> anyhow::Result<(Vec<Sample>, Unused)> {
    let (mut samples, mut cut_short) = (Vec::new(), 0);
    let unread = capture::each_frame(path, log, |frame, observed| {
        if observed.hash.is_none() && observed.queue.is_none() {
            return;
        }
        match Dissection::of_hashed(frame.data, HashTypes::ALL) {
            Ok(dissection) => samples.push(Sample {
                tuple: dissection.tuple(),
                protocol: protocol(&dissection),
                hash: observed.hash,
                queue: observed.queue.map(|queue| queue.0),
            }),
            Err(Refusal::Truncated { .. }) => cut_short += 1,
            Err(_) => {}
        }
    })?;
    Ok((samples, Unused { cut_short, unread }))
}

/// The protocol for hashing. Fragments have no ports.
fn protocol(dissection: &Dissection<'_>) -> Protocol {
    match dissection.transport() {
        _ if dissection.is_fragment() => Protocol::Other,
        TransportHeader::Tcp(_) => Protocol::Tcp,
        TransportHeader::Udp(_) => Protocol::Udp,
        _ => Protocol::Other,
    }
}

fn text(inference: &Inference) -> String {
    let names = |fields: &[Field]| words(fields).join(", ");
    let kinds = Rows::of(&inference.kinds)
        .left("packets", |kind| kind.kind.to_string())
        .count("samples", |kind| kind.samples as u64)
        .shrinking("hashed", |kind| match kind.explained {
            true => names(&kind.hashed),
            false => "not explained".to_owned(),
        })
        .shrinking("not hashed", |kind| names(&kind.not_hashed))
        .shrinking("unknown", |kind| names(&kind.unknown))
        .table();
    let mut text = kinds.render(width().tables);
    let mut line = |words: String| text.push_str(&(words + "\n"));
    if !inference.transforms_that_fit.is_empty() {
        let transforms = words(&inference.transforms_that_fit);
        line(format!("ends mixed: {}", transforms.join(" or ")));
    }
    if let Some(key) = &inference.key {
        let bits = inference.key_bits_settled.iter();
        let settled: usize = bits.map(|(first, last)| last - first + 1).sum();
        let worth = match inference.key_is_enough {
            true => "sufficient to hash all such packets as the device does",
            false => "unknown bits are shown as zeros",
        };
        line(format!("key {key}"));
        line(format!("  {settled} bits determined; {worth}"));
    }
    if let Some(relation) = inference.relation {
        line(format!("  relative to the key given: {relation}"));
    }
    if let Some(value) = inference.initial_value {
        line(format!("initial value 0x{value:08x}"));
    }
    if let Some(InferredTable {
        period,
        unseen,
        entries,
    }) = &inference.table
    {
        line(format!(
            "table of {period} entries (or a multiple, repeated), {unseen} never seen:"
        ));
        for entries in entries.chunks(A_LINE) {
            let entries = entries.iter();
            let entries: Vec<String> = entries
                .map(|entry| or_missing(*entry, |queue| queue.to_string()))
                .collect();
            line(format!("  {}", entries.join(" ")));
        }
    }
    if inference.verdict == Verdict::NoTableFits {
        line(NO_TABLE.to_owned());
    }
    for needed in &inference.needed {
        line(format!("needed: {needed}"));
    }
    text
}

fn words(values: &[impl Display]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

/// Table entries per line of text.
const A_LINE: usize = 32;
