//! Answers: a line, and the data block that it announces.

use memchr::memchr;
use thiserror::Error;

/// The longest line of an answer, with its end. A value's line has a key of at most 250 bytes and three numbers, a meta
/// answer's the flags of its request, whose line has at most 2,048 bytes.
pub const LONGEST_LINE: usize = 2_048 + 256;

/// The line end.
const END: &[u8] = b"\r\n";

/// One answer, or one line of an answer with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// `VALUE`: one of the values of `get` and its relatives.
    Value {
        /// The key.
        key: &'a [u8],
        /// The client's flags.
        flags: u32,
        /// Its cas number, if it was asked for.
        cas: Option<u64>,
        /// The value.
        data: &'a [u8],
    },
    /// `END`: no more values.
    End,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// What a counter is now.
    Number(u64),
    /// The answer of a meta command.
    Meta(Meta<'a>),
    /// `ERROR`: the server does not know the command.
    Error,
    /// `CLIENT_ERROR`, and why.
    ClientError(&'a [u8]),
    /// `SERVER_ERROR`, and why.
    ServerError(&'a [u8]),
}

/// The answer of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta<'a> {
    /// `HD`, `VA`, `EN`, `NF`, `NS`, `EX` or `MN`.
    pub code: [u8; 2],
    /// The flags, as text: `k Oopaque`.
    flags: &'a [u8],
    /// The value, with `VA`.
    pub data: Option<&'a [u8]>,
}

impl<'a> Meta<'a> {
    /// The token of a flag, empty if it has none; `None` without the flag.
    #[must_use]
    pub fn flag(&self, name: u8) -> Option<&'a [u8]> {
        let mut flags = self.flags.split(|byte| *byte == b' ');
        flags
            .find_map(|flag| flag.split_first().filter(|(first, _)| **first == name))
            .map(|(_, token)| token)
    }

    /// The number that is a flag's token.
    #[must_use]
    pub fn number(&self, name: u8) -> Option<u64> {
        number(self.flag(name)?)
    }
}

/// The front of a connection's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// An answer, and its length with all line ends.
    Answer(Answer<'a>, usize),
    /// The answer is not complete: at least so many bytes are needed, from the first one on. 0: the line has no end yet.
    Partial(usize),
}

/// What no server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Wrong {
    /// A line of more than [`LONGEST_LINE`] bytes.
    #[error("a line has no end")]
    NoEnd,
    /// A line that ends with LF alone.
    #[error("a line ends without CR")]
    NoCarriageReturn,
    /// A line with another beginning than those of [`Answer`].
    #[error("a line is none of an answer")]
    Unknown,
    /// A number or field that is missing or not one.
    #[error("a field of a line is missing or no number")]
    Field,
    /// A value that is longer than the caller takes.
    #[error("a value is too long")]
    TooLong,
    /// Data of another length than announced: no line end follows.
    #[error("a value has another length than announced")]
    Length,
}

/// Parses the answer at the front of these bytes, whose data may have up to `longest` bytes.
///
/// # Errors
/// If these are no answer, whatever follows. The connection cannot be used further.
pub fn parse(bytes: &[u8], longest: usize) -> Result<Parsed<'_>, Wrong> {
    let within = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = memchr(b'\n', within) else {
        return match within.len() < LONGEST_LINE {
            true => Ok(Parsed::Partial(0)),
            false => Err(Wrong::NoEnd),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(Wrong::NoCarriageReturn)?;
    let (mut answer, announced) = of_line(line)?;
    let from = end + 1;
    let Some(length) = announced else {
        return Ok(Parsed::Answer(answer, from));
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= longest);
    let to = from + length.ok_or(Wrong::TooLong)?;
    let whole = to + END.len();
    if bytes.len() < whole {
        return Ok(Parsed::Partial(whole));
    }
    if &bytes[to..whole] != END {
        return Err(Wrong::Length);
    }
    match &mut answer {
        Answer::Value { data, .. } => *data = &bytes[from..to],
        Answer::Meta(meta) => meta.data = Some(&bytes[from..to]),
        _ => {}
    }
    Ok(Parsed::Answer(answer, whole))
}

/// The answer of a line, without data; and the length of the data that follows, if some does.
fn of_line(line: &[u8]) -> Result<(Answer<'_>, Option<u64>), Wrong> {
    if let Some(fields) = line.strip_prefix(b"VALUE ") {
        return value(fields);
    }
    let answer = match line {
        b"END" => Answer::End,
        b"STORED" => Answer::Stored,
        b"NOT_STORED" => Answer::NotStored,
        b"EXISTS" => Answer::Exists,
        b"NOT_FOUND" => Answer::NotFound,
        b"DELETED" => Answer::Deleted,
        b"TOUCHED" => Answer::Touched,
        b"OK" => Answer::Ok,
        b"ERROR" => Answer::Error,
        [b'0'..=b'9', ..] => Answer::Number(number(line.trim_ascii_end()).ok_or(Wrong::Field)?),
        [code @ (b'H' | b'V' | b'E' | b'N' | b'M'), other, rest @ ..]
            if rest.first().is_none_or(|byte| *byte == b' ') =>
        {
            return meta([*code, *other], rest.trim_ascii_start());
        }
        _ => {
            let reason = |name: &[u8]| Some(line.strip_prefix(name)?.trim_ascii_start());
            let by_client = reason(b"CLIENT_ERROR").map(Answer::ClientError);
            let by_server = || reason(b"SERVER_ERROR").map(Answer::ServerError);
            by_client.or_else(by_server).ok_or(Wrong::Unknown)?
        }
    };
    Ok((answer, None))
}

/// The fields of `VALUE key flags length [cas]`.
fn value(fields: &[u8]) -> Result<(Answer<'_>, Option<u64>), Wrong> {
    let (key, fields) = field(fields);
    let (flags, fields) = field(fields);
    let (length, cas) = field(fields);
    let flags = number(flags).and_then(|flags| u32::try_from(flags).ok());
    let cas = match cas {
        [] => None,
        cas => Some(number(cas).ok_or(Wrong::Field)?),
    };
    let (flags, length) = flags.zip(number(length)).ok_or(Wrong::Field)?;
    let data = &[];
    Ok((
        Answer::Value {
            key,
            flags,
            cas,
            data,
        },
        Some(length),
    ))
}

/// The answer of a meta command with this code.
fn meta(code: [u8; 2], fields: &[u8]) -> Result<(Answer<'_>, Option<u64>), Wrong> {
    let (length, flags) = match &code {
        b"VA" => {
            let (length, flags) = field(fields);
            (Some(number(length).ok_or(Wrong::Field)?), flags)
        }
        b"HD" | b"EN" | b"NF" | b"NS" | b"EX" | b"MN" => (None, fields),
        _ => return Err(Wrong::Unknown),
    };
    let data = None;
    Ok((Answer::Meta(Meta { code, flags, data }), length))
}

/// The first field, and what follows the blank behind it.
fn field(fields: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b' ', fields) {
        Some(blank) => (&fields[..blank], &fields[blank + 1..]),
        None => (fields, &[]),
    }
}

/// A number in decimal.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add))?
}
