//! Units of work: requests about one key each, parsed ahead of their execution so that memory is loaded meanwhile.

use super::worker::Worker;
use corelane_proto::memcached::commands::{Output, Pending};
use corelane_proto::memcached::items::Key;
use corelane_proto::memcached::request::{Data, Event, LONGEST_KEY, Parser, Request, Step};
use corelane_store::Reservation;

/// Units that are parsed before the first of them is executed. A line of the index is loaded while the others are parsed, an
/// item while those of the others are found: at 10 M keys, a distance of about 20 hides the loads.
pub(super) const BATCH: usize = 32;

/// A value that arrives in parts, and the request that stores it.
pub(super) type Incoming = Pending<Reservation>;

/// A unit of work.
#[derive(Clone)]
pub(super) struct Unit<'a> {
    pub(super) event: Event<'a>,
    /// Of its key, if it has one.
    pub(super) hash: u64,
    /// Where it starts in the received bytes, and the parser there: to stop before it.
    pub(super) start: usize,
    pub(super) before: Parser,
    /// Where it ends.
    pub(super) end: usize,
}

impl<'a> Unit<'a> {
    /// A unit that was not parsed from received bytes.
    pub(super) fn of(event: Event<'a>, worker: &Worker) -> Self {
        Unit {
            hash: hash_of(&event, worker),
            event,
            ..Self::NOTHING
        }
    }

    const NOTHING: Self = Unit {
        event: Event::Nothing,
        hash: 0,
        start: 0,
        before: Parser::new(),
        end: 0,
    };
}

/// The units at the front of received bytes.
pub(super) struct Batch<'a> {
    units: [Unit<'a>; BATCH],
    count: usize,
}

impl<'a> Batch<'a> {
    /// Parses units that follow `first` in `bytes` from `at` on, which moves behind them, and begins to load what they need.
    pub(super) fn new(
        parser: &mut Parser,
        bytes: &'a [u8],
        at: &mut usize,
        first: Unit<'a>,
        worker: &Worker,
    ) -> Self {
        let mut batch = Self {
            units: [const { Unit::NOTHING }; BATCH],
            count: 0,
        };
        let mut ends = batch.push(first, worker);
        while !ends && batch.count < BATCH {
            let Some(unit) = next(parser, bytes, at, worker) else {
                break;
            };
            ends = batch.push(unit, worker);
        }
        for unit in batch.units().iter().filter(|unit| has_key(&unit.event)) {
            worker.prefetch_item(unit.hash);
        }
        batch
    }

    /// Adds a unit; whether nothing follows it.
    #[inline]
    fn push(&mut self, unit: Unit<'a>, worker: &Worker) -> bool {
        if has_key(&unit.event) {
            worker.prefetch(unit.hash);
        }
        let ends = matches!(unit.event, Event::Close(_));
        self.units[self.count] = unit;
        self.count += 1;
        ends
    }

    /// The units.
    pub(super) fn units(&self) -> &[Unit<'a>] {
        &self.units[..self.count]
    }
}

#[inline]
fn hash_of(event: &Event<'_>, worker: &Worker) -> u64 {
    match event {
        Event::Request(Request::Get(get)) => worker.hash(get.key).value(),
        Event::Request(request) => worker.hash(request.key(&mut [0; LONGEST_KEY])).value(),
        _ => 0,
    }
}

#[inline]
fn has_key(event: &Event<'_>) -> bool {
    matches!(event, Event::Request(_))
}

/// The next unit in `bytes` from `at` on, which moves behind it; `None` if more bytes are needed.
#[inline]
pub(super) fn next<'a>(
    parser: &mut Parser,
    bytes: &'a [u8],
    at: &mut usize,
    worker: &Worker,
) -> Option<Unit<'a>> {
    loop {
        let (before, start) = (parser.clone(), *at);
        let Step { used, event } = parser.next(&bytes[start..]);
        *at += used;
        match event {
            Event::Nothing if used == 0 => return None,
            Event::Nothing => continue,
            _ => {}
        }
        let hash = hash_of(&event, worker);
        return Some(Unit {
            event,
            hash,
            start,
            before,
            end: *at,
        });
    }
}

/// Executes a unit about items: a request, or a part of the value of the last one.
#[inline]
pub(super) fn execute(
    worker: &mut Worker,
    incoming: &mut Option<Box<Incoming>>,
    unit: &Unit<'_>,
    out: &mut impl Output,
) {
    match &unit.event {
        Event::Request(Request::Get(get)) => {
            let key = Key {
                bytes: get.key,
                hash: unit.hash,
            };
            worker.commands().get(get, key, out);
        }
        Event::Request(request) => {
            let mut buffer = [0; LONGEST_KEY];
            let key = Key {
                bytes: request.key(&mut buffer),
                hash: unit.hash,
            };
            match request {
                Request::Store(store) if store.data == Data::Later => {
                    *incoming = worker.commands().begin(store, key, out).map(Box::new);
                }
                request => worker.commands().answer(request, key, out),
            }
        }
        Event::Part(part) => {
            if let Some(incoming) = incoming {
                worker.commands().continue_with(incoming, part);
            }
        }
        Event::End(good) => {
            if let Some(incoming) = incoming.take() {
                worker.commands().finish(*incoming, *good, out);
            }
        }
        Event::Nothing | Event::Answer(_) | Event::Control(_) | Event::Close(_) => {}
    }
}
