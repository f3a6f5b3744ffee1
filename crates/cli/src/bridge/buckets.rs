//! The buckets of a bridge: how frames are spread over them and dispatched, and the tables of what was.

use crate::settings::settings;
use crate::shared::RuleArguments;
use crate::steering;
use crate::terminal::width;
use crate::values::hash_types;
use clap::Args;
use corelane_packet::HashTypes;
use corelane_report::table::Table;
use corelane_rss::HashFields;
use corelane_serve::bridge::{BucketsPlan, Dispatched};
use corelane_stage::dispatch::DispatchPlan;
use std::path::PathBuf;

/// Spreads frames over buckets by their hash, each with a worker.
#[derive(Debug, Clone, Args)]
pub struct BucketArguments {
    /// Where frames are handled: direct, deferred or hybrid; by protocol with a policy (source, flow, cpu), such as
    /// hybrid,ip=deferred/flow,limit=1024 [default with buckets: hybrid]
    #[arg(long, value_name = "METHOD", value_parser = dispatch)]
    pub dispatch: Option<DispatchPlan>,
    /// Fields to hash: 2tuple, 4tuple, driver (addresses, and ports of TCP), or NDIS types such as IPV4,UDP_IPV4
    /// [default with buckets: driver]
    #[arg(long, value_name = "TYPES", value_parser = hash_types)]
    pub hash: Option<HashTypes>,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// Steering document, instead of fields, key, table and buckets; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hash", "key", "table_size", "buckets"])]
    pub steering: Option<PathBuf>,
}

fn dispatch(text: &str) -> Result<DispatchPlan, String> {
    settings(text, Some("default"))
}

impl BucketArguments {
    /// The buckets, if any of these flags is given; by default one per worker.
    pub fn plan(&self, workers: usize) -> anyhow::Result<Option<BucketsPlan>> {
        let rule = &self.rule;
        let is_given = [
            self.dispatch.is_some(),
            self.hash.is_some(),
            self.steering.is_some(),
            rule.key.is_some(),
            rule.table_size.is_some(),
            rule.buckets.is_some(),
        ];
        is_given.contains(&true).then(|| self.given(workers)).transpose()
    }

    /// The same, by default also one per worker if none is given.
    pub fn given(&self, workers: usize) -> anyhow::Result<BucketsPlan> {
        let rule = &self.rule;
        let steering = match &self.steering {
            Some(file) => steering::from_file(file)?,
            None => {
                let buckets = rule.buckets.unwrap_or(workers);
                steering::from_rule(rule, HashFields::TwoTuple, (0..buckets as u32).collect())?
            }
        };
        let by_file = self
            .steering
            .as_ref()
            .map(|_| HashTypes::of_fields(steering.hash_fields));
        Ok(BucketsPlan {
            key: steering.key,
            hash_types: self.hash.or(by_file).unwrap_or(HashTypes::DRIVER_DEFAULT),
            table: steering.table,
            buckets: steering.cpus.len() as u16,
            dispatch: self.dispatch.clone().unwrap_or_default(),
        })
    }
}

/// The three tables of `netstat -Q`: settings, protocols, and the queues of buckets ("workstreams").
pub fn tables(dispatched: &Dispatched) -> String {
    let shown = |(title, table): (&str, Table)| format!("{title}:\n{}", table.render(width().tables));
    dispatched.tables().map(shown).join("\n")
}
