//! The flags of meta commands.

use crate::memcached::items::Key;
use crate::memcached::number;
use crate::memcached::request::tokens;
use crate::memcached::time::Clock;

/// The most tokens of a meta command, its name and key included.
const MOST_TOKENS: usize = 20;

/// The longest opaque, its letter included.
const LONGEST_OPAQUE: usize = 32;

/// The answer to a longer opaque.
pub const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long\r\n";

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format\r\n";

/// What the flags of a meta command say. All commands take all flags, and ignore those that say nothing to them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// `b`: the key was sent as base64.
    pub binary: bool,
    /// `N`: when an item that is made because there is none expires.
    pub vivify: Option<u32>,
    /// `T`: when it expires.
    pub expiry: Option<u32>,
    /// `R`: a client is asked for a newer value of an item that expires before.
    pub recache: u32,
    /// `v`: the value is wanted.
    pub value: bool,
    /// `u`: this is no access.
    pub no_update: bool,
    /// `q`: the frequent answer is not wanted.
    pub quiet: bool,
    /// `x`: the value is removed, the item stays.
    pub remove_value: bool,
    /// `I`: the value becomes stale, or may be.
    pub stale: bool,
    /// `F`: the client's flags.
    pub client_flags: u32,
    /// `C`: the number that the item must have.
    pub cas: Option<u64>,
    /// `E`: the number that it gets.
    pub next_cas: Option<u64>,
    /// `M`: the mode; 0 if there is none.
    pub mode: u8,
    /// `J`: the number of an item that is made.
    pub initial: u64,
    /// `D`: what is added or subtracted.
    pub delta: Option<u64>,
    /// Whether the item is marked as used after what is answered was read from it.
    pub used_last: bool,
    /// Whether an opaque is too long.
    pub opaque_too_long: bool,
}

/// What is wrong with a flag.
enum Problem {
    Unknown,
    /// Answered so.
    Bad(&'static str),
    /// Answered as the errors in front of it.
    BadNumber,
}

impl Flags {
    /// Reads the flags, in front of which are as many tokens. Of several errors the last one is answered, but a flag
    /// that is unknown or there twice ends the reading.
    pub fn read(
        flags: &[u8],
        tokens_before: usize,
        (sent, key): (&[u8], Key<'_>),
        clock: Clock,
    ) -> Result<Self, &'static str> {
        // Each has two bytes at least.
        if flags.len() / 2 + tokens_before > MOST_TOKENS
            && tokens_before + tokens::split_short(flags).count() > MOST_TOKENS
        {
            return Err("CLIENT_ERROR options flags are too long\r\n");
        }
        let mut read = Self::default();
        let mut failed = None;
        let mut seen = 0u128;
        for flag in tokens::split_short(flags) {
            let bit = 1u128.checked_shl(u32::from(flag[0])).unwrap_or_default();
            if seen & bit != 0 || bit == 0 {
                return Err("CLIENT_ERROR duplicate flag\r\n");
            }
            seen |= bit;
            let letter = flag[0];
            // Decoded the key would be shorter.
            let result = if letter == b'b' && sent.len() == key.bytes.len() {
                Err(Problem::Bad("CLIENT_ERROR error decoding key\r\n"))
            } else {
                read.flag(letter, &flag[1..], clock)
            };
            match result {
                Ok(()) => {}
                Err(Problem::Bad(answer)) => failed = Some(answer),
                Err(Problem::BadNumber) => failed = failed.or(Some(BAD_FORMAT)),
                Err(Problem::Unknown) => return Err("CLIENT_ERROR invalid flag\r\n"),
            }
        }
        failed.map_or(Ok(read), Err)
    }

    fn flag(&mut self, letter: u8, argument: &[u8], clock: Clock) -> Result<(), Problem> {
        let present = Some(argument).filter(|argument| !argument.is_empty());
        let expiry = || {
            let exptime = present.and_then(number::i32_of);
            exptime
                .map(|exptime| clock.expiry(exptime))
                .ok_or(Problem::Bad(BAD_TOKEN))
        };
        let number = |answer| present.and_then(number::u64_of).ok_or(Problem::Bad(answer));
        match letter {
            b'k' | b's' | b't' | b'c' | b'f' | b'P' | b'L' | b'l' | b'h' => {}
            b'b' => self.binary = true,
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'u' => self.no_update = true,
            b'x' => self.remove_value = true,
            b'I' => self.stale = true,
            b'O' => self.opaque_too_long = argument.len() >= LONGEST_OPAQUE,
            b'N' => self.vivify = Some(expiry()?),
            b'T' => self.expiry = Some(expiry()?),
            b'R' => self.recache = expiry()?,
            b'F' => self.client_flags = present.and_then(number::u32_of).ok_or(Problem::BadNumber)?,
            b'C' => self.cas = Some(number(BAD_TOKEN)?),
            b'E' => self.next_cas = Some(number(BAD_TOKEN)?),
            // What follows a bare `M` is the end of the token: no mode that is known.
            b'M' => self.mode = argument.first().copied().unwrap_or(b' '),
            b'J' => self.initial = number("CLIENT_ERROR invalid numeric initial value\r\n")?,
            b'D' => self.delta = Some(number("CLIENT_ERROR invalid numeric delta value\r\n")?),
            _ => return Err(Problem::Unknown),
        }
        self.used_last |= matches!(letter, b'l' | b'h' | b'N' | b'T' | b'R');
        Ok(())
    }
}
