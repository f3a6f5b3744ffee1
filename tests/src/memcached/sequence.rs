//! A sequence of requests over one connection, in rounds: the requests of a round are sent without waiting for answers.

use std::fmt::{self, Display, Formatter};

/// What stands in a request for the CAS number that the server sent last: it differs between servers.
pub const LAST_CAS: &[u8] = b"\0cas";

/// A value that is longer is printed as its beginning and its length.
const PRINTED: usize = 300;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its requests are whole: a sentinel follows.
    Whole,
    /// A request may take what follows as its value, up to [`FILLER`] bytes: that many are sent before the sentinel.
    Filled,
    /// The server is expected to close the connection.
    Closed,
    /// Each request is a datagram of its own.
    Datagrams,
}

/// The bytes of lines that follow a round with [`Ending::Filled`]; also the longest value that a malformed request may name.
pub const FILLER: usize = 9_000;

/// Requests that are sent without waiting for an answer in between.
#[derive(Clone, Debug)]
pub struct Round {
    pub(crate) requests: Vec<Vec<u8>>,
    /// Where the bytes of the round are split into several writes; each is taken modulo their number.
    pub(crate) cuts: Vec<usize>,
    pub(crate) ending: Ending,
}

impl Round {
    /// A round of whole requests in one write.
    #[must_use]
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self {
            requests: requests.into_iter().map(<[u8]>::to_vec).collect(),
            cuts: Vec::new(),
            ending: Ending::Whole,
        }
    }

    /// What is sent, in one piece per write.
    pub(crate) fn pieces(&self, last_cas: u64, sentinel: &[u8]) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        for request in &self.requests {
            push_with_cas(&mut bytes, request, last_cas);
        }
        match self.ending {
            Ending::Whole => bytes.extend_from_slice(sentinel),
            Ending::Filled => {
                // Shorter than the 2,048 bytes after which upstream closes a connection that sends no newline.
                let line = [&[b'z'; 998][..], b"\r\n"].concat();
                (0..FILLER / line.len()).for_each(|_| bytes.extend_from_slice(&line));
                bytes.extend_from_slice(b"\r\n");
                bytes.extend_from_slice(sentinel);
            }
            Ending::Closed | Ending::Datagrams => {}
        }
        let mut cuts: Vec<usize> = self.cuts.iter().map(|cut| cut % bytes.len().max(1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            if cut > from {
                pieces.push(bytes[from..cut].to_vec());
                from = cut;
            }
        }
        pieces
    }
}

/// Appends a request with its first [`LAST_CAS`] replaced.
fn push_with_cas(bytes: &mut Vec<u8>, request: &[u8], last_cas: u64) {
    match request.windows(LAST_CAS.len()).position(|part| part == LAST_CAS) {
        Some(at) => {
            bytes.extend_from_slice(&request[..at]);
            bytes.extend_from_slice(last_cas.to_string().as_bytes());
            bytes.extend_from_slice(&request[at + LAST_CAS.len()..]);
        }
        None => bytes.extend_from_slice(request),
    }
}

/// The keys that the requests of a sequence meet on.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Keys of any value.
    pub plain: Vec<Vec<u8>>,
    /// Keys whose values are numbers: upstream pads numbers, so nothing is appended to them.
    pub numeric: Vec<Vec<u8>>,
    /// Keys that are sent in base64, and are not text.
    pub encoded: Vec<Vec<u8>>,
}

impl Keys {
    /// Keys that sequences with another prefix do not have.
    pub fn new(prefix: &str) -> Self {
        let key = |rest: &[u8]| [prefix.as_bytes(), rest].concat();
        let longest = [b'k'; 250];
        Self {
            plain: vec![
                key(b"a"),
                key(b"b"),
                key("schl\u{fc}ssel".as_bytes()),
                key(&longest[prefix.len()..]),
            ],
            numeric: vec![key(b"n"), key(b"number:2")],
            encoded: vec![key(b"\0 x\xff"), key(b"line\r\n")],
        }
    }
}

/// Base64 of RFC 4648, padded.
pub fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or_default());
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= three.len() { DIGITS[value] } else { b'=' });
        }
    }
    text
}

/// What is sent over one connection.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub(crate) keys: Keys,
    pub(crate) rounds: Vec<Round>,
    /// Items age between its first rounds.
    pub(crate) pauses: bool,
}

impl Sequence {
    /// These rounds; the keys of the generator with an empty prefix are deleted before.
    #[must_use]
    pub fn of(rounds: Vec<Round>) -> Self {
        Self {
            keys: Keys::new(""),
            rounds,
            pauses: false,
        }
    }

    /// Whether a round has malformed requests.
    pub fn has_malformed(&self) -> bool {
        self.rounds.iter().any(|round| round.ending == Ending::Filled)
    }

    /// Requests that delete all keys, and each word of malformed requests, which may be a key.
    pub fn deletions(&self) -> Vec<u8> {
        let mut requests = Vec::new();
        let keys = self.keys.plain.iter().chain(&self.keys.numeric);
        keys.for_each(|key| push_deletion(&mut requests, key, b"q"));
        for key in &self.keys.encoded {
            push_deletion(&mut requests, &base64(key), b"q b");
        }
        let malformed = self.rounds.iter().filter(|round| round.ending == Ending::Filled);
        for request in malformed.flat_map(|round| &round.requests) {
            let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            for word in line.split(|byte| *byte == b' ') {
                push_deletion(&mut requests, word, b"q");
                push_deletion(&mut requests, word, b"q b");
            }
        }
        requests
    }
}

fn push_deletion(requests: &mut Vec<u8>, key: &[u8], flags: &[u8]) {
    requests.extend_from_slice(&[b"md ", key, b" ", flags, b"\r\n"].concat());
}

impl Display for Sequence {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (number, round) in self.rounds.iter().enumerate() {
            let (cuts, ending) = (&round.cuts, round.ending);
            writeln!(formatter, "round {}, {ending:?}, cut at {cuts:?}:", number + 1)?;
            for request in &round.requests {
                writeln!(formatter, "  {}", printed(request))?;
            }
        }
        Ok(())
    }
}

/// Bytes as text, long ones shortened.
pub fn printed(bytes: &[u8]) -> String {
    match bytes.get(..PRINTED) {
        Some(start) => format!("{}… ({} bytes)", start.escape_ascii(), bytes.len()),
        None => bytes.escape_ascii().to_string(),
    }
}
