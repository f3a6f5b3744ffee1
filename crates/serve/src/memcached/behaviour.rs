//! Settings that change what requests do.

use corelane_proto::memcached::control::Allowed;
use serde::{Deserialize, Serialize};

/// What requests may do, and what happens to memory and connections. The default is that of memcached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Behaviour {
    /// `flush_all` is refused (`-F`).
    pub no_flush: bool,
    /// What shows keys is refused (`-X`).
    pub no_dump: bool,
    /// `watch` is refused (`-W`).
    pub no_watch: bool,
    /// Lists of keys are refused until `lru_crawler enable` (`-o no_lru_crawler`).
    pub no_crawler: bool,
    /// `shutdown` ends the server (`-A`).
    pub shutdown: bool,
    /// Items have no numbers of changes: they are 0 (`-C`).
    pub no_cas: bool,
    /// When memory is full, items are refused instead of evicted (`-M`).
    pub no_evictions: bool,
    /// Items are counted by size, for `stats sizes` (`-o track_sizes`).
    pub track_sizes: bool,
    /// What ends the prefix of a key, an ASCII character; requests are counted by prefix from the start then (`-D`).
    pub prefix_delimiter: Option<char>,
    /// Seconds without a request after which a connection is closed; `None` for no limit (`-o idle_timeout`).
    pub idle_timeout: Option<u32>,
}

impl Behaviour {
    /// The requests about the whole server that are executed.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed {
            flush: !self.no_flush,
            dump: !self.no_dump,
            watch: !self.no_watch,
            shutdown: self.shutdown,
            crawler: !self.no_crawler,
        }
    }
}
