//! From flags to the rule that both ends share: key, table, buckets and CPUs, or a steering document from a file.

use crate::outcome::{CannotRun, usage};
use crate::shared::RuleArguments;
use anyhow::Context;
use corelane_host::cpus::{self, PlacementOptions};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use std::path::Path;

/// The steering document of these flags, with `cpus` as its buckets' CPUs.
pub fn from_rule(rule: &RuleArguments, hash_fields: HashFields, cpus: Vec<u32>) -> anyhow::Result<Steering> {
    let buckets = rule.buckets.unwrap_or(cpus.len());
    let table = IndirectionTable::round_robin(rule.table_size, buckets)
        .map_err(|error| usage("--table-size and --buckets", error))?;
    Ok(Steering {
        key: rule.key.clone().unwrap_or(Key::VERIFICATION),
        hash_fields,
        table,
        cpus,
        generation: 0,
    })
}

/// As [`from_rule`], where no worker will run: the CPUs do not matter.
pub fn without_cpus(rule: &RuleArguments, hash_fields: HashFields) -> anyhow::Result<Steering> {
    let buckets = match rule.buckets {
        Some(buckets) => buckets,
        None => usable_cpus()?.len(),
    };
    from_rule(rule, hash_fields, (0..buckets as u32).collect())
}

/// Reads a steering document.
pub fn from_file(path: &Path) -> anyhow::Result<Steering> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--steering: {}", path.display()))?;
    let wrong = |error: &dyn std::fmt::Display| usage("--steering", format!("{}: {error}", path.display()));
    // A server's report embeds the document; either may be given.
    let mut document: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if let Some(embedded) = document.get_mut("steering") {
        document = embedded.take();
    }
    let steering: Steering = serde_json::from_value(document).map_err(|error| wrong(&error))?;
    steering.validate().map_err(|error| wrong(&error))?;
    Ok(steering)
}

/// CPUs that workers may be placed on without sharing.
pub fn usable_cpus() -> anyhow::Result<Vec<u32>> {
    let (topology, allowed) = (cpus::topology()?, cpus::allowed()?);
    let mut usable = Vec::new();
    for workers in 1..=allowed.cpus.len() {
        match cpus::placement(&topology, &allowed, workers, PlacementOptions::default()) {
            Ok(placed) => usable = placed,
            Err(_) => break,
        }
    }
    if usable.is_empty() {
        return Err(CannotRun(
            "no CPU is both online and allowed: see taskset and the cgroup's cpuset".to_owned(),
        )
        .into());
    }
    Ok(usable)
}

/// Who asks for CPUs: the flag that a refusal names, and what it may suggest.
#[derive(Debug, Clone, Copy)]
pub enum Asking {
    /// `--buckets`, which `--share-cpus` may put on fewer CPUs.
    Buckets {
        /// Whether it was given.
        share: bool,
    },
    /// `--workers`.
    Workers,
}

impl Asking {
    fn refuse(self, what: impl std::fmt::Display) -> anyhow::Error {
        match self {
            Self::Buckets { .. } => usage(
                "--buckets",
                format!("{what} (--cpus LIST names them, --share-cpus shares)"),
            ),
            Self::Workers => usage("--workers", format!("{what} (--cpus LIST names them)")),
        }
    }

    fn share(self) -> bool {
        matches!(self, Self::Buckets { share: true })
    }
}

/// One CPU a worker, from `--cpus` or from what the machine allows.
pub fn place(list: Option<&str>, workers: Option<usize>, asking: Asking) -> anyhow::Result<Vec<u32>> {
    let Some(list) = list else {
        let workers = match workers {
            Some(workers) => workers,
            None => return usable_cpus(),
        };
        let options = PlacementOptions {
            share: asking.share(),
            ..PlacementOptions::default()
        };
        return cpus::placement(&cpus::topology()?, &cpus::allowed()?, workers, options)
            .map_err(|error| asking.refuse(error));
    };
    let named = cpus::list::parse(list).filter(|cpus| !cpus.is_empty());
    let named = named.ok_or_else(|| usage("--cpus", format!("'{list}' is no CPU list: write 0-3,6")))?;
    let allowed = cpus::allowed()?.cpus;
    if let Some(cpu) = named.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(usage(
            "--cpus",
            format!(
                "CPU {cpu} is not allowed here; allowed: {}",
                cpus::list::format(&allowed)
            ),
        ));
    }
    let workers = workers.unwrap_or(named.len());
    if workers > named.len() && !asking.share() {
        let what = format!("{workers} need {workers} CPUs, and {} are named", named.len());
        return Err(asking.refuse(what));
    }
    Ok(named.iter().copied().cycle().take(workers).collect())
}
