//! The words of `-o`: each one of memcached's is honoured, accepted without effect, or refused with what to use instead.

use std::fmt::Display;

/// What a word means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Close idle connections after so many seconds.
    IdleTimeout,
    /// Whether lists of keys are allowed from the start.
    Crawler(bool),
    /// What is done in any case.
    AlwaysSo,
    /// Accepted: it tunes what does not exist here.
    NoEffect(&'static str),
    /// Refused.
    Refused(&'static str),
}
use Meaning::{AlwaysSo, Crawler, IdleTimeout, NoEffect, Refused};

/// The value of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A value or none.
    Maybe,
    Number,
    Text,
}

const NO_SLABS: &str = "there are no slabs: memory is a log of segments";
const NO_LRU: &str = "there are no lists by age: accesses are counted in the index";
const NO_CRAWLER: &str = "expired items are reclaimed between requests, by each worker";
const NO_LOGGER: &str = "the buffers of `watch` are those of its connection";
const NO_STORAGE: &str = "there is no external storage: all items are in memory (-m)";
const NO_PROXY: &str = "there is no proxy: use memcached's";
const NO_CLIENT_CERTIFICATES: &str = "clients are not asked for certificates: leave it out";

/// memcached's words, in its order.
const WORDS: [(&str, Takes, Meaning); 53] = [
    ("maxconns_fast", Takes::Nothing, AlwaysSo),
    (
        "no_maxconns_fast",
        Takes::Nothing,
        NoEffect("one connection too many always gets an error at once"),
    ),
    (
        "hashpower",
        Takes::Number,
        NoEffect("the index grows by a bucket at a time, from nothing"),
    ),
    (
        "no_hashexpand",
        Takes::Nothing,
        NoEffect("the index grows by a bucket at a time, without a thread"),
    ),
    ("slab_reassign", Takes::Nothing, NoEffect(NO_SLABS)),
    ("no_slab_reassign", Takes::Nothing, NoEffect(NO_SLABS)),
    ("slab_automove", Takes::Maybe, NoEffect(NO_SLABS)),
    ("no_slab_automove", Takes::Nothing, NoEffect(NO_SLABS)),
    ("slab_automove_ratio", Takes::Number, NoEffect(NO_SLABS)),
    ("slab_automove_window", Takes::Number, NoEffect(NO_SLABS)),
    ("slab_automove_freeratio", Takes::Number, NoEffect(NO_SLABS)),
    ("slab_sizes", Takes::Text, NoEffect(NO_SLABS)),
    ("slab_chunk_max", Takes::Number, NoEffect(NO_SLABS)),
    ("no_chunked_items", Takes::Nothing, NoEffect(NO_SLABS)),
    ("tail_repair_time", Takes::Number, NoEffect(NO_LRU)),
    (
        "hash_algorithm",
        Takes::Text,
        NoEffect("keys are hashed by XXH64, with a random seed"),
    ),
    ("lru_crawler", Takes::Nothing, Crawler(true)),
    ("no_lru_crawler", Takes::Nothing, Crawler(false)),
    ("lru_crawler_sleep", Takes::Number, NoEffect(NO_CRAWLER)),
    ("lru_crawler_tocrawl", Takes::Number, NoEffect(NO_CRAWLER)),
    ("lru_maintainer", Takes::Nothing, NoEffect(NO_LRU)),
    ("no_lru_maintainer", Takes::Nothing, NoEffect(NO_LRU)),
    ("hot_lru_pct", Takes::Number, NoEffect(NO_LRU)),
    ("warm_lru_pct", Takes::Number, NoEffect(NO_LRU)),
    ("hot_max_factor", Takes::Number, NoEffect(NO_LRU)),
    ("warm_max_factor", Takes::Number, NoEffect(NO_LRU)),
    ("temporary_ttl", Takes::Number, NoEffect(NO_LRU)),
    ("idle_timeout", Takes::Number, IdleTimeout),
    ("watcher_logbuf_size", Takes::Number, NoEffect(NO_LOGGER)),
    ("worker_logbuf_size", Takes::Number, NoEffect(NO_LOGGER)),
    (
        "track_sizes",
        Takes::Nothing,
        NoEffect("`stats sizes` does not count sizes"),
    ),
    ("inline_ascii_resp", Takes::Nothing, NoEffect("as in memcached")),
    (
        "no_inline_ascii_resp",
        Takes::Nothing,
        NoEffect("as in memcached"),
    ),
    ("resp_obj_mem_limit", Takes::Maybe, NoEffect("as in memcached")),
    (
        "read_buf_mem_limit",
        Takes::Number,
        NoEffect("each connection has its own bound"),
    ),
    ("modern", Takes::Nothing, NoEffect("as in memcached")),
    (
        "no_modern",
        Takes::Nothing,
        NoEffect("it restores slabs and lists of an earlier memcached"),
    ),
    ("no_drop_privileges", Takes::Nothing, AlwaysSo),
    (
        "drop_privileges",
        Takes::Nothing,
        Refused("system calls are not filtered by the program: start it by its systemd unit, which does"),
    ),
    (
        "relaxed_privileges",
        Takes::Nothing,
        Refused("system calls are not filtered by the program: start it by its systemd unit, which does"),
    ),
    (
        "sock_cookie_id",
        Takes::Number,
        Refused("sockets get no cookie: filter by address and port"),
    ),
    (
        "ssl_chain_cert",
        Takes::Text,
        Refused("use --tls --certificate FILE"),
    ),
    ("ssl_key", Takes::Text, Refused("use --tls --private-key FILE")),
    (
        "ssl_keyformat",
        Takes::Text,
        Refused("keys are PEM (--private-key): leave it out"),
    ),
    ("ssl_verify_mode", Takes::Text, Refused(NO_CLIENT_CERTIFICATES)),
    ("ssl_ca_cert", Takes::Text, Refused(NO_CLIENT_CERTIFICATES)),
    (
        "ssl_ciphers",
        Takes::Text,
        Refused("the ciphers are those of TLS 1.2 and 1.3 that are safe: leave it out"),
    ),
    (
        "ssl_min_version",
        Takes::Text,
        Refused("it is TLS 1.2: leave it out"),
    ),
    (
        "ssl_wbuf_size",
        Takes::Text,
        Refused("output is not buffered by TLS: leave it out"),
    ),
    (
        "ssl_session_cache",
        Takes::Nothing,
        Refused("sessions are resumed in any case: leave it out"),
    ),
    (
        "ssl_kernel_tls",
        Takes::Nothing,
        Refused("TLS is not offloaded: leave it out"),
    ),
    // Beginnings of words.
    ("proxy_", Takes::Maybe, Refused(NO_PROXY)),
    ("ext_", Takes::Maybe, Refused(NO_STORAGE)),
];

/// What the words ask for; later ones win.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Seconds after which an idle connection is closed.
    pub idle_timeout: Option<u32>,
    /// Lists of keys are not allowed from the start.
    pub no_crawler: bool,
    /// A line for each word without effect.
    pub without_effect: Vec<String>,
}

impl Extended {
    /// Of the values of `-o`, each a list of words.
    ///
    /// # Errors
    /// What is wrong with a word.
    pub fn of(values: &[String]) -> Result<Self, String> {
        let mut extended = Self::default();
        let words = values.iter().flat_map(|value| value.split(','));
        for word in words.map(str::trim).filter(|word| !word.is_empty()) {
            extended.take(word)?;
        }
        Ok(extended)
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let wrong = |what: &dyn Display| format!("{name}: {what}");
        let is_named = |known: &str| known == name || known.ends_with('_') && name.starts_with(known);
        let known = WORDS.iter().find(|(known, ..)| is_named(known));
        let Some((_, takes, meaning)) = known else {
            return Err(wrong(&"memcached 1.6.45 has no such option: leave it out"));
        };
        if let Refused(instead) = meaning {
            return Err(wrong(instead));
        }
        check(*takes, value).map_err(|what| wrong(&what))?;
        match meaning {
            IdleTimeout => {
                let seconds = value.and_then(|value| value.parse().ok());
                let seconds: u32 = seconds.ok_or_else(|| wrong(&"give a whole number of seconds"))?;
                self.idle_timeout = Some(seconds).filter(|seconds| *seconds > 0);
            }
            Crawler(is_allowed) => self.no_crawler = !is_allowed,
            NoEffect(reason) => self
                .without_effect
                .push(format!("-o {name} has no effect: {reason}")),
            AlwaysSo | Refused(_) => {}
        }
        Ok(())
    }
}

fn check(takes: Takes, value: Option<&str>) -> Result<(), &'static str> {
    match (takes, value) {
        (Takes::Number, None) => Err("give a number, such as NAME=10"),
        (Takes::Number, Some(value)) if !value.parse::<f64>().is_ok_and(|number| number >= 0.0) => {
            Err("give a number, such as NAME=10")
        }
        (Takes::Text, None | Some("")) => Err("give a value, as NAME=VALUE"),
        _ => Ok(()),
    }
}
