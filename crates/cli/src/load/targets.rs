//! Flags of `load http` for requests that differ: files of targets, and values of a CSV file.

use crate::documents::read_with;
use crate::outcome::usage;
use crate::values::{Choices, one_of};
use clap::Args;
use corelane_load::http::Order;
use corelane_load::http::scenario::{TargetFiles, UrlEntry};
use corelane_load::http::targets::{Targets, Values};
use corelane_proto::http::url::Url;
use std::path::PathBuf;

const ORDER: &Choices<Order> = &[
    (
        "in-turn",
        Order::InTurn,
        "One after the other, over all connections, and again from the first",
    ),
    ("random", Order::Random, "Each drawn at random"),
];

/// Requests of files.
#[derive(Debug, Args)]
pub struct TargetArguments {
    /// Requests from a file in vegeta's plain format or its JSON lines, or from standard input (-); their URLs are paths of
    /// URL, or whole URLs of one server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "sends", "check"])]
    pub targets: Option<PathBuf>,
    /// Make each request with the values of each row of this CSV file: {column} in URL, headers and body is replaced
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Order of the requests of --targets and --data [default: in-turn]
    #[arg(long, value_parser = one_of(ORDER))]
    pub order: Option<Order>,
}

impl TargetArguments {
    /// The URL of the server, and the requests: those of the files, with what `entry` has for all, or `entry`.
    pub fn requests(
        &self,
        url: Option<&Url>,
        entry: UrlEntry,
    ) -> anyhow::Result<(Url, Vec<UrlEntry>, Option<TargetFiles>)> {
        let (server, mut entries) = match (&self.targets, url) {
            (Some(path), _) => {
                let targets = read_with("--targets", path, |text| Targets::read(text, url))?;
                let mut entries = targets.entries;
                entries.iter_mut().for_each(|target| add_headers(target, &entry));
                (targets.server, entries)
            }
            (None, Some(url)) => {
                let path = url.target.clone();
                (url.clone(), vec![UrlEntry { path, ..entry }])
            }
            (None, None) => return Err(usage("URL", "give one, or --targets, or --scenario")),
        };
        if let Some(path) = &self.data {
            entries = read_with("--data", path, |text| {
                let values = Values::read(text).map_err(|error| error.to_string())?;
                values.fill(&entries)
            })?;
        }
        let files: Vec<PathBuf> = self.targets.iter().chain(&self.data).cloned().collect();
        if files.is_empty() && self.order.is_some() {
            let both = "applies to the requests of --targets and --data: give one of them";
            return Err(usage("--order", both));
        }
        let order = self.order.unwrap_or_default();
        let files = (!files.is_empty()).then_some(TargetFiles { files, order });
        Ok((server, entries, files))
    }
}

/// Adds the header fields of the command line that a target does not have itself.
fn add_headers(target: &mut UrlEntry, entry: &UrlEntry) {
    let own = target.headers.clone();
    let is_own = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let more = entry.headers.iter().filter(|(name, _)| !is_own(name));
    target.headers.extend(more.cloned());
}
