//! Random sequences. Requests meet on few keys; what upstream answers otherwise at another time or in another segmentation is left out:
//!
//! - `flush_all` without delay, or one that is over soon: it spares what was stored in the same second. [`Generator::flushed`] has it;
//! - too long keys of `get`, and lines after which upstream closes the connection, behind other requests: answers that are not yet sent
//!   are then lost. They begin a round;
//! - `decr`, and what is appended, on one key: `decr` pads with spaces at times;
//! - a number that is read and changed in one round: if its answer is not yet sent, the change makes a new item, which is not fetched;
//! - `flush_all` with a delay after another one: upstream has but the last, and finds what it did not remove yet;
//! - `ms` that is refused behind its line for its opaque: the next value takes its CAS number.

mod classic;
mod draft;
mod malformed;
mod meta;
mod server;
mod words;

use super::sequence::{Ending, Keys, Round, Sequence};
use fastrand::Rng;
use std::time::Duration;

/// Rounds between the first and the last of a sequence are fewer.
const ROUNDS: usize = 4;

/// The most requests of a round.
const REQUESTS: usize = 12;

/// What the compared servers have.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// They answer datagrams.
    pub datagrams: bool,
    /// CAS numbers of different keys have an order.
    pub ordered_cas: bool,
}

/// Generates sequences from a seed.
pub struct Generator {
    random: Rng,
    keys: Keys,
    /// Seconds since 1970, for absolute times to live.
    now: u64,
    abilities: Abilities,
    /// Numbers are changed in this round, not read.
    changes_numbers: bool,
    /// Values are short enough to be lines after which upstream keeps the connection, and requests have no CAS number of a server,
    /// which could be a key or part of a value: they may be malformed, or are datagrams.
    is_short: bool,
    /// The sequence pauses.
    pauses: bool,
    /// Times to live of stored items are also one or two seconds.
    expire_soon: bool,
}

impl Generator {
    /// A generator of sequences over keys with this prefix, at this time in seconds since 1970.
    pub fn new(seed: u64, prefix: &str, now: u64, abilities: Abilities) -> Self {
        Self {
            random: Rng::with_seed(seed),
            keys: Keys::new(prefix),
            now,
            abilities,
            changes_numbers: false,
            is_short: false,
            pauses: false,
            expire_soon: false,
        }
    }

    /// Rounds of requests; the last may have malformed ones.
    pub fn sequence(&mut self) -> Sequence {
        let mut rounds = Vec::new();
        if !self.once_in(4) {
            rounds.push(self.storing_round());
        }
        for _ in 0..self.random.usize(0..ROUNDS) {
            rounds.push(self.round());
        }
        rounds.push(match self.random.u8(0..20) {
            0..8 => self.malformed_round(),
            8 => self.closing_round(),
            _ => self.round(),
        });
        self.of(rounds)
    }

    /// Items are stored, some for one or two seconds, and met again after a pause in which those expire.
    pub fn ageing(&mut self) -> (Sequence, Duration) {
        self.pauses = true;
        self.expire_soon = true;
        let stored = self.storing_round();
        self.expire_soon = false;
        let rounds = vec![stored, self.round(), self.round()];
        (self.of(rounds), Duration::from_millis(3_500))
    }

    /// Items are stored, flushed in a later second, and met again.
    pub fn flushed(&mut self) -> (Sequence, Duration) {
        self.pauses = true;
        let stored = self.storing_round();
        let flush: &[u8] = match self.random.u8(0..4) {
            0 => b"flush_all\r\n",
            1 => b"flush_all 0\r\n",
            2 => b"flush_all noreply\r\n",
            _ => b"flush_all -1\r\n",
        };
        let rounds = vec![stored, Round::of([flush]), self.round(), self.round()];
        (self.of(rounds), Duration::from_millis(2_200))
    }

    /// Items are stored, and flushed by a delay that ends while the sequence pauses.
    pub fn flushed_later(&mut self) -> (Sequence, Duration) {
        self.pauses = true;
        let mut stored = self.storing_round();
        stored.requests.push(b"flush_all 2\r\n".to_vec());
        let rounds = vec![stored, self.round(), self.round()];
        (self.of(rounds), Duration::from_millis(4_500))
    }

    fn of(&self, rounds: Vec<Round>) -> Sequence {
        Sequence {
            keys: self.keys.clone(),
            rounds,
            pauses: self.pauses,
        }
    }

    /// One round of whole requests.
    fn round(&mut self) -> Round {
        if self.abilities.datagrams && self.once_in(8) {
            return self.round_of_datagrams();
        }
        self.changes_numbers = self.random.bool();
        let requests = match self.random.u8(0..30) {
            0 => vec![self.too_long_key()],
            _ => (0..self.random.usize(1..=REQUESTS))
                .map(|_| self.request().bytes())
                .collect(),
        };
        self.cut(requests, Ending::Whole)
    }

    /// A round that is sent as datagrams.
    fn round_of_datagrams(&mut self) -> Round {
        self.changes_numbers = self.random.bool();
        self.is_short = true;
        let mut requests: Vec<_> = (0..self.random.usize(1..=REQUESTS))
            .map(|_| self.request().bytes())
            .collect();
        // What begins as an answer does is answered by upstream alone.
        requests.retain(|request| !request[0].is_ascii_uppercase() && !request[0].is_ascii_digit());
        self.is_short = false;
        Round {
            requests,
            cuts: Vec::new(),
            ending: Ending::Datagrams,
        }
    }

    /// A round that mostly stores.
    fn storing_round(&mut self) -> Round {
        self.changes_numbers = self.random.bool();
        let count = self.random.usize(3..=REQUESTS);
        let requests = (0..count).map(|_| match self.random.u8(0..4) {
            0 => self.request(),
            1 => self.meta_set(),
            _ => self.storage(),
        });
        let requests = requests.map(|draft| draft.bytes()).collect();
        self.cut(requests, Ending::Whole)
    }

    /// The last round of a sequence, with malformed requests.
    fn malformed_round(&mut self) -> Round {
        self.changes_numbers = self.random.bool();
        self.is_short = true;
        let mut requests = Vec::new();
        for _ in 0..self.random.usize(1..=REQUESTS) {
            let whole = self.request();
            requests.push(match self.random.bool() {
                true => self.malformed(whole),
                false => whole.bytes(),
            });
        }
        self.is_short = false;
        self.cut(requests, Ending::Filled)
    }

    /// A round with these requests, sent in one write or in several.
    fn cut(&mut self, requests: Vec<Vec<u8>>, ending: Ending) -> Round {
        let cuts = match self.random.u8(0..10) {
            0..6 => 0,
            6..8 => 1,
            _ => self.random.usize(2..6),
        };
        let cuts = (0..cuts).map(|_| self.random.usize(..)).collect();
        Round {
            requests,
            cuts,
            ending,
        }
    }

    /// A whole request of any kind.
    fn request(&mut self) -> draft::Draft {
        match self.random.u8(0..20) {
            8..10 | 17 if !self.changes_numbers => self.meta_get(),
            0..3 => self.retrieval(),
            3..6 => self.storage(),
            6..8 => self.of_one_key(),
            8..10 => self.arithmetic(),
            10..13 => self.meta_get(),
            13..16 => self.meta_set(),
            16 => self.meta_delete(),
            17 => self.meta_arithmetic(),
            18 => self.meta_other(),
            _ => self.of_server(),
        }
    }
}
