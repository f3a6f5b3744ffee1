//! The words of `-o`: each one of memcached's is honoured, accepted without effect, or refused with what to use instead.

use std::fmt::Display;

/// A reason, and words of memcached, each with the form of its value: `=N`, `=TEXT`, or `[=N]` if it may lack. One with `_` at the end
/// is the beginning of words.
type Words = &'static [(&'static str, &'static str)];

/// Words that are accepted, and tune what does not exist here.
const NO_EFFECT: Words = &[
    (
        "there are no slabs: memory is a log of segments",
        "slab_reassign no_slab_reassign slab_automove[=N] no_slab_automove slab_automove_ratio=N slab_automove_window=N \
         slab_automove_freeratio=N slab_sizes=TEXT slab_chunk_max=N no_chunked_items",
    ),
    (
        "there are no lists by age: accesses are counted in the index",
        "tail_repair_time=N lru_maintainer no_lru_maintainer hot_lru_pct=N warm_lru_pct=N hot_max_factor=N warm_max_factor=N \
         temporary_ttl=N",
    ),
    (
        "expired items are reclaimed between requests, by each worker",
        "lru_crawler_sleep=N lru_crawler_tocrawl=N",
    ),
    (
        "the buffers of `watch` are those of its connection",
        "watcher_logbuf_size=N worker_logbuf_size=N",
    ),
    (
        "as in memcached",
        "inline_ascii_resp no_inline_ascii_resp resp_obj_mem_limit[=N] modern",
    ),
    (
        "one connection too many always gets an error at once",
        "no_maxconns_fast",
    ),
    (
        "the index grows by a bucket at a time, from nothing",
        "hashpower=N",
    ),
    (
        "the index grows by a bucket at a time, without a thread",
        "no_hashexpand",
    ),
    (
        "keys are hashed by XXH64, with a random seed",
        "hash_algorithm=TEXT",
    ),
    ("each connection has its own bound", "read_buf_mem_limit=N"),
    ("it restores slabs and lists of an earlier memcached", "no_modern"),
];

/// Words that are refused, by what to use instead.
const REFUSED: Words = &[
    (
        "system calls are not filtered by the program: start it by its systemd unit, which does",
        "drop_privileges relaxed_privileges",
    ),
    (
        "clients are not asked for certificates: leave it out",
        "ssl_verify_mode ssl_ca_cert",
    ),
    (
        "there is no external storage: all items are in memory (-m)",
        "ext_",
    ),
    ("there is no proxy: use memcached's", "proxy_"),
    (
        "sockets get no cookie: filter by address and port",
        "sock_cookie_id",
    ),
    ("use --tls --certificate FILE", "ssl_chain_cert"),
    ("use --tls --private-key FILE", "ssl_key"),
    ("keys are PEM (--private-key): leave it out", "ssl_keyformat"),
    (
        "the ciphers are those of TLS 1.2 and 1.3 that are safe: leave it out",
        "ssl_ciphers",
    ),
    ("it is TLS 1.2: leave it out", "ssl_min_version"),
    ("output is not buffered by TLS: leave it out", "ssl_wbuf_size"),
    (
        "sessions are resumed in any case: leave it out",
        "ssl_session_cache",
    ),
    ("TLS is not offloaded: leave it out", "ssl_kernel_tls"),
];

/// The reason of a word, and the form of its value.
fn find(words: Words, name: &str) -> Option<(&'static str, &'static str)> {
    words.iter().find_map(|(reason, words)| {
        let parts = |word: &'static str| word.split_at(word.find(['=', '[']).unwrap_or(word.len()));
        let is_named = |known: &str| known == name || known.ends_with('_') && name.starts_with(known);
        let (_, form) = words.split(' ').map(parts).find(|(known, _)| is_named(known))?;
        Some((*reason, form))
    })
}

/// What the words ask for; later ones win.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Seconds after which an idle connection is closed.
    pub idle_timeout: Option<u32>,
    /// Lists of keys are not allowed from the start.
    pub no_crawler: bool,
    /// Items are counted by size.
    pub track_sizes: bool,
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
        if let Some((instead, _)) = find(REFUSED, name) {
            return Err(wrong(&instead));
        }
        if let Some((reason, form)) = find(NO_EFFECT, name) {
            check(form, value).map_err(|what| wrong(&what))?;
            let line = format!("-o {name} has no effect: {reason}");
            self.without_effect.push(line);
            return Ok(());
        }
        match name {
            "idle_timeout" => {
                check("=N", value).map_err(|what| wrong(&what))?;
                let seconds = value.and_then(|value| value.parse().ok());
                let seconds: u32 = seconds.ok_or_else(|| wrong(&"give a whole number of seconds"))?;
                self.idle_timeout = Some(seconds).filter(|seconds| *seconds > 0);
            }
            "lru_crawler" | "no_lru_crawler" => self.no_crawler = name == "no_lru_crawler",
            "track_sizes" => self.track_sizes = true,
            // What is done in any case.
            "maxconns_fast" | "no_drop_privileges" => {}
            _ => return Err(wrong(&"memcached 1.6.45 has no such option: leave it out")),
        }
        Ok(())
    }
}

fn check(form: &str, value: Option<&str>) -> Result<(), &'static str> {
    let is_number = |value: &str| value.parse::<f64>().is_ok_and(|number| number >= 0.0);
    match form {
        "=N" if !value.is_some_and(is_number) => Err("give a number, such as NAME=10"),
        "=TEXT" if value.is_none_or(str::is_empty) => Err("give a value, as NAME=VALUE"),
        _ => Ok(()),
    }
}
