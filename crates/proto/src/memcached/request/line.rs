//! Command lines that are there as a whole.

use super::tokens::{MOST_TOKENS, NO_REPLY, Tokens, split, split_short};
use super::{
    Arithmetic, Control, Data, Delete, Event, LONGEST_KEY, Meta, MetaCommand, Mode, Reason, Request, Store,
    Touch,
};
use crate::memcached::number;

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";
const UNKNOWN: &str = "ERROR\r\n";

/// Lines with fewer bytes, the carriage return included, are no commands.
const SHORTEST: usize = 3;

/// Beyond this many bytes of a line no tokens are seen, except the keys of `get` and `gets`.
const SEEN: usize = 65_533;

/// Commands about the whole server. Spaces may be in front of them.
const CONTROLS: [&[u8]; 8] = [
    b"shutdown",
    b"slabs",
    b"cache_memlimit",
    b"flush_all",
    b"lru_crawler",
    b"verbosity",
    b"lru",
    b"refresh_certs",
];

/// What a line is.
pub enum Line<'a> {
    /// Keys follow from this byte on.
    Keys { keys: Keys, start: usize },
    /// A value follows.
    Store(Store<'a>),
    /// A value of this length follows, and is skipped.
    Swallow { length: u32, answer: &'static str },
    /// The connection is closed.
    Close(Reason),
    /// Nothing follows.
    Event(Event<'a>),
}

/// What the keys of one request have in common.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub with_cas: bool,
    pub touch: Option<i32>,
}

/// The line says that no answer is wanted, or not.
#[derive(Clone, Copy)]
struct Quiet(bool);

impl Quiet {
    fn answer(self, answer: &'static str) -> &'static str {
        if self.0 { "" } else { answer }
    }

    fn line<'a>(self, answer: &'static str) -> Line<'a> {
        Line::Event(if self.0 {
            Event::Nothing
        } else {
            Event::Answer(answer)
        })
    }
}

const LOUD: Quiet = Quiet(false);

/// Reads a line without its newline.
pub fn read(line: &[u8]) -> Line<'_> {
    if line.len() < SHORTEST {
        return LOUD.line(BAD_FORMAT);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let command = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    match command {
        b"get" => get(line, command.len(), false),
        b"gets" => get(line, command.len(), true),
        b"gat" => gat(line, false),
        b"gats" => gat(line, true),
        b"mg" => meta(MetaCommand::Get, line),
        b"md" => meta(MetaCommand::Delete, line),
        b"ma" => meta(MetaCommand::Arithmetic, line),
        b"me" => meta(MetaCommand::Debug, line),
        b"ms" => meta_set(line),
        b"mn" => LOUD.line("MN\r\n"),
        b"quit" => Line::Close(Reason::Quit),
        b"stats" | b"version" | b"watch" => Line::Event(Event::Control(Control { line, quiet: false })),
        _ => text(command, line),
    }
}

/// The commands whose last token can be `noreply`.
fn text<'a>(command: &[u8], line: &'a [u8]) -> Line<'a> {
    match command {
        b"set" => store(Mode::Set, line),
        b"add" => store(Mode::Add, line),
        b"replace" => store(Mode::Replace, line),
        b"append" => store(Mode::Append, line),
        b"prepend" => store(Mode::Prepend, line),
        b"cas" => store(Mode::Cas, line),
        b"delete" => simple(line, 2, |key, _, quiet| {
            Ok(Request::Delete(Delete { key, quiet }))
        }),
        b"touch" => simple(line, 3, |key, argument, quiet| {
            let exptime = number::i32_of(argument).ok_or(BAD_EXPTIME)?;
            Ok(Request::Touch(Touch { key, exptime, quiet }))
        }),
        b"incr" | b"decr" => simple(line, 3, |key, argument, quiet| {
            let delta = number::u64_of(argument).ok_or(BAD_DELTA)?;
            Ok(Request::Arithmetic(Arithmetic {
                key,
                delta,
                decrement: command == b"decr",
                quiet,
            }))
        }),
        _ => other(line),
    }
}

fn other(line: &[u8]) -> Line<'_> {
    let tokens = Tokens::new(line);
    let quiet = tokens.are_quiet();
    match tokens.all() {
        [command, ..] if CONTROLS.contains(command) => Line::Event(Event::Control(Control { line, quiet })),
        [_, .., last] if last.starts_with(b"HTTP/") => Line::Close(Reason::Http),
        _ => Quiet(quiet).line(UNKNOWN),
    }
}

/// A command with a key and perhaps an argument.
fn simple<'a>(
    line: &'a [u8],
    least: usize,
    request: impl FnOnce(&'a [u8], &'a [u8], bool) -> Result<Request<'a>, &'static str>,
) -> Line<'a> {
    let mut tokens = split(line).take(MOST_TOKENS).skip(1);
    let (key, argument) = (tokens.next(), tokens.next());
    let last = tokens.last().or(argument).or(key);
    let (Some(key), true) = (key, least == 2 || argument.is_some()) else {
        return LOUD.line(BAD_FORMAT);
    };
    let quiet = Quiet(last == Some(NO_REPLY));
    if key.len() > LONGEST_KEY {
        return quiet.line(BAD_FORMAT);
    }
    match request(key, argument.unwrap_or_default(), quiet.0) {
        Ok(request) => Line::Event(Event::Request(request)),
        Err(answer) => quiet.line(answer),
    }
}

/// `set KEY FLAGS EXPTIME LENGTH [CAS] [noreply]`.
fn store(mode: Mode, line: &[u8]) -> Line<'_> {
    let tokens = Tokens::new(line);
    let [_, key, _, _, length, more @ ..] = tokens.all() else {
        return LOUD.line(BAD_FORMAT);
    };
    let Some(length) = value_length(length) else {
        return LOUD.line(BAD_FORMAT);
    };
    let quiet = Quiet(tokens.are_quiet());
    // These two are read up to where they end as numbers, not as tokens.
    let flags = number::wrapping_u32(behind(line, 2));
    let exptime = number::wrapping_i32(behind(line, 3));
    let cas = match (mode, more) {
        (Mode::Cas, more) => more.first().and_then(|cas| number::u64_of(cas)),
        _ => Some(0),
    };
    let (Some(flags), Some(exptime), Some(cas), true) = (flags, exptime, cas, key.len() <= LONGEST_KEY)
    else {
        return Line::Swallow {
            length,
            answer: quiet.answer(BAD_FORMAT),
        };
    };
    Line::Store(Store {
        key,
        mode,
        flags,
        exptime,
        cas,
        length,
        quiet: quiet.0,
        meta: None,
        data: Data::Later,
    })
}

/// What is behind the first tokens of a line.
fn behind(line: &[u8], tokens: usize) -> &[u8] {
    let mut split = split(line);
    split.by_ref().take(tokens).for_each(drop);
    split.rest
}

/// Length of a value: two more than it have to be an `i32`.
fn value_length(token: &[u8]) -> Option<u32> {
    let length = number::i32_of(token)?;
    (0..=i32::MAX - 2).contains(&length).then_some(length as u32)
}

/// The keys of a line whose command has this length.
fn get(line: &[u8], command: usize, with_cas: bool) -> Line<'_> {
    if split(seen(line)).nth(1).is_none() {
        return LOUD.line(BAD_FORMAT);
    }
    let keys = Keys {
        with_cas,
        touch: None,
    };
    keys_from(line, command, keys)
}

/// `gat EXPTIME KEY...`.
fn gat(line: &[u8], with_cas: bool) -> Line<'_> {
    let mut tokens = split(seen(line)).skip(1);
    let (Some(exptime), Some(_)) = (tokens.next(), tokens.next()) else {
        return LOUD.line(BAD_FORMAT);
    };
    let Some(seconds) = number::i32_of(exptime) else {
        return LOUD.line(BAD_EXPTIME);
    };
    let keys = Keys {
        with_cas,
        touch: Some(seconds),
    };
    keys_from(line, line.len() - behind(line, 2).len(), keys)
}

fn keys_from(line: &[u8], start: usize, keys: Keys) -> Line<'_> {
    let too_long = || split(&line[start..]).position(|key| key.len() > LONGEST_KEY);
    if line.len() > LONGEST_KEY
        && let Some(place) = too_long()
    {
        // An error ends the request; its line has one end too many.
        let quiet = place == 0 && keys.touch.is_none() && Tokens::new(seen(line)).are_quiet();
        let answer = if quiet {
            "\r\n"
        } else {
            "CLIENT_ERROR bad command line format\r\n\r\n"
        };
        return LOUD.line(answer);
    }
    Line::Keys { keys, start }
}

fn seen(line: &[u8]) -> &[u8] {
    &line[..line.len().min(SEEN)]
}

/// `mg KEY FLAG...`.
fn meta(command: MetaCommand, line: &[u8]) -> Line<'_> {
    // The name of the command is left out.
    let mut tokens = split(&line[2..]);
    let Some(key) = tokens.next() else {
        return LOUD.line(BAD_FORMAT);
    };
    let flags = tokens.rest;
    if !are_flags(flags, MOST_TOKENS - 2) {
        return LOUD.line(BAD_FORMAT);
    }
    if key.len() > LONGEST_KEY {
        return LOUD.line(match command {
            MetaCommand::Arithmetic => "CLIENT_ERROR invalid or duplicate flag\r\n",
            _ => BAD_FORMAT,
        });
    }
    Line::Event(Event::Request(Request::Meta(Meta { command, key, flags })))
}

/// `ms KEY LENGTH FLAG...`.
fn meta_set(line: &[u8]) -> Line<'_> {
    let mut tokens = split(&line[2..]);
    let (Some(key), Some(length)) = (tokens.next(), tokens.next()) else {
        return LOUD.line(BAD_FORMAT);
    };
    let flags = tokens.rest;
    let Some(bytes) = value_length(length).filter(|_| are_flags(flags, MOST_TOKENS - 3)) else {
        return LOUD.line(BAD_FORMAT);
    };
    if key.len() > LONGEST_KEY {
        return Line::Swallow {
            length: bytes,
            answer: BAD_FORMAT,
        };
    }
    Line::Store(Store {
        key,
        mode: Mode::Set,
        flags: 0,
        exptime: 0,
        cas: 0,
        length: bytes,
        quiet: false,
        meta: Some(flags),
        data: Data::Later,
    })
}

/// Whether each of the first tokens starts as a flag can. Other lines are no commands, and no value is expected then.
fn are_flags(flags: &[u8], most: usize) -> bool {
    split_short(flags)
        .take(most)
        .all(|flag| matches!(flag[0], b'A'..=b'z' | b'0'..=b'9'))
}
