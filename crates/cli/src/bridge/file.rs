//! The file of `--config`: the flags of a bridge as keys, with a section for each table, for the dispatch and for each stage.
//! Its schema is `docs/bridge.schema.json`.

use super::buckets::BucketArguments;
use super::planned::Settings;
use crate::documents::{read_text, wrong_file};
use crate::shared::RuleArguments;
use crate::values;
use crate::wrong_words::nearest;
use corelane_packet::HashTypes;
use corelane_rss::Key;
use corelane_serve::bridge::{TablePlan, Verdict};
use corelane_stage::dispatch::DispatchPlan;
use corelane_stage::{STAGES, StagePlans};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, Deserializer as Document};

/// The flag that names the file.
const FLAG: &str = "--config";

/// The keys and sections of a file, without those of the stages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    link: Vec<String>,
    #[serde(default)]
    table: Vec<TablePlan>,
    #[serde(default)]
    otherwise: Verdict,
    #[serde(default)]
    not_ip: Verdict,
    #[serde(default)]
    skip_bad: bool,
    #[serde(default, deserialize_with = "time")]
    reload_every: Option<Duration>,
    #[serde(default)]
    no_reload: bool,
    workers: Option<usize>,
    cpus: Option<String>,
    batch: Option<usize>,
    buckets: Option<usize>,
    #[serde(default, deserialize_with = "hash")]
    hash: Option<HashTypes>,
    #[serde(default, deserialize_with = "key")]
    key: Option<Key>,
    table_size: Option<usize>,
    steering: Option<PathBuf>,
    dispatch: Option<DispatchPlan>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    by(values::duration, deserializer)
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HashTypes>, D::Error> {
    by(values::hash_types, deserializer)
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Key>, D::Error> {
    by(values::key, deserializer)
}

/// A value as its flag reads it.
fn by<'de, T, E: Display, D: Deserializer<'de>>(
    read: fn(&str) -> Result<T, E>,
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = read(&String::deserialize(deserializer)?);
    value.map(Some).map_err(D::Error::custom)
}

/// The settings of a file. Errors give the line.
pub fn settings(path: &Path) -> anyhow::Result<Settings> {
    let text = read_text(path).map_err(|error| wrong_file(FLAG, path, error))?;
    read(&text).map_err(|error| {
        let before = error.span().map(|span| &text[..span.start]);
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        wrong_file(FLAG, path, format!("line {line}: {}", message(&text, &error)))
    })
}

/// The message of an error. That of an unknown key names the one that was meant, or all, with the sections of stages.
fn message(text: &str, error: &toml::de::Error) -> String {
    let is_key = DeTable::parse(text).is_ok_and(|table| {
        let mut keys = table.get_ref().keys();
        keys.any(|key| Some(key.span()) == error.span())
    });
    let mut names = error.message().split('`').skip(1).step_by(2);
    match names.next() {
        Some(unknown) if is_key && error.message().starts_with("unknown field") => {
            let all = names.chain(STAGES.iter().map(|stage| stage.name));
            nearest(unknown, &all.collect::<Vec<_>>())
        }
        _ => error.message().to_owned(),
    }
}

/// The keys of a file, without these.
pub fn keys_but(path: &Path, these: &[&str]) -> anyhow::Result<Vec<String>> {
    let text = read_text(path)?;
    let table = DeTable::parse(&text)?;
    let keys = table.get_ref().keys().map(|key| key.get_ref().to_string());
    Ok(keys.filter(|key| !these.contains(&key.as_str())).collect())
}

/// An error about a setting of the file, which has been refused as a flag.
pub fn refused(path: &Path, error: &anyhow::Error) -> anyhow::Error {
    let text = &read_text(path).unwrap_or_default();
    let error = format!("{error:#}");
    let error = error.strip_prefix("--").unwrap_or(&error);
    let key = error
        .split([':', ' '])
        .next()
        .unwrap_or_default()
        .replace('-', "_");
    let table = DeTable::parse(text).ok();
    let found = table.and_then(|table| {
        let (key, _) = table.get_ref().iter().find(|(name, _)| *name.get_ref() == key)?;
        Some(text[..key.span().start].matches('\n').count() + 1)
    });
    match found {
        Some(line) => wrong_file(FLAG, path, format!("line {line}: {error}")),
        None => wrong_file(FLAG, path, error),
    }
}

/// The settings of a text. The sections of stages are read apart, so that an error has its place in the text.
fn read(text: &str) -> Result<Settings, toml::de::Error> {
    let document = DeTable::parse(text)?;
    let whole = document.span();
    let (mut rest, mut stages) = (DeTable::new(), DeTable::new());
    for (key, value) in document.into_inner() {
        let is_stage = STAGES.iter().any(|stage| stage.name == key.get_ref());
        let of = if is_stage { &mut stages } else { &mut rest };
        of.insert(key, value);
    }
    let document = |table| Document::from(Spanned::new(whole.clone(), table));
    let file = File::deserialize(document(rest))?;
    let stages = StagePlans::deserialize(document(stages))?;
    file.check().map_err(toml::de::Error::custom)?;
    Ok(file.with(stages))
}

impl File {
    /// Whether keys exclude each other.
    fn check(&self) -> Result<(), &'static str> {
        let rule = [
            self.hash.is_some(),
            self.key.is_some(),
            self.table_size.is_some(),
            self.buckets.is_some(),
        ];
        if self.no_reload && self.reload_every.is_some() {
            Err("no_reload and reload_every: give one of them")
        } else if self.steering.is_some() && rule.contains(&true) {
            Err("a steering document has fields, key, table and buckets: give it alone")
        } else {
            Ok(())
        }
    }

    /// The settings, with those of the stages.
    fn with(self, stages: StagePlans) -> Settings {
        let every = self.reload_every.unwrap_or(Duration::from_millis(500));
        Settings {
            links: self.link,
            tables: self.table,
            otherwise: self.otherwise,
            not_ip: self.not_ip,
            skip_bad: self.skip_bad,
            reload_every: (!self.no_reload).then_some(every),
            workers: self.workers,
            cpus: self.cpus,
            burst: self.batch,
            buckets: BucketArguments {
                dispatch: self.dispatch,
                hash: self.hash,
                rule: RuleArguments {
                    key: self.key,
                    table_size: self.table_size,
                    buckets: self.buckets,
                },
                steering: self.steering,
            },
            stages,
        }
    }
}
