//! The parser's state between calls, the frequent requests, and values.

use super::line::{self, Keys, Line};
use super::{Data, Event, Get, LONGEST_KEY, Mode, Reason, Request, Store};
use memchr::{memchr, memchr2};

/// More bytes than these without a line end close the connection, except of `get` and `gets`.
pub const LONGEST_LINE: usize = 2_048;

/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;

/// The parser of one connection's requests, or of one datagram's.
#[derive(Debug, Clone)]
pub struct Parser {
    state: State,
}

/// What is next.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The first line of the connection.
    First,
    /// A line.
    Line,
    /// A line of which as many bytes were searched for its end, so that one that arrives in small pieces is not searched again
    /// and again.
    Partial(usize),
    /// A key of a request whose line is there.
    Keys(Keys),
    /// As many bytes of a value, and the two that end it.
    Value(u32),
    /// The second byte that ends a value.
    ValueEnd { good: bool },
    /// As many bytes that are skipped.
    Skip(u64),
    /// Nothing.
    Closed,
}

/// What a call found at the front of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// How many bytes were used: the next call starts behind them. If this is 0, the parser needs more bytes.
    pub used: usize,
    /// What they are.
    pub event: Event<'a>,
}

impl Step<'_> {
    const MORE: Self = Self::new(0, Event::Nothing);
}

impl<'a> Step<'a> {
    const fn new(used: usize, event: Event<'a>) -> Self {
        Self { used, event }
    }
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// At the start of a connection or datagram.
    pub const fn new() -> Self {
        Self { state: State::First }
    }

    /// Whether the parser is between requests.
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::First | State::Line | State::Partial(_))
    }

    /// Parses what is at the front of the bytes, which start behind those that earlier calls used. Whatever has been
    /// seen of a line is to be given again.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        match self.state {
            State::Line => self.line(bytes),
            State::Keys(keys) => self.key(keys, bytes),
            _ => self.other(bytes),
        }
    }

    fn other<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        let Some(first) = bytes.first() else {
            return Step::MORE;
        };
        match self.state {
            State::First if *first == BINARY => self.close(Reason::Binary),
            State::First | State::Line => {
                self.state = State::Line;
                self.line(bytes)
            }
            State::Partial(searched) => self.any_line(bytes, searched),
            State::Keys(keys) => self.key(keys, bytes),
            State::Value(left) => self.value(left, bytes),
            State::ValueEnd { good } => {
                self.state = State::Line;
                Step::new(1, Event::End(good && *first == b'\n'))
            }
            State::Skip(left) => self.skip(left, bytes),
            State::Closed => Step::new(bytes.len(), Event::Nothing),
        }
    }

    #[inline]
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        if let Some(rest) = bytes.strip_prefix(b"get ") {
            let end = memchr2(b' ', b'\n', rest);
            if let Some(end) = end
                && rest[end] == b'\n'
                && let key = without_return(&rest[..end])
                && (1..=LONGEST_KEY).contains(&key.len())
            {
                let get = Get {
                    key,
                    touch: None,
                    with_cas: false,
                    last: true,
                };
                return Step::new(4 + end + 1, Event::Request(Request::Get(get)));
            }
        } else if let Some(rest) = bytes.strip_prefix(b"set ")
            && let Some((store, value)) = plain_set(rest)
        {
            return self.store(store, bytes.len() - value.len(), value);
        }
        self.any_line(bytes, 0)
    }

    /// A line, of whose front as many bytes were searched for its end.
    fn any_line<'a>(&mut self, bytes: &'a [u8], searched: usize) -> Step<'a> {
        let searched = searched.min(bytes.len());
        let Some(end) = memchr(b'\n', &bytes[searched..]) else {
            self.state = State::Partial(bytes.len());
            return if is_too_long(bytes) {
                self.close(Reason::LineTooLong)
            } else {
                Step::MORE
            };
        };
        self.state = State::Line;
        let end = searched + end;
        let used = end + 1;
        match line::read(&bytes[..end]) {
            Line::Keys { keys, start } => {
                self.state = State::Keys(keys);
                let step = self.key(keys, &bytes[start..]);
                Step::new(start + step.used, step.event)
            }
            Line::Store(store) => self.store(store, used, &bytes[used..]),
            Line::Swallow { length, answer } => {
                self.state = State::Skip(u64::from(length) + 2);
                Step::new(used, Event::Answer(answer))
            }
            Line::Close(reason) => self.close(reason),
            Line::Event(event) => Step::new(used, event),
        }
    }

    /// The next key of a line that is there as a whole: at its start, or at spaces before it.
    #[inline]
    fn key<'a>(&mut self, keys: Keys, bytes: &'a [u8]) -> Step<'a> {
        let start = bytes.iter().take_while(|byte| **byte == b' ').count();
        let rest = &bytes[start..];
        let Some(end) = memchr2(b' ', b'\n', rest) else {
            return Step::MORE;
        };
        let (key, used, last) = match &rest[end..] {
            [b'\n', ..] => (without_return(&rest[..end]), end + 1, true),
            [_, next, ..] if *next > b' ' => (&rest[..end], end + 1, false),
            more => match line_end(more) {
                Some(more) => (&rest[..end], end + more, true),
                None => (&rest[..end], end, false),
            },
        };
        if last {
            self.state = State::Line;
        }
        let Keys { with_cas, touch } = keys;
        let get = Get {
            key,
            touch,
            with_cas,
            last,
        };
        Step::new(start + used, Event::Request(Request::Get(get)))
    }

    fn store<'a>(&mut self, mut store: Store<'a>, used: usize, rest: &'a [u8]) -> Step<'a> {
        let length = store.length as usize;
        let mut all = used;
        if let Some(end) = rest.get(length..length + 2) {
            all += length + 2;
            store.data = if end == b"\r\n" {
                Data::Whole(&rest[..length])
            } else {
                Data::Bad
            };
        } else {
            self.state = State::Value(store.length);
        }
        Step::new(all, Event::Request(Request::Store(store)))
    }

    fn value<'a>(&mut self, left: u32, bytes: &'a [u8]) -> Step<'a> {
        if left > 0 {
            let part = &bytes[..bytes.len().min(left as usize)];
            self.state = State::Value(left - part.len() as u32);
            return Step::new(part.len(), Event::Part(part));
        }
        match bytes {
            [first, second, ..] => {
                self.state = State::Line;
                Step::new(2, Event::End([*first, *second] == *b"\r\n"))
            }
            _ => {
                let good = bytes == b"\r";
                self.state = State::ValueEnd { good };
                Step::new(1, Event::Nothing)
            }
        }
    }

    fn skip<'a>(&mut self, left: u64, bytes: &'a [u8]) -> Step<'a> {
        let skipped = left.min(bytes.len() as u64);
        self.state = if skipped == left {
            State::Line
        } else {
            State::Skip(left - skipped)
        };
        Step::new(skipped as usize, Event::Nothing)
    }

    fn close<'a>(&mut self, reason: Reason) -> Step<'a> {
        self.state = State::Closed;
        Step::new(0, Event::Close(reason))
    }
}

/// A `set` as nearly all are, behind its name, and what follows its line: no more than one space between tokens, and
/// numbers of at most nine digits. Of others nothing is returned.
fn plain_set(rest: &[u8]) -> Option<(Store<'_>, &[u8])> {
    let (key, rest) = rest.split_at(memchr2(b' ', b'\n', rest)?);
    let (flags, rest) = plain_number(rest)?;
    let (exptime, rest) = plain_number(rest)?;
    let (length, rest) = plain_number(rest)?;
    let (quiet, rest) = match rest.strip_prefix(b" noreply") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let rest = rest.strip_prefix(b"\r\n")?;
    let store = Store {
        key,
        mode: Mode::Set,
        flags,
        exptime: exptime as i32,
        cas: 0,
        length,
        quiet,
        meta: None,
        data: Data::Later,
    };
    (1..=LONGEST_KEY).contains(&key.len()).then_some((store, rest))
}

/// A space and a number, and what follows.
fn plain_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let digits = bytes.strip_prefix(b" ")?;
    let mut number = 0;
    for (place, byte) in digits.iter().take(10).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (place > 0).then_some((number, &digits[place..]));
        }
        if place == 9 {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    None
}

/// Whether so many bytes without a line end close the connection.
fn is_too_long(bytes: &[u8]) -> bool {
    if bytes.len() <= LONGEST_LINE {
        return false;
    }
    let spaces = bytes
        .iter()
        .take_while(|byte| **byte == b' ')
        .count()
        .min(bytes.len() - 6);
    let command = &bytes[spaces..];
    spaces > 100 || !(command.starts_with(b"get ") || command.starts_with(b"gets "))
}

/// A line without the carriage return at its end.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// How many bytes are left of a line of which only spaces are.
fn line_end(rest: &[u8]) -> Option<usize> {
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    match &rest[spaces..] {
        [b'\n', ..] => Some(spaces + 1),
        [b'\r', b'\n', ..] => Some(spaces + 2),
        _ => None,
    }
}
