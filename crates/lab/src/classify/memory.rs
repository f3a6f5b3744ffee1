//! The memory that the tables and the traffic of an experiment take, before they are made: a process that takes more
//! than its control group has is killed without a word.

use super::document::{Setting, TableKind};
use super::plan::{PAIRS, Request, key};
use crate::error::Refusal;
use corelane_host::memory;
use corelane_measure::quantity;
use corelane_table::{ExactMap, MemoryError, Placement, Seed, Value};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Refuses tables that do not fit into the memory of this process.
pub(super) fn check(request: &Request, settings: &[Setting]) -> anyhow::Result<()> {
    let needed = needed(request, settings)?;
    // Where the kernel does not say, nothing is known to be too much.
    match memory::allowed_bytes() {
        Ok(allowed) if needed > allowed => {
            let [needed, allowed] = [needed, allowed].map(quantity::bytes);
            let why = format!(
                "the tables need {needed} of memory, and {allowed} are left for this process: give fewer entries, and \
                 --buckets or --tables that need less"
            );
            Err(Refusal::new("--entries", why).into())
        }
        _ => Ok(()),
    }
}

/// Bytes at the most, with what is needed only while tables are filled.
fn needed(request: &Request, settings: &[Setting]) -> Result<u64, MemoryError> {
    let entries = request.plan.entries;
    let address = size_of::<Ipv4Addr>() as u64;
    // Its memory is not provided by the kernel before entries are written.
    let exact = ExactMap::<Ipv4Addr>::with_capacity(entries as usize, Seed(0), Placement::default())?;
    let of_posts = settings.iter().filter(|setting| setting.table == TableKind::Post);
    let posts: BTreeSet<(u64, bool)> = of_posts.map(key).collect();
    let posts = posts.iter();
    let posts = posts.map(|(buckets, full)| (*buckets, if *full { entries } else { 0 }));
    let kept = posts
        .clone()
        .map(|(buckets, entries)| post(buckets, entries))
        .sum::<u64>();
    // The vectors that a table of the post is filled from, and the members that the exact table is.
    let filling = posts
        .map(|(buckets, entries)| buckets * 24 + entries * address)
        .max();
    let members = entries * size_of::<(Ipv4Addr, Value)>() as u64;
    let traffic = PAIRS as u64 * 3 * address;
    // The exact table, and lines of the same size.
    let twice = 2 * exact.memory_bytes() as u64;
    Ok(entries * address + twice + kept + filling.unwrap_or(0).max(members) + traffic)
}

/// A table of the post: heads of 16 bytes, and an allocation for each bucket with addresses, which takes 16 bytes more.
const fn post(buckets: u64, entries: u64) -> u64 {
    let arrays = if buckets < entries { buckets } else { entries };
    buckets * 16 + entries * 4 + arrays * 16
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Lists, settings};
    use super::super::run::Tables;
    use super::*;
    use crate::classify::document::Plan;

    #[test]
    fn what_the_tables_hold_is_most_of_what_they_are_said_to_need() {
        let plan = Plan {
            burst: 256,
            ring: 1024,
            entries: 300_000,
            cpus: vec![0],
            ..Plan::default()
        };
        let request = Request {
            lists: Lists::all(1),
            every_combination: false,
            plan,
        };
        let settings = settings(&request).unwrap();
        let needed = needed(&request, &settings).unwrap();
        let tables = Tables::new(&request, &settings).unwrap();
        let posts: BTreeSet<(u64, bool)> = settings
            .iter()
            .filter(|setting| setting.table == TableKind::Post)
            .map(key)
            .collect();
        assert!(posts.len() >= 2, "{posts:?}");
        let of_settings = settings.iter().filter(|setting| setting.table == TableKind::Post);
        let mut counted = BTreeSet::new();
        let own = of_settings.filter(|setting| counted.insert(key(setting)));
        let held = own.map(|setting| tables.post(setting).memory.0).sum::<u64>()
            + tables.exact.memory.0
            + tables.limit.memory.0
            + 4 * tables.entries.len() as u64;
        assert!(held < needed && needed < 3 * held, "{held} {needed}");
    }
}
