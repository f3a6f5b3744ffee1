//! The connections of a worker, as `stats conns` and `watch connevents` show them.

use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::listing::stat;
use std::net::SocketAddr;

/// Those that are open, by the slots of their identifiers.
#[derive(Debug, Default)]
pub(super) struct Connections(Vec<Option<Open>>);

/// A connection, or a socket that listens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    /// Its client, if it is no socket that listens; `None` of a Unix socket.
    pub(super) peer: Option<SocketAddr>,
    pub(super) local: Option<SocketAddr>,
    /// The second in which its client last sent something.
    pub(super) heard: u32,
    pub(super) state: State,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Listens,
    Reads,
    Watches,
}

impl Connections {
    /// One that is open now.
    pub(super) fn open(&mut self, slot: usize, open: Open) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some(open);
    }

    /// Ends one; what it was.
    pub(super) fn close(&mut self, slot: usize) -> Option<Open> {
        self.0.get_mut(slot)?.take()
    }

    /// One of them.
    #[inline]
    pub(super) fn get(&mut self, slot: usize) -> Option<&mut Open> {
        self.0.get_mut(slot)?.as_mut()
    }

    /// Writes what `stats conns` shows of the one in a slot, under this number; whether there are further slots.
    pub(super) fn list(&self, slot: usize, (number, now): (usize, u32), out: &mut impl Output) -> bool {
        if let Some(Some(open)) = self.0.get(slot) {
            open.list(number, now, out);
        }
        slot + 1 < self.0.len()
    }
}

impl Open {
    fn list(&self, number: usize, now: u32, out: &mut impl Output) {
        let text = |address: Option<SocketAddr>| match address {
            Some(address) if address.is_ipv4() => format!("tcp:{address}"),
            Some(address) => format!("tcp6:{address}"),
            None => "unix:".to_owned(),
        };
        let state = match self.state {
            State::Listens => "conn_listening",
            State::Reads => "conn_read",
            State::Watches => "conn_watch",
        };
        match self.state {
            State::Listens => stat(format!("{number}:addr"), text(self.local), out),
            _ => {
                stat(format!("{number}:addr"), text(self.peer), out);
                stat(format!("{number}:listen_addr"), text(self.local), out);
            }
        }
        stat(format!("{number}:state"), state, out);
        let idle = now.saturating_sub(self.heard);
        stat(format!("{number}:secs_since_last_cmd"), idle, out);
    }
}
