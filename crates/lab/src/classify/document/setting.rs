//! The setting of a step: table, batch, prefetching, stride, threads and lock, with the names used in flags and JSON.

use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The post's entries: "I loaded in a reasonably large hash table set (~ 6 million entries)".
pub const ENTRIES: u64 = 6_000_000;

/// Frames that the post pulls at once: "Pull in up to 1024 entries from the netmap receive ring".
pub const BURST: usize = 1024;

/// The post's numbers of buckets.
pub const BUCKETS: [u64; 2] = [524_288, 2_097_152];

/// The post's strides: netmap's default, and two cache lines less.
pub const STRIDES: [usize; 2] = [2048, 1920];

/// Everything that distinguishes one step from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The table.
    pub table: TableKind,
    /// Buckets of the post's table; `None` for others.
    pub table_buckets: Option<u64>,
    /// Addresses in the table; 0 is the post's "empty hash set".
    pub entries: u64,
    /// Frames pulled from the ring at once.
    pub burst: usize,
    /// Frames that go through each stage (decapsulate, look up, forward) together.
    pub batch: usize,
    /// What is prefetched before a stage.
    pub prefetch: PrefetchKind,
    /// Lookups ahead of the work for which memory is asked, rolling through the burst, which is decapsulated first;
    /// `None` if each batch asks for its own, as in the post.
    pub prefetch_distance: Option<usize>,
    /// Bytes from one frame buffer to the next.
    pub stride: usize,
    /// Threads, each pinned to a CPU and with rings of its own, that share the table.
    pub threads: usize,
    /// The shared lock taken to look up.
    pub lock: LockKind,
}

corelane_measure::words!(TableKind, PrefetchKind, LockKind);

/// What the addresses of a frame are looked up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// Nothing: frames are forwarded without being looked at, as netmap's own bridge does.
    None,
    /// The post's: buckets that point to arrays.
    Post,
    /// This project's exact map: one cache line per lookup.
    Exact,
}

/// What is prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// Nothing.
    None,
    /// The frame's Ethernet and IP headers, before they are decapsulated.
    Header,
    /// The table's bucket (of [`TableKind::Exact`], the line) before it is searched.
    Bucket,
    /// Both.
    Both,
    /// The bucket, then the array that it points to: more than the post did.
    BucketAndArray,
}

impl PrefetchKind {
    /// Whether headers are prefetched.
    pub(crate) const fn header(self) -> bool {
        matches!(self, Self::Header | Self::Both)
    }

    /// Whether buckets are prefetched.
    pub(crate) const fn bucket(self) -> bool {
        matches!(self, Self::Bucket | Self::Both | Self::BucketAndArray)
    }
}

/// The lock that readers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// None.
    None,
    /// A read lock for each frame's two lookups, as in the post.
    Read,
    /// A read lock for each batch.
    ReadPerBatch,
}

impl Setting {
    /// The post's: its full table with fewer buckets, frames one at a time, nothing prefetched, its remedy of a stride.
    pub const POST: Self = Self {
        table: TableKind::Post,
        table_buckets: Some(BUCKETS[0]),
        entries: ENTRIES,
        burst: BURST,
        batch: 1,
        prefetch: PrefetchKind::None,
        prefetch_distance: None,
        stride: STRIDES[1],
        threads: 1,
        lock: LockKind::None,
    };

    /// What strides are compared by: one empty bucket, frames one at a time, and nothing prefetched, so that headers
    /// are all that is fetched.
    pub const STRIDE_PROBE: Self = Self {
        table_buckets: Some(1),
        entries: 0,
        ..Self::POST
    };

    /// Whether it is another one but for the number of entries, of which both have some or none.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        let entries = other.entries;
        (self.entries > 0) == (entries > 0) && Self { entries, ..*self } == *other
    }

    /// Whether it is [`Self::STRIDE_PROBE`] of whatever stride and burst.
    pub(crate) fn is_stride_probe(&self) -> bool {
        let (stride, burst) = (STRIDES[1], BURST);
        Self {
            stride,
            burst,
            ..*self
        } == Self::STRIDE_PROBE
    }

    /// The table in words: `post 524 k, empty`, by its buckets.
    pub(crate) fn table_words(&self) -> String {
        match (self.table, self.table_buckets) {
            (TableKind::None, _) => "no lookup".to_owned(),
            (_, Some(1)) if self.entries == 0 => "headers only".to_owned(),
            (table, Some(buckets)) => {
                let empty = if self.entries == 0 { ", empty" } else { "" };
                let buckets = quantity::metric_brief(buckets as f64);
                format!("{table} {buckets}{empty}")
            }
            (table, None) => table.to_string(),
        }
    }

    /// The prefetching in words: `bucket`, or `bucket, 32 ahead`.
    pub(crate) fn prefetch_words(&self) -> String {
        let prefetch = self.prefetch;
        match self.prefetch_distance {
            Some(distance) => format!("{prefetch}, {distance} ahead"),
            None => prefetch.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        write!(
            out,
            "{}, batch {}, prefetch {}, stride {}, {} {threads}, lock {}",
            self.table_words(),
            self.batch,
            self.prefetch_words(),
            self.stride,
            self.threads,
            self.lock
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_flags_and_in_json_are_the_same() {
        use corelane_measure::words::{self, read_word};
        use serde::de::DeserializeOwned;
        use std::fmt::{Debug, Display};
        fn check<Kind: Serialize + DeserializeOwned + Display + Debug + PartialEq>(all: &[Kind]) {
            assert!(all.len() >= 3);
            for kind in all {
                assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
                assert_eq!(read_word::<Kind>(&kind.to_string()).as_ref(), Ok(kind));
            }
        }
        check(&words::all::<TableKind>());
        check(&words::all::<PrefetchKind>());
        check(&words::all::<LockKind>());
        let refusal = read_word::<TableKind>("hash").unwrap_err().to_string();
        assert!(refusal.contains("none, post or exact"), "{refusal}");
    }
}
