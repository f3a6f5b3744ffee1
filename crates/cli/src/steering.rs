//! Converts flags to the rule that server and clients share: key, table, buckets and CPUs, or a steering document.

use crate::documents::{parse, parse_as, read_with, wrong_file};
use crate::outcome::{cannot_run, usage};
use crate::ready;
use crate::shared::RuleArguments;
use clap::Args;
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
    round_robin(rule.key.as_ref(), rule.entries(), hash_fields, cpus)
}

/// How a device maps flows to buckets: its steering, and how it mixes the ends of a flow before it hashes them.
pub struct HashRule {
    pub steering: Steering,
    pub transform: Transform,
}

/// The rule of a file, and whether it has the fields: a steering document does, the output of `ethtool -x` does not. A usage
/// error if `fields_given` (`--hash`) says them, too.
pub fn rule_from_file(path: &Path, fields_given: bool) -> anyhow::Result<(HashRule, bool)> {
    let read = read_with("--steering", path, |text| match ethtool::shown(text) {
        None => parsed(text).map(|steering| (steering, Transform::Plain, true)),
        Some(rss) => {
            let unknown = || "the input transformation is unknown here".to_owned();
            let transform = rss.transform().ok_or_else(unknown);
            let rule =
                transform.and_then(|transform| Ok((rss.steering(HashFields::FourTuple)?, transform, false)));
            rule.map_err(|error| format!("ethtool -x: {error}"))
        }
    });
    match read? {
        (.., true) if fields_given => Err(usage("--hash", "the steering document has the fields: omit this")),
        (steering, transform, has_fields) => Ok((HashRule { steering, transform }, has_fields)),
    }
}

/// The rule by which flows are mapped to buckets where no worker runs: flags, or a file.
#[derive(Debug, Args)]
pub struct HashRuleArguments {
    #[command(flatten)]
    pub flags: RuleArguments,
    /// Steering document, which has the fields too, or output of `ethtool -x`, instead of key, table and buckets; - is
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets"])]
    pub steering: Option<PathBuf>,
    #[command(flatten)]
    pub transform: TransformArgument,
}

/// `--transform`.
#[derive(Debug, Clone, Copy, Args)]
pub struct TransformArgument {
    /// How the ends of a flow are mixed before hashing: plain, symmetric-xor, symmetric-or-xor or symmetric-sort [default:
    /// the file's or the device's, else plain]
    #[arg(long, value_name = "NAME")]
    pub transform: Option<Transform>,
}

impl TransformArgument {
    /// The transform given, or this one.
    pub fn or(self, other: Transform) -> Transform {
        self.transform.unwrap_or(other)
    }
}

impl HashRuleArguments {
    /// The rule with the fields given, or these by default, unless the file has them. The CPUs are placeholders.
    pub fn rule(&self, given: Option<HashFields>, default: HashFields) -> anyhow::Result<HashRule> {
        let fields = given.unwrap_or(default);
        let mut rule = match &self.steering {
            None => HashRule {
                steering: self.of_flags(fields)?,
                transform: Transform::Plain,
            },
            Some(path) => {
                let (mut rule, has_fields) = rule_from_file(path, given.is_some())?;
                if !has_fields {
                    rule.steering.hash_fields = fields;
                }
                rule
            }
        };
        rule.transform = self.transform.or(rule.transform);
        Ok(rule)
    }

    fn of_flags(&self, fields: HashFields) -> anyhow::Result<Steering> {
        let buckets = match self.flags.buckets {
            Some(buckets) => buckets,
            None => usable_cpus()?.len(),
        };
        // Bounds the number of buckets before there is a CPU for each.
        table(self.flags.entries(), buckets)?;
        from_rule(&self.flags, fields, (0..buckets as u32).collect())
    }
}

/// The steering document of `--steering`, if given.
pub fn given(file: Option<&PathBuf>) -> anyhow::Result<Option<Steering>> {
    file.map(|path| from_file(path)).transpose()
}

/// Reads a steering document: a file of its own, the only one in another document, or the line of a server that is
/// ready.
pub fn from_file(path: &Path) -> anyhow::Result<Steering> {
    let what = "the output of ethtool -x does not say the CPUs of the queues: give a steering document";
    match rule_from_file(path, false)? {
        (rule, true) => Ok(rule.steering),
        (_, false) => Err(wrong_file("--steering", path, what)),
    }
}

/// The steering of a text, as [`from_file`] reads it.
fn parsed(text: &str) -> Result<Steering, String> {
    if let Some(steering) = ready::steering(text) {
        return steering;
    }
    let expected = "a steering document, as in `serve --write-steering` and `steer --json`";
    let document: Value = parse(text, expected)?;
    let mut embedded = Vec::new();
    find(&document, &mut embedded);
    match &embedded[..] {
        [] => parse_as(Steering::SCHEMA, text, expected),
        // A part is parsed from its own text.
        [steering] => parse_as(Steering::SCHEMA, &steering.to_string(), expected),
        several => {
            let several = several.len();
            Err(format!(
                "it has {several} different steering documents: give one of them"
            ))
        }
    }
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
        let what = format!("CPU {cpu} is not allowed here; allowed: {there}");
        return Err(usage("--cpus", what));
    }
    let workers = workers.unwrap_or(named.len());
    if workers > named.len() && !share {
        let what = format!("{workers} need {workers} CPUs, but {} are listed", named.len());
        return Err(refuse(what));
    }
    Ok(named.iter().copied().cycle().take(workers).collect())
}
