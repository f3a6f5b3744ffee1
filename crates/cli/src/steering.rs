//! Converts flags to the rule that server and clients share: key, table, buckets and CPUs, or a steering document.

use crate::documents::{parse, read_text, wrong_file};
use crate::outcome::{cannot_run, usage};
use crate::ready;
use crate::shared::RuleArguments;
use anyhow::Context;
use corelane_host::cpus::{self, PlacementOptions};
use corelane_host::ethtool;
use corelane_host::inventory::NoSteering;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Transform};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A steering with one bucket per CPU, mapped round robin. The default key is the verification suite's.
pub fn round_robin(
    key: Option<&Key>,
    table_size: usize,
    hash_fields: HashFields,
    cpus: Vec<u32>,
) -> anyhow::Result<Steering> {
    let table = table(table_size, cpus.len())?;
    Ok(Steering {
        key: key.cloned().unwrap_or(Key::VERIFICATION),
        hash_fields,
        table,
        cpus,
        generation: 0,
    })
}

fn table(size: usize, buckets: usize) -> anyhow::Result<IndirectionTable> {
    IndirectionTable::round_robin(size, buckets).map_err(|error| usage("--table-size and --buckets", error))
}

/// The steering document of these flags, with one bucket per element of `cpus`.
pub fn from_rule(rule: &RuleArguments, hash_fields: HashFields, cpus: Vec<u32>) -> anyhow::Result<Steering> {
    round_robin(rule.key.as_ref(), rule.table_size, hash_fields, cpus)
}

/// How a device maps flows to buckets: its steering, and how it mixes the ends of a flow before it hashes them.
pub struct HashRule {
    pub steering: Steering,
    pub transform: Transform,
}

/// The error of `--hash` beside a steering document.
pub const HAS_FIELDS: &str = "the steering document has the fields: omit this";

/// The rule of a file, and whether it says the fields: a steering document does, the output of `ethtool -x` does not.
pub fn rule_from_file(path: &Path) -> anyhow::Result<(HashRule, bool)> {
    let text = text_of(path)?;
    let Some(rss) = ethtool::shown(&text) else {
        let rule = HashRule {
            steering: parsed(path, text)?,
            transform: Transform::Plain,
        };
        return Ok((rule, true));
    };
    let wrong = |error: String| wrong_file("--steering", path, format!("ethtool -x: {error}"));
    let transform = rss.transform();
    let rule = HashRule {
        steering: rss.steering(HashFields::FourTuple).map_err(wrong)?,
        transform: transform.ok_or_else(|| wrong("the input transformation is unknown here".to_owned()))?,
    };
    Ok((rule, false))
}

/// The steering document of a file, or of the flags. The CPUs are placeholders, because no worker will run.
pub fn without_cpus(
    file: Option<&Path>,
    rule: &RuleArguments,
    hash_fields: (Option<HashFields>, HashFields),
) -> anyhow::Result<HashRule> {
    let (given, default) = hash_fields;
    if let Some(path) = file {
        let (mut rule, has_fields) = rule_from_file(path)?;
        match has_fields {
            true if given.is_some() => return Err(usage("--hash", HAS_FIELDS)),
            true => {}
            false => rule.steering.hash_fields = given.unwrap_or(default),
        }
        return Ok(rule);
    }
    let buckets = match rule.buckets {
        Some(buckets) => buckets,
        None => usable_cpus()?.len(),
    };
    // Bounds the number of buckets before there is a CPU for each.
    table(rule.table_size, buckets)?;
    Ok(HashRule {
        steering: from_rule(rule, given.unwrap_or(default), (0..buckets as u32).collect())?,
        transform: Transform::Plain,
    })
}

/// The steering document of `--steering`, if given.
pub fn given(file: Option<&PathBuf>) -> anyhow::Result<Option<Steering>> {
    file.map(|path| from_file(path)).transpose()
}

/// Reads a steering document: a file of its own, the only one in another document, or the line of a server that is
/// ready.
pub fn from_file(path: &Path) -> anyhow::Result<Steering> {
    let text = text_of(path)?;
    if ethtool::shown(&text).is_some() {
        let what = "the output of ethtool -x does not say the CPUs of the queues: give a steering document";
        return Err(wrong_file("--steering", path, what));
    }
    parsed(path, text)
}

/// The text of a file; of standard input if its name is `-`.
fn text_of(path: &Path) -> anyhow::Result<String> {
    let file = if path == Path::new("-") {
        Path::new("/dev/stdin")
    } else {
        path
    };
    read_text(file).with_context(|| format!("--steering: {}", path.display()))
}

fn parsed(path: &Path, text: String) -> anyhow::Result<Steering> {
    let wrong = |error: String| wrong_file("--steering", path, error);
    if let Some(steering) = ready::steering(&text) {
        return steering.map_err(wrong);
    }
    let expected = "a steering document, as in `serve --write-steering` and `steer --json`";
    let document: Value = parse(&text, expected).map_err(wrong)?;
    let mut embedded = Vec::new();
    find(&document, &mut embedded);
    if let [Some(found)] = embedded
        .iter()
        .map(|one| one["schema"].as_str())
        .collect::<Vec<_>>()[..]
        && found != Steering::SCHEMA
    {
        let read = Steering::SCHEMA;
        return Err(wrong(format!(
            "its schema is {found}, and this corelane reads {read}: write the document with a program of the same version"
        )));
    }
    // A part is parsed from its own text.
    let text = match &embedded[..] {
        [] => text,
        [steering] => steering.to_string(),
        several => {
            let several = several.len();
            return Err(wrong(format!(
                "it has {several} different steering documents: give one of them"
            )));
        }
    };
    parse(&text, expected).map_err(wrong)
}

/// The steering documents in a value that differ, of any version.
fn find<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let schema = value["schema"].as_str();
    let is_steering = schema.is_some_and(|schema| schema.starts_with("corelane/steering/"));
    match value {
        _ if is_steering && found.contains(&value) => {}
        _ if is_steering => found.push(value),
        Value::Object(fields) => fields.values().for_each(|value| find(value, found)),
        Value::Array(items) => items.iter().for_each(|value| find(value, found)),
        _ => {}
    }
}

/// A usage error about the device of `--dev`, whose steering sockets cannot follow.
pub fn refused_device(error: &NoSteering) -> anyhow::Error {
    let remedy = match error {
        NoSteering::NotReported(_) => {
            ": give a steering document instead (--steering); `corelane infer` finds key and table from a capture"
        }
        _ => "",
    };
    usage("--dev", format!("{error}{remedy}"))
}

/// CPUs that workers may be placed on without sharing.
fn usable_cpus() -> anyhow::Result<Vec<u32>> {
    let (topology, allowed) = (cpus::topology()?, cpus::allowed()?);
    let place = |workers| cpus::placement(&topology, &allowed, workers, PlacementOptions::default()).ok();
    let usable = (1..=allowed.cpus.len()).map_while(place).last();
    usable.ok_or_else(|| cannot_run("no CPU is both online and allowed: see taskset and the cgroup's cpuset"))
}

/// One CPU per worker, from `--cpus` or from the allowed CPUs.
pub fn worker_cpus(list: Option<&str>, workers: Option<usize>) -> anyhow::Result<Vec<u32>> {
    let refuse = |what| usage("--workers", format!("{what} (--cpus LIST names them)"));
    place(list, workers, false, refuse)
}

/// One CPU per bucket; `share` (`--share-cpus`) allows several buckets per CPU.
pub fn bucket_cpus(list: Option<&str>, buckets: Option<usize>, share: bool) -> anyhow::Result<Vec<u32>> {
    let refuse = |what| {
        let remedy = "--cpus LIST names them, --share-cpus shares";
        usage("--buckets", format!("{what} ({remedy})"))
    };
    place(list, buckets, share, refuse)
}

fn place(
    list: Option<&str>,
    workers: Option<usize>,
    share: bool,
    refuse: impl FnOnce(String) -> anyhow::Error,
) -> anyhow::Result<Vec<u32>> {
    if let Some(workers) = workers.filter(|workers| *workers > IndirectionTable::LARGEST) {
        let most = IndirectionTable::LARGEST;
        return Err(refuse(format!("{workers} is too many: give at most {most}")));
    }
    let allowed = cpus::allowed()?;
    let Some(list) = list else {
        let Some(workers) = workers else {
            return usable_cpus();
        };
        let options = PlacementOptions {
            share,
            ..PlacementOptions::default()
        };
        return cpus::placement(&cpus::topology()?, &allowed, workers, options)
            .map_err(|error| refuse(error.to_string()));
    };
    let named = cpus::list::parse(list).filter(|cpus| !cpus.is_empty());
    let named = named.ok_or_else(|| usage("--cpus", format!("'{list}' is no CPU list: write 0-3,6")))?;
    if let Some(cpu) = named.iter().find(|cpu| !allowed.cpus.contains(cpu)) {
        let there = cpus::list::format(&allowed.cpus);
        return Err(usage(
            "--cpus",
            format!("CPU {cpu} is not allowed here; allowed: {there}"),
        ));
    }
    let workers = workers.unwrap_or(named.len());
    if workers > named.len() && !share {
        let what = format!("{workers} need {workers} CPUs, but {} are listed", named.len());
        return Err(refuse(what));
    }
    Ok(named.iter().copied().cycle().take(workers).collect())
}
