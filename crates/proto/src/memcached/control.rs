//! Requests about the whole server: what they ask for. The server does it.

use crate::memcached::number::{i32_of, u32_of, wrapping_u32};
use crate::memcached::request::Control;
use crate::memcached::request::tokens::Tokens;
use crate::memcached::time::Clock;

const OK: &str = "OK\r\n";
const ERROR: &str = "ERROR\r\n";
const BAD_LINE: &str = "CLIENT_ERROR bad command line\r\n";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";

/// Slab classes have smaller numbers than this.
const SLAB_CLASSES: u32 = 64;

/// Which requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// `flush_all` (not with `-F`).
    pub flush: bool,
    /// What shows keys: `stats cachedump`, `stats detail`, `lru_crawler metadump` and `mgdump` (not with `-X`).
    pub dump: bool,
    /// `watch` (not with `-W`).
    pub watch: bool,
    /// `shutdown` (with `-A`).
    pub shutdown: bool,
    /// Lists of keys: `lru_crawler enable` allows them, and `disable` does not.
    pub crawler: bool,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Only this answer.
    Answer(&'static str),
    /// A setting of memcached's LRU, of its crawler or of its slabs, which is well formed: answered with `OK`.
    Setting,
    /// `version`.
    Version,
    /// `stats`.
    Stats(Stats),
    /// `watch`: the streams.
    Watch(Watched),
    /// `flush_all`: what was last accessed at or before this moment is gone once its time has come
    /// ([`Clock`]). 0 is before the server's start: nothing is gone then.
    FlushAll {
        /// The moment.
        moment: u32,
    },
    /// `verbosity`: 0 to 2.
    Verbosity(u8),
    /// `cache_memlimit`: memory for items in MiB; 8 to 1,000,000,000.
    MemoryLimit {
        /// MiB.
        mebibytes: u32,
    },
    /// `lru_crawler enable` and `disable`: [`Allowed::crawler`]; answered with `OK`.
    Crawler(bool),
    /// `lru_crawler metadump` and `mgdump`.
    Dump(Dump),
    /// `shutdown`.
    Shutdown {
        /// Whether requests that have begun end first.
        graceful: bool,
    },
    /// `refresh_certs`.
    RefreshCertificates,
}

/// Statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stats {
    /// The general ones.
    General,
    /// `reset`.
    Reset,
    /// `settings`.
    Settings,
    /// `conns`.
    Connections,
    /// `items`.
    Items,
    /// `slabs`.
    Slabs,
    /// `sizes`.
    Sizes,
    /// `corelane`: which worker owns which keys. memcached has none of this name.
    Corelane,
    /// `detail on` and `off`: counts by prefix of key.
    Detail(bool),
    /// `detail dump`.
    DetailDump,
    /// `cachedump`: keys of a slab class.
    CacheDump {
        /// The class.
        class: u32,
        /// The most keys; 0 is no limit.
        most: u32,
    },
}

/// Formats in which keys are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dump {
    /// `metadump`: a line with all that is known of an item.
    Items,
    /// `mgdump`: an `mg` request for each.
    Requests,
}

/// Streams of `watch`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watched(u16);

impl Watched {
    /// The names of all streams, and of those with several names the first one.
    pub const NAMES: [&str; 10] = [
        "rawcmds",
        "evictions",
        "fetchers",
        "mutations",
        "sysevents",
        "connevents",
        "proxyreqs",
        "proxyevents",
        "proxyuser",
        "deletions",
    ];

    /// `rawcmds`.
    pub const REQUESTS: Watched = Watched(1);

    /// One bit per stream, in the order of the names.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether it has the stream of this name.
    pub fn has(self, name: &str) -> bool {
        let place = Self::NAMES.iter().position(|stream| *stream == name);
        place.is_some_and(|place| self.0 & 1 << place != 0)
    }
}

impl Control<'_> {
    /// What the request asks for.
    pub fn action(&self, allowed: Allowed, clock: Clock) -> Action {
        let tokens = Tokens::new(self.line);
        let arguments = tokens.all().get(1..).unwrap_or_default();
        match tokens.all().first().copied().unwrap_or_default() {
            b"version" => Action::Version,
            b"stats" => stats(arguments, allowed),
            b"watch" if !allowed.watch => Action::Answer("CLIENT_ERROR watch commands not allowed\r\n"),
            b"watch" => watch(arguments),
            b"flush_all" if !allowed.flush => Action::Answer("CLIENT_ERROR flush_all not allowed\r\n"),
            b"flush_all" => self.flush_all(arguments, clock),
            b"verbosity" => match number(arguments, 0) {
                Some(level) => Action::Verbosity(level.min(2) as u8),
                None => Action::Answer(BAD_FORMAT),
            },
            b"cache_memlimit" => memory_limit(arguments),
            b"lru" => lru(arguments),
            b"lru_crawler" => lru_crawler(arguments, allowed),
            b"slabs" => slabs(arguments),
            b"shutdown" if !allowed.shutdown => Action::Answer("SERVER_ERROR: shutdown not enabled\r\n"),
            b"shutdown" => shutdown(arguments),
            b"refresh_certs" => Action::RefreshCertificates,
            _ => Action::Answer(ERROR),
        }
    }

    fn flush_all(&self, arguments: &[&[u8]], clock: Clock) -> Action {
        let delay = match arguments {
            [] => Some(0),
            [_] if self.quiet => Some(0),
            [delay, ..] => i32_of(delay),
        };
        match delay {
            None => Action::Answer("CLIENT_ERROR invalid exptime argument\r\n"),
            Some(delay @ 1..) => Action::FlushAll {
                moment: clock.expiry(delay).saturating_sub(1),
            },
            Some(_) => Action::FlushAll {
                moment: clock.now.saturating_sub(1),
            },
        }
    }
}

/// Whether an argument is the beginning of a name: memcached compares as many bytes as the argument has.
fn begins(name: &str, argument: &[u8]) -> bool {
    name.as_bytes().starts_with(argument)
}

fn number(arguments: &[&[u8]], place: usize) -> Option<u32> {
    arguments.get(place).and_then(|argument| u32_of(argument))
}

/// A number with a fraction, up to white space or a zero byte.
fn fraction(arguments: &[&[u8]], place: usize) -> Option<f64> {
    let argument = arguments.get(place)?;
    let number = argument.split(|byte| matches!(byte, 0 | b'\t'..=b'\r')).next()?;
    str::from_utf8(number).ok()?.parse().ok()
}

fn setting(ok: bool, otherwise: &'static str) -> Action {
    if ok {
        Action::Setting
    } else {
        Action::Answer(otherwise)
    }
}

fn stats(arguments: &[&[u8]], allowed: Allowed) -> Action {
    let Some(name) = arguments.first() else {
        return Action::Stats(Stats::General);
    };
    match *name {
        name if begins("reset", name) => Action::Stats(Stats::Reset),
        name if begins("detail", name) && !allowed.dump => {
            Action::Answer("CLIENT_ERROR stats detail not allowed\r\n")
        }
        name if begins("detail", name) => match arguments.get(1) {
            Some(what) if begins("on", what) => Action::Stats(Stats::Detail(true)),
            Some(what) if begins("off", what) => Action::Stats(Stats::Detail(false)),
            Some(what) if begins("dump", what) => Action::Stats(Stats::DetailDump),
            _ => Action::Answer("CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
        },
        name if begins("settings", name) => Action::Stats(Stats::Settings),
        name if begins("cachedump", name) && !allowed.dump => {
            Action::Answer("CLIENT_ERROR stats cachedump not allowed\r\n")
        }
        name if begins("cachedump", name) => cache_dump(&arguments[1..]),
        name if begins("conns", name) => Action::Stats(Stats::Connections),
        // There is no external storage: no statistics of it.
        name if begins("extstore", name) => Action::Answer("END\r\n"),
        b"items" => Action::Stats(Stats::Items),
        b"slabs" => Action::Stats(Stats::Slabs),
        b"sizes" => Action::Stats(Stats::Sizes),
        b"corelane" => Action::Stats(Stats::Corelane),
        _ => Action::Answer(ERROR),
    }
}

fn cache_dump(arguments: &[&[u8]]) -> Action {
    if arguments.len() < 2 {
        return Action::Answer(BAD_LINE);
    }
    match (number(arguments, 0), number(arguments, 1)) {
        (Some(class), Some(most)) if class < SLAB_CLASSES => Action::Stats(Stats::CacheDump { class, most }),
        (Some(_), Some(_)) => Action::Answer("CLIENT_ERROR Illegal slab id\r\n"),
        _ => Action::Answer(BAD_FORMAT),
    }
}

fn watch(arguments: &[&[u8]]) -> Action {
    if arguments.is_empty() {
        return watch(&[b"fetchers"]);
    }
    let mut streams = arguments
        .iter()
        .map(|argument| Watched::NAMES.iter().position(|name| begins(name, argument)));
    let all = streams.try_fold(0, |all, stream| Some(all | 1 << stream?));
    all.map_or(Action::Answer(ERROR), |streams| Action::Watch(Watched(streams)))
}

fn memory_limit(arguments: &[&[u8]]) -> Action {
    match number(arguments, 0) {
        None => Action::Answer(ERROR),
        Some(..8) => Action::Answer("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        Some(1_000_000_001..) => {
            Action::Answer("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n")
        }
        Some(mebibytes) => Action::MemoryLimit { mebibytes },
    }
}

fn lru(arguments: &[&[u8]]) -> Action {
    match arguments {
        [name, rest @ ..] if begins("tune", name) && rest.len() >= 4 => {
            let (Some(hot), Some(warm), Some(hot_factor), Some(warm_factor)) = (
                number(rest, 0),
                number(rest, 1),
                fraction(rest, 2),
                fraction(rest, 3),
            ) else {
                return Action::Answer(ERROR);
            };
            if hot.wrapping_add(warm) > 80 {
                Action::Answer("ERROR hot and warm pcts must not exceed 80\r\n")
            } else {
                let positive = !(warm_factor <= 0.0 || hot_factor <= 0.0);
                setting(positive, "ERROR hot/warm age factors must be greater than 0\r\n")
            }
        }
        [name, mode, ..] if begins("mode", name) => {
            setting(begins("flat", mode) || begins("segmented", mode), ERROR)
        }
        [name, seconds, ..] if begins("temp_ttl", name) => setting(i32_of(seconds).is_some(), ERROR),
        _ => Action::Answer(ERROR),
    }
}

fn lru_crawler(arguments: &[&[u8]], allowed: Allowed) -> Action {
    match arguments {
        [name, _]
            if !allowed.crawler
                && ["crawl", "metadump", "mgdump"]
                    .iter()
                    .any(|list| begins(list, name)) =>
        {
            Action::Answer("CLIENT_ERROR lru crawler disabled\r\n")
        }
        [name, classes] if begins("crawl", name) => match classes_of(classes) {
            Ok(()) => Action::Setting,
            Err(answer) => Action::Answer(answer),
        },
        [name, classes] if begins("metadump", name) => {
            dump(Dump::Items, classes, allowed, "ERROR metadump not allowed\r\n")
        }
        [name, classes] if begins("mgdump", name) => {
            dump(Dump::Requests, classes, allowed, "ERROR key dump not allowed\r\n")
        }
        [name, most] if begins("tocrawl", name) => setting(u32_of(most).is_some(), BAD_FORMAT),
        [name, pause] if begins("sleep", name) => match u32_of(pause) {
            None => Action::Answer(BAD_FORMAT),
            Some(1_000_001..) => Action::Answer("CLIENT_ERROR sleep must be one second or less\r\n"),
            Some(_) => Action::Setting,
        },
        [name] if begins("enable", name) && allowed.crawler => {
            Action::Answer("ERROR failed to start lru crawler thread\r\n")
        }
        [name] if begins("enable", name) => Action::Crawler(true),
        [name] if begins("disable", name) => Action::Crawler(false),
        _ => Action::Answer(ERROR),
    }
}

fn dump(dump: Dump, classes: &[u8], allowed: Allowed, refused: &'static str) -> Action {
    match classes_of(classes) {
        _ if !allowed.dump => Action::Answer(refused),
        Ok(()) => Action::Dump(dump),
        Err(answer) => Action::Answer(answer),
    }
}

/// `all`, `hash`, or numbers of slab classes. There is one class, so all mean the same.
fn classes_of(list: &[u8]) -> Result<(), &'static str> {
    let is_class = |class: &[u8]| wrapping_u32(class).is_some_and(|class| (1..SLAB_CLASSES).contains(&class));
    let classes = || list.split(|byte| *byte == b',').filter(|class| !class.is_empty());
    if list == b"all" || list == b"hash" {
        Ok(())
    } else if !classes().all(is_class) {
        Err("BADCLASS invalid class id\r\n")
    } else if classes().count() == 0 {
        Err("NOTSTARTED no items to crawl\r\n")
    } else {
        Ok(())
    }
}

fn slabs(arguments: &[&[u8]]) -> Action {
    match arguments {
        [name, from, to] if begins("reassign", name) => match (i32_of(from), i32_of(to)) {
            (Some(from), Some(to)) if from == to => {
                Action::Answer("SAME src and dst class are identical\r\n")
            }
            (Some(0..=63), Some(0..=63)) => Action::Answer("NOSPARE source class has no spare pages\r\n"),
            (Some(_), Some(_)) => Action::Answer("BADCLASS invalid src or dst class id\r\n"),
            _ => Action::Answer(BAD_FORMAT),
        },
        [name, rest @ ..] if begins("automove", name) && !rest.is_empty() => automove(rest),
        _ => Action::Answer(ERROR),
    }
}

fn automove(arguments: &[&[u8]]) -> Action {
    let name = arguments[0];
    if begins("ratio", name) || begins("freeratio", name) {
        setting(fraction(arguments, 1).is_some(), ERROR)
    } else if begins("window", name) {
        match number(arguments, 1) {
            None => Action::Answer(BAD_FORMAT),
            Some(3..=1800) => Action::Setting,
            Some(_) => Action::Answer("CLIENT_ERROR automove window too low or too high\r\n"),
        }
    } else {
        match u32_of(name) {
            None => Action::Answer(BAD_FORMAT),
            Some(level) => setting(level <= 2, ERROR),
        }
    }
}

fn shutdown(arguments: &[&[u8]]) -> Action {
    match arguments {
        [] => Action::Shutdown { graceful: false },
        [mode] if begins("graceful", mode) => Action::Shutdown { graceful: true },
        _ => Action::Answer("CLIENT_ERROR invalid shutdown mode\r\n"),
    }
}

impl Action {
    /// The answer of those that are done by answering.
    pub const fn answer(self) -> Option<&'static str> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Setting => Some(OK),
            _ => None,
        }
    }
}
