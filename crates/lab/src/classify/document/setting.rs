//! What one step is measured with: table, batch, prefetching, stride, threads and lock, under the names of flags and JSON.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Everything that distinguishes one step from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What the addresses are looked up in.
    pub table: TableKind,
    /// Buckets of the post's table; `None` for others.
    pub table_buckets: Option<u64>,
    /// Addresses in the table; 0 is the post's "empty hash set".
    pub entries: u64,
    /// Frames pulled from the ring at once.
    pub burst: usize,
    /// Frames that go through each stage (decapsulate, look up, forward) together.
    pub batch: usize,
    /// What is asked for ahead of a stage.
    pub prefetch: PrefetchKind,
    /// Lookups ahead of the work for which memory is asked, rolling through the burst, which is decapsulated first;
    /// `None` where each batch asks for its own, as in the post.
    pub prefetch_distance: Option<usize>,
    /// Bytes from one frame buffer to the next.
    pub stride: usize,
    /// Threads, each pinned to a CPU and with rings of its own, that share the table.
    pub threads: usize,
    /// The shared lock taken to look up.
    pub lock: LockKind,
}

/// What the addresses of a frame are looked up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// Nothing: frames are forwarded without being looked at, as netmap's own bridge does.
    None,
    /// The post's: buckets that point to arrays.
    Post,
    /// This project's exact map: one cache line a lookup.
    Exact,
}

/// What memory is asked for ahead of its use.
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
    /// Whether headers are asked for.
    #[must_use]
    pub const fn header(self) -> bool {
        matches!(self, Self::Header | Self::Both)
    }

    /// Whether buckets are asked for.
    #[must_use]
    pub const fn bucket(self) -> bool {
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

/// A name that is none of those there are.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no {what} {name:?}: give {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: &'static str,
}

/// Names of an enum, both ways.
macro_rules! named {
    ($kind:ident, $what:literal, $known:literal, $($variant:ident = $name:literal),+) => {
        impl $kind {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in flags and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl FromStr for $kind {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let known = Self::ALL.iter().find(|kind| kind.name() == text);
                known.copied().ok_or_else(|| UnknownName { what: $what, name: text.to_owned(), known: $known })
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

named!(
    TableKind,
    "table",
    "none, post or exact",
    None = "none",
    Post = "post",
    Exact = "exact"
);
named!(
    PrefetchKind,
    "kind of prefetching",
    "none, header, bucket, both or bucket-and-array",
    None = "none",
    Header = "header",
    Bucket = "bucket",
    Both = "both",
    BucketAndArray = "bucket-and-array"
);
named!(
    LockKind,
    "lock",
    "none, read or read-per-batch",
    None = "none",
    Read = "read",
    ReadPerBatch = "read-per-batch"
);

impl Setting {
    /// Whether it is another one but for the number of entries, of which both have some or none.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        (self.entries > 0) == (other.entries > 0)
            && Self {
                entries: other.entries,
                ..self.clone()
            } == *other
    }

    /// Whether strides are compared by it: one empty bucket, frames one at a time, and nothing prefetched, so that headers
    /// are all that is fetched.
    #[must_use]
    pub fn is_stride_probe(&self) -> bool {
        self.table == TableKind::Post
            && self.table_buckets == Some(1)
            && (self.entries, self.batch, self.threads) == (0, 1, 1)
            && (self.prefetch, self.lock) == (PrefetchKind::None, LockKind::None)
    }

    /// The table in words: `post 524 k, empty`, by its buckets.
    #[must_use]
    pub fn table_words(&self) -> String {
        match (self.table, self.table_buckets) {
            (TableKind::None, _) => "no lookup".to_owned(),
            (_, Some(1)) if self.entries == 0 => "headers only".to_owned(),
            (_, Some(buckets)) => {
                let empty = if self.entries == 0 { ", empty" } else { "" };
                format!(
                    "{} {}{empty}",
                    self.table,
                    corelane_measure::quantity::metric_brief(buckets as f64)
                )
            }
            (_, None) => self.table.to_string(),
        }
    }

    /// The prefetching in words: `bucket`, or `bucket, 32 ahead`.
    #[must_use]
    pub fn prefetch_words(&self) -> String {
        match self.prefetch_distance {
            Some(distance) => format!("{}, {distance} ahead", self.prefetch),
            None => self.prefetch.to_string(),
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
        for kind in PrefetchKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for kind in LockKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for kind in TableKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        let refusal = "hash".parse::<TableKind>().unwrap_err().to_string();
        assert!(refusal.contains("none, post or exact"), "{refusal}");
    }
}
