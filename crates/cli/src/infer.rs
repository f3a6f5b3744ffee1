//! `corelane infer`: what does a device really hash? Samples of packets with the hash or queue that it gave them enter; key,
//! fields, dialect and table leave, with what is not settled and which samples would settle it.

use crate::capture;
use crate::outcome::{Done, Outcome, usage};
use clap::Args;
use corelane_measure::quantity::count;
use corelane_packet::{Dissection, Transport};
use corelane_report::table::{Column, Table};
use corelane_rss::infer::{self, Field, Inference, InferredTable, Sample, Verdict};
use corelane_rss::{Key, Protocol, Tuple};
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane infer --pcap capture.pcapng\n  \
    corelane infer --samples samples.txt --key 6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa\n\
    A sample is a line of source, destination, protocol, hash and queue, - for what is not known:\n  \
    66.9.149.187:2794 161.142.100.80:1766 tcp 0x51ccc178 3\n\
    Exit code 1 while not all is settled.";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct InferArguments {
    /// Samples, one a line
    #[arg(long, value_name = "FILE", group = "source")]
    samples: Option<PathBuf>,
    /// A capture; pcapng's epb_hash (Toeplitz) and epb_queue are what the device said
    #[arg(long, value_name = "FILE", group = "source")]
    pcap: Option<PathBuf>,
    /// A log of `hash queue` pairs of the capture's frames, in order
    #[arg(long, value_name = "FILE", requires = "pcap")]
    log: Option<PathBuf>,
    /// The key that the device was given: tells what it makes of it, and makes queues alone enough
    #[arg(long, value_name = "HEX")]
    key: Option<Key>,
    /// Set so many samples aside that contradict the others, where it can be told which, and infer from the rest
    #[arg(long, value_name = "N", default_value_t = 0)]
    tolerate: usize,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct InferDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    inference: &'a Inference,
}

/// Infers, prints, and fails while not all is settled.
pub fn run(arguments: &InferArguments) -> Outcome {
    let samples = match (&arguments.samples, &arguments.pcap) {
        (Some(path), _) => of_list(path)?,
        (None, Some(path)) => of_capture(path, arguments.log.as_deref())?,
        (None, None) => return Err(usage("--samples", "give samples, or a capture with --pcap")),
    };
    let inference = infer::infer_tolerating(&samples, arguments.key.as_ref(), arguments.tolerate);
    let mut out = io::stdout().lock();
    if arguments.json {
        let document = InferDocument {
            schema: "corelane/infer/1",
            inference: &inference,
        };
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        print(&mut out, &inference)?;
        print_set_aside(&mut out, &samples, &inference.set_aside)?;
    }
    match inference.verdict {
        Verdict::Settled => Ok(Done),
        Verdict::NotEnough => anyhow::bail!("not enough: {}", inference.needed.join("; ")),
        Verdict::NothingFits => anyhow::bail!(
            "no key, fields and dialect explain these samples{}",
            contradiction(&samples)
        ),
    }
}

/// A share of samples that may be wrong before the device is asked about rather than the samples.
const FEW: usize = 20;

/// What is wrong with samples that nothing explains: a few of them, if that can be told.
fn contradiction(samples: &[Sample]) -> String {
    match infer::contradicting(samples, samples.len() / FEW) {
        Some(wrong) if !wrong.is_empty() => format!(
            ": {} of {} contradict the others (number {}): --tolerate {} sets them aside",
            wrong.len(),
            samples.len(),
            numbers(&wrong),
            wrong.len()
        ),
        _ => ": is the hash Toeplitz, and did the device's settings stay?".to_owned(),
    }
}

/// Samples named: the rest is in the JSON document.
const NAMED: usize = 10;

/// Places of samples as numbers from 1.
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

fn print_set_aside(out: &mut impl Write, samples: &[Sample], places: &[usize]) -> io::Result<()> {
    for place in places.iter().take(NAMED) {
        let (sample, number) = (&samples[*place], place + 1);
        writeln!(
            out,
            "set aside: sample {number}, {}, contradicts the others",
            sample.tuple
        )?;
    }
    match places.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => writeln!(out, "… and {} more (--json has them)", count(more as u64)),
    }
}

fn of_list(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let wrong = |error: &dyn std::fmt::Display| usage("--samples", format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let read = sample(line);
            read.map_err(|error| wrong(&format!("line {number}: {error}")))
        })
        .collect()
}

/// A line such as `66.9.149.187:2794 161.142.100.80:1766 tcp 0x51ccc178 3`; the queue may be left out.
fn sample(line: &str) -> Result<Sample, String> {
    let mut words = line.split_whitespace().filter(|word| *word != "->");
    let mut word = |what: &str| words.next().ok_or_else(|| format!("no {what}"));
    let mut end = |what| {
        let text = word(what)?;
        text.parse::<SocketAddr>()
            .map_err(|_| format!("{text:?} is no {what}: write ADDRESS:PORT"))
    };
    let tuple = Tuple::new(end("source")?, end("destination")?).map_err(|error| error.to_string())?;
    let protocol = match word("protocol")? {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "other" => Protocol::Other,
        text => return Err(format!("{text:?} is no protocol: write tcp, udp or other")),
    };
    let hash = known(word("hash")?, |text| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    });
    let queue = known(words.next().unwrap_or("-"), |text| text.parse().ok());
    Ok(Sample {
        tuple,
        protocol,
        hash: hash.map_err(|text| format!("{text:?} is no hash: write 0x and up to 8 digits, or -"))?,
        queue: queue.map_err(|text| format!("{text:?} is no queue: write its number, or -"))?,
    })
}

/// What a word says, `-` for nothing; the word itself where it cannot be read.
fn known<T>(word: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, String> {
    match word {
        "-" => Ok(None),
        text => read(text).map(Some).ok_or_else(|| text.to_owned()),
    }
}

/// The frames of a capture of which hash or queue are known.
fn of_capture(path: &Path, log: Option<&Path>) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    capture::each_frame_with_log(path, log, |frame, observed| {
        let known = observed.hash.is_some() || observed.queue.is_some();
        if let (true, Ok(dissection)) = (known, Dissection::of(frame)) {
            samples.push(Sample {
                tuple: dissection.tuple(),
                protocol: protocol(&dissection),
                hash: observed.hash,
                queue: observed.queue.map(|queue| queue.0),
            });
        }
        Ok(())
    })?;
    Ok(samples)
}

/// What a packet's hash may depend on: parts of datagrams have no ports.
fn protocol(dissection: &Dissection<'_>) -> Protocol {
    match dissection.transport() {
        _ if dissection.is_part() => Protocol::Other,
        Transport::Tcp(_) => Protocol::Tcp,
        Transport::Udp(_) => Protocol::Udp,
        _ => Protocol::Other,
    }
}

fn print(out: &mut impl Write, inference: &Inference) -> io::Result<()> {
    let names = |fields: &[Field]| {
        fields
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut kinds = Table::new(vec![
        Column::left("packets"),
        Column::right("samples"),
        Column::left("hashed").may_shrink(),
        Column::left("not hashed").may_shrink(),
        Column::left("unknown").may_shrink(),
    ]);
    for kind in &inference.kinds {
        let explained = if kind.explained {
            names(&kind.hashed)
        } else {
            "not explained".to_owned()
        };
        kinds.row([
            kind.kind.to_string(),
            count(kind.samples as u64),
            explained,
            names(&kind.not_hashed),
            names(&kind.unknown),
        ]);
    }
    write!(out, "{}", kinds.render(100))?;
    let transforms: Vec<_> = inference
        .transforms_that_fit
        .iter()
        .map(ToString::to_string)
        .collect();
    if !transforms.is_empty() {
        writeln!(out, "ends mixed: {}", transforms.join(" or "))?;
    }
    if let Some(key) = &inference.key {
        let settled: usize = inference
            .key_bits_settled
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum();
        writeln!(out, "key {key}")?;
        writeln!(
            out,
            "  {settled} bits settled; {}",
            if inference.key_is_enough {
                "it hashes all such packets as the device does"
            } else {
                "zeros stand for the others"
            }
        )?;
    }
    if let Some(relation) = inference.relation {
        writeln!(out, "  of the key given: {relation}")?;
    }
    if let Some(value) = inference.initial_value {
        writeln!(out, "initial value 0x{value:08x}")?;
    }
    if let Some(table) = &inference.table {
        print_table(out, table)?;
    }
    for needed in &inference.needed {
        writeln!(out, "needed: {needed}")?;
    }
    Ok(())
}

/// Entries shown on a line.
const A_LINE: usize = 32;

fn print_table(out: &mut impl Write, table: &InferredTable) -> io::Result<()> {
    writeln!(
        out,
        "table of {} entries, or as often repeated, {} never seen:",
        table.period, table.unseen
    )?;
    for line in table.entries.chunks(A_LINE) {
        let entries: Vec<_> = line
            .iter()
            .map(|entry| entry.map_or("-".to_owned(), |queue| queue.to_string()))
            .collect();
        writeln!(out, "  {}", entries.join(" "))?;
    }
    Ok(())
}
