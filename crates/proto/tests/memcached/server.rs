//! A server without sockets: bytes in, answers out.

use crate::memcached_map::Map;
use corelane_proto::memcached::commands::{Commands, Counts, Pending, Reading};
use corelane_proto::memcached::control::{Action, Allowed, Stats};
use corelane_proto::memcached::items::{Attributes, Item, Items, Key};
use corelane_proto::memcached::request::{BINARY_REFUSED, Control, Data, Event, Parser, Reason, Request};
use corelane_proto::memcached::time::Clock;

/// The time when a server starts.
pub const START: u32 = 62;

pub struct Server {
    pub items: Map,
    pub clock: Clock,
    pub counts: Counts,
    pub largest_item: usize,
    pub allowed: Allowed,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            items: Map::default(),
            clock: Clock {
                now: START,
                epoch: 1_700_000_000,
            },
            counts: Counts::default(),
            largest_item: 1 << 20,
            allowed: Allowed {
                flush: true,
                dump: true,
                watch: true,
                shutdown: false,
                crawler: true,
            },
        }
    }
}

/// A connection to it.
#[derive(Default)]
pub struct Connection {
    parser: Parser,
    unparsed: Vec<u8>,
    pending: Option<Pending<Vec<u8>>>,
    pub closed: Option<Reason>,
}

impl Server {
    pub fn serve(&mut self, connection: &mut Connection, bytes: &[u8]) -> Vec<u8> {
        let mut received = std::mem::take(&mut connection.unparsed);
        received.extend_from_slice(bytes);
        let mut out = Vec::new();
        let mut rest = received.as_slice();
        while connection.closed.is_none() {
            let step = connection.parser.next(rest);
            rest = &rest[step.used..];
            self.event(connection, &step.event, &mut out);
            if step.used == 0 && step.event == Event::Nothing {
                break;
            }
        }
        connection.unparsed = rest.to_vec();
        out
    }

    fn event(&mut self, connection: &mut Connection, event: &Event<'_>, out: &mut Vec<u8>) {
        let mut commands = Commands {
            items: &mut self.items,
            clock: self.clock,
            counts: &mut self.counts,
            largest_item: self.largest_item,
        };
        match event {
            Event::Nothing => {}
            Event::Request(request) => {
                let mut buffer = [0; 250];
                let key = Key {
                    bytes: request.key(&mut buffer),
                    hash: 0,
                };
                assert!((1..=250).contains(&key.bytes.len()));
                match request {
                    Request::Store(store) if store.data == Data::Later => {
                        connection.pending = commands.begin(store, key, out);
                    }
                    request => answer(&mut commands, request, key, out),
                }
            }
            Event::Part(part) => {
                if let Some(pending) = &mut connection.pending {
                    commands.continue_with(pending, part);
                }
            }
            Event::End(good) => {
                if let Some(pending) = connection.pending.take() {
                    commands.finish(pending, *good, out);
                }
            }
            Event::Answer(answer) => out.extend_from_slice(answer.as_bytes()),
            Event::Control(control) => self.control(control, out),
            Event::Close(reason) => {
                if *reason == Reason::Binary {
                    out.extend_from_slice(BINARY_REFUSED.as_bytes());
                }
                connection.closed = Some(*reason);
            }
        }
    }

    fn control(&mut self, control: &Control<'_>, out: &mut Vec<u8>) {
        let action = control.action(self.allowed, self.clock);
        let answer = match action {
            Action::Version => "VERSION 1.6.45\r\n",
            Action::FlushAll { moment } => {
                self.items.flushed = Some(moment);
                "OK\r\n"
            }
            Action::Crawler(runs) => {
                self.allowed.crawler = runs;
                "OK\r\n"
            }
            Action::Verbosity(_) | Action::MemoryLimit { .. } | Action::Stats(Stats::Detail(_)) => "OK\r\n",
            Action::Stats(Stats::Reset) => "RESET\r\n",
            action => action.answer().unwrap_or("SERVER_ERROR not in this test\r\n"),
        };
        if !control.quiet {
            out.extend_from_slice(answer.as_bytes());
        }
    }
}

/// Answers a request, and checks that a copy of the item would have been answered alike if the request left the item as it was, and
/// only then.
fn answer(commands: &mut Commands<'_, Map>, request: &Request<'_>, key: Key<'_>, out: &mut Vec<u8>) {
    let clock = commands.clock;
    let item = |commands: &mut Commands<'_, Map>| -> Option<(Attributes, Vec<u8>)> {
        let item = commands.items.find(key, clock.now)?;
        let (first, rest) = item.parts();
        let value = rest.fold(first.to_vec(), |value, part| [&value, part].concat());
        Some((item.attributes(), value))
    };
    let (before, counts, start) = (item(commands), *commands.counts, out.len());
    commands.answer(request, key, out);
    let reading = match request {
        Request::Get(get) => Reading::get(get),
        Request::Meta(meta) => Reading::meta(meta, key, clock),
        _ => None,
    };
    let (Some(reading), Some((attributes, value))) = (reading, before) else {
        return;
    };
    let (after, counted) = (item(commands).map(|item| item.0), *commands.counts);
    let leaves = reading.leaves(&attributes);
    assert_eq!(leaves, after == Some(attributes), "{request:?} of {attributes:?}");
    if leaves {
        let mut copied = Vec::new();
        *commands.counts = counts;
        commands.answer_with(&reading, &attributes, &value, &mut copied);
        assert!(copied == out[start..] && *commands.counts == counted && reading.key() == key.bytes);
    }
}
