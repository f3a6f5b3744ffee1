//! How long a connection that makes no more requests waits for the server to close it first.
//!
//! After `Connection: close`, whoever sent it, the client closes once it has the response (RFC 9112 9.6). Many servers close
//! at once, too. Who closes first keeps the connection in TIME_WAIT, and on the client that is a port; so the client gives
//! the server a moment, unless this server leaves closing to its clients.

use std::time::Duration;

/// Enough for a server that closes right after its response.
const MOMENT: Duration = Duration::from_millis(5);

/// Connections closed by the client in succession from which on the server is not waited for.
const ENOUGH: u32 = 8;

/// Of the connections that are not waited for, one in so many is: the server may have been slow before.
const TRIED_AGAIN: u32 = 64;

/// What a server did with the connections that made no more requests.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    /// Closed by the client since the server last closed one.
    by_client: u32,
}

impl Linger {
    /// How long the next one waits.
    pub(crate) fn patience(&self) -> Duration {
        match self.by_client {
            count if count < ENOUGH || count.is_multiple_of(TRIED_AGAIN) => MOMENT,
            _ => Duration::ZERO,
        }
    }

    /// The server closed one first.
    pub(crate) fn closed_by_server(&mut self) {
        self.by_client = 0;
    }

    /// The client closed one.
    pub(crate) fn closed_by_client(&mut self) {
        self.by_client = self.by_client.wrapping_add(1);
    }
}
