//! The tables of a run, each built once and shared by all steps that use it.

use super::plan::Request;
use crate::classify::document::{Setting, TableKind};
use corelane_host::pages::HugeBytes;
use corelane_table::limit::RandomLines;
use corelane_table::post::PostTable;
use corelane_table::{ExactMap, MemoryError, Placement, Seed, Value};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Everything that threads read.
pub struct Tables {
    /// The addresses in the full tables.
    pub entries: Vec<Ipv4Addr>,
    posts: BTreeMap<(u64, bool), Made<PostTable>>,
    pub exact: Made<ExactMap<Ipv4Addr>>,
    /// Memory of the exact table's size, for reading random lines.
    pub limit: Made<RandomLines>,
}

/// A table and facts about its memory.
pub struct Made<T> {
    pub table: T,
    pub memory: Memory,
}

#[derive(Clone, Copy)]
pub struct Memory {
    pub bytes: u64,
    /// Bytes of the pages that most of it is in.
    pub page_size: Option<u64>,
}

impl<T> Made<T> {
    /// Builds a table and determines its page size.
    fn make<E>(make: impl FnOnce() -> Result<T, E>, bytes: impl FnOnce(&T) -> usize) -> Result<Made<T>, E> {
        let before = HugeBytes::read();
        let table = make()?;
        let bytes = bytes(&table) as u64;
        let page_size = before.ok().and_then(|before| before.page_size_of(bytes));
        let memory = Memory { bytes, page_size };
        Ok(Made { table, memory })
    }
}

impl Tables {
    /// The tables that these settings take.
    pub fn new(request: &Request, settings: &[Setting]) -> Result<Tables, MemoryError> {
        let mut random = Rng::with_seed(request.seed);
        let entries: Vec<Ipv4Addr> = (0..request.entries)
            .map(|_| Ipv4Addr::from_bits(random.u32(..)))
            .collect();
        let exact = Made::make(|| exact_map(&entries, request.seed), |map| map.memory_bytes())?;
        let limit = Made::make(
            || RandomLines::new(exact.table.memory_bytes(), Placement::default()),
            |lines| lines.memory_bytes(),
        )?;
        let mut posts = BTreeMap::new();
        for setting in settings.iter().filter(|setting| setting.table == TableKind::Post) {
            let (buckets, full) = key(setting);
            posts.entry((buckets, full)).or_insert_with(|| {
                let members = if full { entries.as_slice() } else { &[] };
                let make = || Ok::<_, std::convert::Infallible>(PostTable::new(buckets as usize, members));
                let Ok(made) = Made::make(make, PostTable::memory_bytes);
                made
            });
        }
        Ok(Tables {
            entries,
            posts,
            exact,
            limit,
        })
    }

    /// The post's table of a setting that looks up in it, and that the tables were made for.
    pub fn post(&self, setting: &Setting) -> &Made<PostTable> {
        &self.posts[&key(setting)]
    }
}

/// Buckets, and whether there are entries.
fn key(setting: &Setting) -> (u64, bool) {
    (setting.table_buckets.unwrap_or(1), setting.entries > 0)
}

fn exact_map(entries: &[Ipv4Addr], seed: u64) -> Result<ExactMap<Ipv4Addr>, MemoryError> {
    let mut map = ExactMap::with_capacity(entries.len(), Seed(seed), Placement::default())?;
    let members: Vec<_> = entries.iter().map(|entry| (*entry, Value::MEMBER)).collect();
    map.insert_all(&members)?;
    Ok(map)
}
