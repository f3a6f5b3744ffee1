//! Units of work: requests about one key each, parsed ahead of their execution so that memory is loaded meanwhile.

use super::worker::Worker;
use corelane_proto::memcached::commands::{Output, Pending};
use corelane_proto::memcached::items::Key;
use corelane_proto::memcached::request::{Data, Event, LONGEST_KEY, Parser, Request, Step};
use corelane_store::Reservation;

/// Units that are parsed one after the other, before what they need is loaded. Loads of different pages overlap only if little else is
/// done between them, because each waits for its address to be translated.
const GROUP: usize = 16;

/// Units of the group that is executed, and of the one behind it.
const AHEAD: usize = 2 * GROUP;

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
    /// A unit that was not parsed from received bytes, and the hash of its key.
    pub(super) const fn of(event: Event<'a>, hash: u64) -> Self {
        Unit {
            event,
            hash,
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

/// Units that are parsed ahead of the one that is executed, in a ring.
pub(super) struct Ahead<'a> {
    units: [Unit<'a>; AHEAD],
    /// How many were parsed in all, of how many the items are being loaded, and how many were taken.
    parsed: usize,
    loaded: usize,
    taken: usize,
}

impl<'a> Ahead<'a> {
    /// The units from `first` on, which are those in `bytes` from `at` on.
    #[inline]
    pub(super) fn new(
        first: Unit<'a>,
        parser: &mut Parser,
        bytes: &'a [u8],
        at: &mut usize,
        worker: &Worker,
    ) -> Self {
        let mut ahead = Self {
            units: [const { Unit::NOTHING }; AHEAD],
            parsed: 1,
            loaded: 0,
            taken: 0,
        };
        ahead.units[0] = first;
        ahead.parse(0, parser, bytes, at, worker);
        ahead
    }

    /// The next unit. At the end of each group, what the next one needs begins to be loaded: items of the one behind it, and the part of
    /// the index of the one after that.
    #[inline]
    pub(super) fn take(
        &mut self,
        parser: &mut Parser,
        bytes: &'a [u8],
        at: &mut usize,
        worker: &Worker,
    ) -> Option<&Unit<'a>> {
        if self.taken == self.loaded {
            if self.loaded == self.parsed {
                return None;
            }
            let parsed = self.parsed;
            for place in self.loaded..parsed {
                let unit = &self.units[place % AHEAD];
                if has_key(&unit.event) {
                    worker.prefetch_item(unit.hash);
                }
            }
            self.loaded = parsed;
            self.parse(parsed, parser, bytes, at, worker);
        }
        self.taken += 1;
        Some(&self.units[(self.taken - 1) % AHEAD])
    }

    /// Parses the rest of the group that begins at `start`, of which some may be parsed, and begins to load its part of the index.
    fn parse(&mut self, start: usize, parser: &mut Parser, bytes: &'a [u8], at: &mut usize, worker: &Worker) {
        while self.parsed < start + GROUP
            && let Some(unit) = next(parser, bytes, at, worker)
        {
            self.units[self.parsed % AHEAD] = unit;
            self.parsed += 1;
        }
        for place in start..self.parsed {
            let unit = &self.units[place % AHEAD];
            if has_key(&unit.event) {
                worker.prefetch(unit.hash);
            }
        }
    }
}

/// What the first requests of the next connections need is loaded while those before are served.
#[derive(Default)]
pub(super) struct Upcoming {
    /// The hash of the first key of each, in a ring.
    hashes: [Option<u64>; FIRST_AHEAD],
    count: usize,
}

/// Connections ahead whose items are loaded. The engine shows them twice as early: until then, lines of the index are loaded.
const FIRST_AHEAD: usize = 4;

impl Upcoming {
    /// Begins to load what bytes that will be received soon need.
    #[inline]
    pub(super) fn load(&mut self, bytes: &[u8], worker: &Worker) {
        let hash = first_key(bytes).map(|key| worker.hash(key).value());
        if let Some(hash) = hash {
            worker.prefetch(hash);
        }
        let place = self.count % FIRST_AHEAD;
        self.count = self.count.wrapping_add(1);
        if let Some(hash) = std::mem::replace(&mut self.hashes[place], hash) {
            worker.prefetch_item(hash);
        }
    }
}

/// The second word of a line, which is the first key in most requests.
#[inline]
fn first_key(bytes: &[u8]) -> Option<&[u8]> {
    let command = bytes
        .iter()
        .take(LONGEST_COMMAND)
        .position(|byte| *byte == b' ')?;
    let rest = &bytes[command + 1..];
    let rest = &rest[..rest.len().min(LONGEST_KEY + 1)];
    memchr::memchr2(b' ', b'\r', rest).map(|end| &rest[..end])
}

/// Bytes of the longest commands with keys (`prepend`, `replace`), and of the space behind.
const LONGEST_COMMAND: usize = 8;

#[inline]
fn hash_of(event: &Event<'_>, worker: &Worker) -> u64 {
    match event {
        Event::Request(Request::Get(get)) => worker.hash(get.key).value(),
        Event::Request(request) => worker.hash(request.key(&mut [0; LONGEST_KEY])).value(),
        _ => 0,
    }
}

#[inline]
pub(super) fn has_key(event: &Event<'_>) -> bool {
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
