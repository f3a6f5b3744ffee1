//! Requests that are observed: by watchers, or to be counted by prefix of key. What came of a request is seen from the counts and the
//! item before and after it, so that requests that are not observed cost nothing more.

use super::exchange::Client;
use super::prefixes::Counted;
use super::units::{self, Incoming, Unit};
use super::watchers::DETAIL;
use super::worker::Worker;
use corelane_proto::memcached::commands::{Counts, Output};
use corelane_proto::memcached::items::Key;
use corelane_proto::memcached::request::{Data, Event, LONGEST_KEY, MetaCommand, Mode, Request, Store};
use corelane_proto::memcached::watch::{Entry, Found, Status};

/// What a request does.
#[derive(Clone, Copy)]
enum Kind {
    /// It reads a value, and is no meta request.
    Get,
    /// It stores a value of so many bytes.
    Store {
        mode: Mode,
        length: u32,
    },
    Delete {
        by_meta: bool,
    },
    Other,
}

/// A request, and what was there before it.
struct Observed {
    kind: Kind,
    key: Vec<u8>,
    hash: u64,
    /// Length of the value and the number of its change, of the item of the key.
    item: Option<(usize, u64)>,
    counts: Counts,
    /// Items that were found and are flushed, or have expired.
    gone: [u64; 2],
}

/// Executes a unit of a client of the worker `of`, and passes on what came of it to those that observe.
#[inline]
pub(super) fn execute(
    worker: &mut Worker,
    incoming: &mut Option<Box<Incoming>>,
    unit: &Unit<'_>,
    (client, of): (Client, usize),
    out: &mut impl Output,
) {
    if worker.shared.watchers.observed() == 0 {
        units::execute(worker, incoming, unit, out);
    } else {
        let connection = client.number(of, worker.shared.plan.workers());
        observe(worker, incoming, unit, connection, out);
    }
}

#[cold]
#[inline(never)]
fn observe(
    worker: &mut Worker,
    incoming: &mut Option<Box<Incoming>>,
    unit: &Unit<'_>,
    connection: usize,
    out: &mut impl Output,
) {
    if let Event::Request(Request::Store(store)) = &unit.event
        && store.meta.is_none()
    {
        count(worker, store.key, Counted::Set);
    }
    let before = Observed::of(worker, incoming.as_deref(), unit);
    units::execute(worker, incoming, unit, out);
    if let Some(before) = before {
        before.record(worker, connection, incoming.is_some());
    }
}

fn count(worker: &Worker, key: &[u8], counted: Counted) {
    let shared = &worker.shared;
    if shared.watchers.observed() & DETAIL != 0 {
        shared.prefixes.count(key, shared.delimiter, counted);
    }
}

/// How a value is stored: of `ms` a flag says it.
fn mode_of(store: &Store<'_>) -> Mode {
    let Some(flags) = store.meta else {
        return store.mode;
    };
    let mode = flags
        .split(|byte| *byte == b' ')
        .find(|flag| flag.first() == Some(&b'M'));
    match mode.and_then(|flag| flag.get(1)).map(u8::to_ascii_uppercase) {
        Some(b'E') => Mode::Add,
        Some(b'R') => Mode::Replace,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        _ => Mode::Set,
    }
}

impl Observed {
    fn of(worker: &Worker, incoming: Option<&Incoming>, unit: &Unit<'_>) -> Option<Self> {
        let mut buffer = [0; LONGEST_KEY];
        let (kind, key, hash) = match &unit.event {
            Event::Request(Request::Get(get)) => (Kind::Get, get.key, unit.hash),
            Event::Request(request) => {
                let kind = match request {
                    Request::Store(store) if store.data != Data::Bad => Kind::Store {
                        mode: mode_of(store),
                        length: store.length,
                    },
                    Request::Store(_) => return None,
                    Request::Delete(_) => Kind::Delete { by_meta: false },
                    Request::Meta(meta) if meta.command == MetaCommand::Delete => {
                        Kind::Delete { by_meta: true }
                    }
                    _ => Kind::Other,
                };
                (kind, request.key(&mut buffer), unit.hash)
            }
            Event::End(true) => {
                let incoming = incoming?;
                let Key { bytes, hash } = incoming.key();
                let (mode, length) = (incoming.mode(), incoming.length());
                (Kind::Store { mode, length }, bytes, hash)
            }
            _ => return None,
        };
        Some(Self {
            kind,
            key: key.to_vec(),
            hash,
            item: worker.present(key, hash).map(|(length, cas, _)| (length, cas)),
            counts: worker.counts(),
            gone: worker.gone(),
        })
    }

    /// Passes on what came of it. Nothing is known yet of a value that `arrives`.
    fn record(&self, worker: &Worker, connection: usize, arrives: bool) {
        if arrives {
            return;
        }
        let key = &*self.key;
        let counts = worker.counts().since(self.counts);
        let [flushed, expired] = worker.gone();
        let found = match self.item {
            Some(_) => Found::Item,
            None if flushed > self.gone[0] => Found::Flushed,
            None if expired > self.gone[1] => Found::Expired,
            None => Found::Nothing,
        };
        let size = self.item.map_or(0, |(length, _)| length);
        worker.record(&Entry::Get {
            key,
            found,
            size,
            connection,
        });
        match self.kind {
            Kind::Get => {
                let hit = found == Found::Item;
                count(worker, key, Counted::Get { hit });
            }
            Kind::Store { mode, length } => {
                let present = worker.present(key, self.hash);
                let status = self.status(&counts, present.map(|(length, cas, _)| (length, cas)));
                worker.record(&Entry::Store {
                    key,
                    status,
                    mode,
                    ttl: present
                        .filter(|_| status == Status::Stored)
                        .map_or(0, |(.., ttl)| ttl),
                    size: length as usize,
                    connection,
                });
            }
            Kind::Delete { by_meta } => {
                if !by_meta {
                    count(worker, key, Counted::Delete);
                }
                if counts.delete_hits > 0 {
                    worker.record(&Entry::Deleted { key, by_meta, size });
                }
            }
            Kind::Other => {}
        }
    }

    fn status(&self, counts: &Counts, present: Option<(usize, u64)>) -> Status {
        if counts.too_large > 0 {
            Status::TooLarge
        } else if counts.no_memory > 0 {
            Status::NoMemory
        } else if counts.cas_badval > 0 {
            Status::Exists
        } else if counts.cas_misses > 0 {
            Status::NotFound
        } else if present == self.item && !self.may_be_alike() {
            Status::NotStored
        } else {
            Status::Stored
        }
    }

    /// Whether the item may be as it was before though it was stored, since items have no numbers of changes.
    fn may_be_alike(&self) -> bool {
        let has_no_number = self.item.is_some_and(|(_, cas)| cas == 0);
        has_no_number && !matches!(self.kind, Kind::Store { mode: Mode::Add, .. })
    }
}
