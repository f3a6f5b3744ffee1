//! Compares answers with what is known about their keys. A correct server is never accused: it may evict any value at any time, answer
//! the requests of different connections in any order, and perform a request that it does not answer.

use super::counts::{MemcachedCounts, WrongAnswers};
use super::ledger::{Direction, NEVER};
use super::mixing::mix;
use super::parts::Parted;
use super::prepared::{FollowUp, Requests, Shared};
use super::request::{Asked, Request, Verb, Writing};
use super::value::Origin;
use crate::failure::Failure;
use corelane_proto::memcached::client::{Answer, Meta};
use corelane_worker::Time;

/// Seconds by which a value may outlive its expiration: servers look at their clock once per second, and round up.
const SLACK_SECONDS: u32 = 3;

/// What was received of the answer to a request.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The keys that had a value, one bit each.
    found: u128,
    /// The place among the keys after the last that had one.
    next: usize,
    /// What is wrong, if something is.
    pub(super) wrong: Option<Failure>,
    /// Bytes of values.
    pub(super) body: u64,
}

impl Progress {
    /// Whether a value was received.
    pub(super) fn has_value(&self) -> bool {
        self.found != 0
    }
}

/// What an answer means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More lines follow.
    More,
    /// The request is answered.
    Done,
    /// This is no answer to it.
    Broken,
}

/// An answer, whether of the text or of the meta protocol.
enum Outcome<'a> {
    Value {
        key: &'a [u8],
        flags: u32,
        cas: Option<u64>,
        data: &'a [u8],
    },
    End,
    Performed,
    Refused,
    Changed,
    Missing,
    Number(u64),
}

/// One answer with its request.
pub(super) struct Judge<'a> {
    pub(super) requests: &'a Requests,
    pub(super) shared: &'a mut Shared,
    pub(super) own: &'a mut MemcachedCounts,
    pub(super) progress: &'a mut Progress,
    pub(super) request: &'a Request,
    pub(super) due: Time,
    pub(super) now: Time,
}

impl Judge<'_> {
    /// Takes the next line of the answer.
    pub(super) fn take(&mut self, answer: Answer<'_>) -> Verdict {
        let verdict = match answer {
            Answer::Error | Answer::ClientError(_) | Answer::ServerError(_) => self.error(answer),
            _ => self.follow(answer),
        };
        if verdict == Verdict::Done && self.request.verb.prolongs() {
            for asked in self.request.asked() {
                self.shared.known[asked.index as usize].changed();
            }
        }
        verdict
    }

    fn error(&mut self, answer: Answer<'_>) -> Verdict {
        *match answer {
            Answer::ClientError(_) => &mut self.own.client_errors,
            Answer::ServerError(_) => &mut self.own.server_errors,
            _ => &mut self.own.errors,
        } += 1;
        self.progress.wrong.get_or_insert(Failure::WrongStatus);
        // Each of several quiet commands has errors of its own.
        if self.requests.plan.meta && self.request.count() > 1 {
            return Verdict::More;
        }
        self.settle(false);
        Verdict::Done
    }

    fn follow(&mut self, answer: Answer<'_>) -> Verdict {
        let outcome = match answer {
            Answer::Meta(meta) => match self.of_meta(meta) {
                Ok(outcome) => outcome,
                Err(verdict) => return verdict,
            },
            answer => of_text(answer),
        };
        let verb = self.request.verb;
        match outcome {
            Some(Outcome::Value {
                key,
                flags,
                cas,
                data,
            }) if verb.reads() => {
                self.value(key, flags, cas, data);
                match self.requests.plan.meta && self.request.count() == 1 {
                    true => Verdict::Done,
                    false => Verdict::More,
                }
            }
            Some(Outcome::End) if verb.reads() => self.end(),
            Some(Outcome::Number(number)) if let Verb::Count(direction) = verb => {
                self.counted(direction, number)
            }
            Some(Outcome::Performed) if !verb.reads() && !matches!(verb, Verb::Count(_)) => self.performed(),
            Some(Outcome::Refused)
                if matches!(verb, Verb::Add | Verb::Replace | Verb::Extend(_) | Verb::Start(_)) =>
            {
                self.refused()
            }
            Some(Outcome::Changed) if matches!(verb, Verb::Cas { .. }) => self.changed(),
            Some(Outcome::Missing) => self.missing(),
            _ => {
                self.own.wrong.unexpected += 1;
                Verdict::Broken
            }
        }
    }

    /// What the answer of a meta command is in the text protocol.
    fn of_meta<'b>(&mut self, meta: Meta<'b>) -> Result<Option<Outcome<'b>>, Verdict> {
        let is_many = self.request.count() > 1;
        if &meta.code == b"MN" {
            return Ok(is_many.then_some(Outcome::End));
        }
        // Some versions answer misses without flags.
        let is_bare = &meta.code == b"EN" && meta.flag(b'O').is_none();
        if !is_bare && meta.number(b'O') != Some(self.request.opaque.into()) {
            self.own.wrong.out_of_order += 1;
            return Err(Verdict::Broken);
        }
        let key = meta.flag(b'k').unwrap_or_default();
        let has_own_check = &meta.code == b"VA" && self.request.verb.reads();
        if !is_bare && !has_own_check && !self.is_key(&self.request.first, key) {
            self.wrong(|wrong| &mut wrong.other_key);
        }
        let verb = self.request.verb;
        Ok(match (&meta.code, meta.data) {
            (b"VA", Some(data)) if matches!(verb, Verb::Count(_)) => decimal(data).map(Outcome::Number),
            (b"VA", Some(data)) => Some(Outcome::Value {
                key,
                flags: meta.number(b'f').unwrap_or(u64::MAX) as u32,
                cas: meta.number(b'c'),
                data,
            }),
            (b"HD", _) => Some(Outcome::Performed),
            (b"NS", _) => Some(Outcome::Refused),
            (b"EX", _) => Some(Outcome::Changed),
            (b"NF", _) => Some(Outcome::Missing),
            (b"EN", _) if verb == Verb::Touch => Some(Outcome::Missing),
            (b"EN", _) => Some(Outcome::End),
            _ => None,
        })
    }

    fn number(&self, asked: &Asked) -> u64 {
        self.writing().number(asked.index)
    }

    fn is_key(&self, asked: &Asked, text: &[u8]) -> bool {
        self.writing().keys.is(self.number(asked), text)
    }

    fn writing(&self) -> Writing<'_> {
        let verb = self.request.verb;
        self.shared.writing(self.requests, verb, self.request.first.index)
    }

    /// Counts what is wrong with the answer.
    fn wrong(&mut self, kind: impl FnOnce(&mut WrongAnswers) -> &mut u64) {
        *kind(&mut self.own.wrong) += 1;
        self.progress.wrong = Some(Failure::WrongBody);
    }

    /// One value of an answer to a read.
    fn value(&mut self, key: &[u8], flags: u32, cas: Option<u64>, data: &[u8]) {
        self.progress.body += data.len() as u64;
        let Some(place) = self.place_of(key) else {
            return self.wrong(|wrong| &mut wrong.other_key);
        };
        self.progress.found |= 1 << place;
        self.progress.next = place + 1;
        self.own.hits += 1;
        let asked = *self.request.at(place);
        let number = self.number(&asked);
        let length = self.requests.values.of(mix(number));
        // A shorter value of another run can have this length with its parts.
        let is_own = Origin::named(data).is_none_or(|origin| self.is_own(origin.run));
        let value = match data.len() == length && is_own {
            true => Parted::whole(data),
            false => Parted::of(number, data),
        };
        // Short values do not name their version.
        let mut seen = u32::MAX;
        match self.origin((number, length), &asked, flags, value) {
            Ok(origin) if origin.flags() != flags => self.wrong(|wrong| &mut wrong.wrong_flags),
            Ok(_) if self.has_expired(&asked) => self.wrong(|wrong| &mut wrong.expired),
            Ok(origin) => {
                self.own.other_runs += u64::from(!self.is_own(origin.run));
                if value.is_named() {
                    seen = self.latest(origin, value);
                }
            }
            Err(None) => {}
            Err(Some(kind)) => self.wrong(kind),
        }
        match (self.request.verb, cas) {
            (Verb::ReadForCas, Some(unique)) => {
                let (verb, index) = (Verb::Cas { unique, seen }, asked.index);
                self.shared.follow.push_back(FollowUp { verb, index });
            }
            (Verb::Gets, None) | (Verb::ReadForCas, None) => self.wrong(|wrong| &mut wrong.wrong_cas),
            (Verb::Gat, _) => self.prolonged(&asked),
            _ => {}
        }
    }

    /// The place in the request of the key with this text, which has no value yet. Servers answer in the order of the request.
    fn place_of(&self, key: &[u8]) -> Option<usize> {
        let (next, count) = (self.progress.next, self.request.count());
        let places = (next..count).chain(0..next.min(count));
        let mut open = places.filter(|place| self.progress.found & (1 << place) == 0);
        open.find(|place| self.is_key(self.request.at(*place), key))
    }

    /// Whether the value of a key had expired when the request was due.
    fn has_expired(&self, asked: &Asked) -> bool {
        let second = self.shared.second(self.due);
        let known = &self.shared.known[asked.index as usize];
        known.has_expired(second.saturating_sub(SLACK_SECONDS))
    }

    /// The second at which a value that is stored now expires at the latest.
    fn expires(&self) -> u32 {
        let ttl = self.requests.plan.ttl_s;
        ttl.map_or(NEVER, |seconds| self.shared.second(self.now) + seconds)
    }

    fn prolonged(&mut self, asked: &Asked) {
        let expires = self.expires();
        self.shared.known[asked.index as usize].lives_until(expires);
    }

    /// No more values follow.
    fn end(&mut self) -> Verdict {
        for place in 0..self.request.count() {
            if self.progress.found & (1 << place) == 0 {
                self.miss(self.request.at(place).index);
            }
        }
        Verdict::Done
    }

    fn miss(&mut self, index: u32) {
        self.own.misses += 1;
        self.shared.missed(self.requests, self.request.verb, index);
    }

    /// Settles the version of a write, or the start of a counter.
    fn settle(&mut self, performed: bool) {
        let (expires, Asked { index, version, .. }) = (self.expires(), self.request.first);
        let (shared, index) = (&mut *self.shared, index as usize);
        match self.request.verb {
            Verb::Start(direction) => shared.counters[direction as usize][index].started(),
            Verb::Count(direction) => shared.counters[direction as usize][index].not_found(),
            Verb::Extend(_) => {
                let known = &mut shared.known[index];
                if performed && known.began_alone(version) {
                    shared.added[index].added_alone(version);
                }
                known.changed();
            }
            verb if verb.writes() => shared.known[index].written(performed, expires),
            _ => {}
        }
    }

    /// `STORED`, `DELETED`, `TOUCHED` and their like.
    fn performed(&mut self) -> Verdict {
        let asked = self.request.first;
        match self.request.verb {
            // What was read with the number had been replaced when this write began.
            Verb::Cas { seen, .. } if asked.oldest > u64::from(seen) => {
                self.wrong(|wrong| &mut wrong.wrong_cas);
            }
            Verb::Touch => {
                self.own.hits += 1;
                self.prolonged(&asked);
            }
            _ => {}
        }
        self.settle(true);
        Verdict::Done
    }

    /// `NOT_STORED`.
    fn refused(&mut self) -> Verdict {
        self.own.not_stored += 1;
        self.settle(false);
        Verdict::Done
    }

    /// `EXISTS`.
    fn changed(&mut self) -> Verdict {
        self.own.not_stored += 1;
        self.settle(false);
        Verdict::Done
    }

    /// `NOT_FOUND`: what is deleted need not be there.
    fn missing(&mut self) -> Verdict {
        let index = self.request.first.index;
        match self.request.verb {
            Verb::Count(_) | Verb::Touch => self.miss(index),
            Verb::Delete => {
                self.settle(true);
                return Verdict::Done;
            }
            Verb::Replace | Verb::Cas { .. } => self.own.not_stored += 1,
            _ => {
                self.own.wrong.unexpected += 1;
                return Verdict::Broken;
            }
        }
        self.settle(false);
        Verdict::Done
    }

    fn counted(&mut self, direction: Direction, number: u64) -> Verdict {
        self.own.hits += 1;
        let Asked {
            index,
            version,
            oldest,
        } = self.request.first;
        let counter = &mut self.shared.counters[direction as usize][index as usize];
        let gone = direction.gone(number);
        if !gone.is_some_and(|gone| counter.incremented(gone, oldest, version)) {
            self.wrong(|wrong| &mut wrong.wrong_number);
        }
        Verdict::Done
    }
}

/// An answer of the text protocol.
fn of_text(answer: Answer<'_>) -> Option<Outcome<'_>> {
    Some(match answer {
        Answer::Value {
            key,
            flags,
            cas,
            data,
        } => Outcome::Value {
            key,
            flags,
            cas,
            data,
        },
        Answer::End => Outcome::End,
        Answer::Stored | Answer::Deleted | Answer::Touched => Outcome::Performed,
        Answer::NotStored => Outcome::Refused,
        Answer::Exists => Outcome::Changed,
        Answer::NotFound => Outcome::Missing,
        Answer::Number(number) => Outcome::Number(number),
        _ => return None,
    })
}

/// The number that a counter's value is; `decr` pads it.
fn decimal(data: &[u8]) -> Option<u64> {
    std::str::from_utf8(data).ok()?.trim_end().parse().ok()
}
