//! Where the answers of one connection go: small pieces are gathered in a buffer of the worker, large ones are queued at once.

use corelane_proto::memcached::commands::Output;
use corelane_worker::engine::Output as _;
use corelane_worker::tls::ServerChannel;

/// Pieces of at least so many bytes are queued on their own: to gather them would cost a copy more.
const LARGE: usize = 2_048;

/// Gathered bytes that are queued before a batch has ended, so that they are still in the cache.
const GATHERED: usize = 32 << 10;

/// Bytes of answers queued on a connection beyond which no further request of it is executed until its client has taken them.
pub(super) const PAUSE: u64 = 256 << 10;

/// The answers to the requests of one event.
pub(super) struct Answers<'a> {
    gathered: &'a mut Vec<u8>,
    out: ServerChannel<'a>,
    /// Bytes that were queued before those that are gathered: none is sent meanwhile.
    queued: u64,
    /// Whether the connection had no room.
    failed: bool,
}

impl<'a> Answers<'a> {
    pub(super) fn new(gathered: &'a mut Vec<u8>, out: ServerChannel<'a>) -> Self {
        gathered.clear();
        Self {
            gathered,
            queued: out.queued(),
            out,
            failed: false,
        }
    }

    /// Whether the client must take answers before more requests are executed.
    #[inline]
    pub(super) fn are_full(&self) -> bool {
        self.gathered.len() as u64 + self.queued > PAUSE || self.failed
    }

    /// Queues what was gathered.
    pub(super) fn flush(&mut self) {
        if !self.gathered.is_empty() {
            self.failed |= self.out.write(self.gathered).is_err();
            self.gathered.clear();
            self.queued = self.out.queued();
        }
    }

    /// The connection's output, and whether a part of the answers was lost.
    pub(super) fn into_channel(mut self) -> (ServerChannel<'a>, bool) {
        self.flush();
        (self.out, self.failed)
    }

    #[cold]
    #[inline(never)]
    fn put_large(&mut self, bytes: &[u8]) {
        self.flush();
        self.failed |= self.out.write(bytes).is_err();
        self.queued = self.out.queued();
    }

    /// Makes room for so many bytes more.
    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.gathered.len() >= GATHERED {
            self.flush();
        }
        self.gathered.reserve(bytes);
    }
}

impl Output for Answers<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() >= LARGE {
            return self.put_large(bytes);
        }
        self.reserve(bytes.len());
        self.gathered.extend_from_slice(bytes);
    }

    #[inline]
    fn put_all<const PIECES: usize>(&mut self, pieces: [&[u8]; PIECES]) {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if length >= LARGE {
            return pieces.iter().for_each(|piece| self.put(piece));
        }
        self.reserve(length);
        pieces
            .iter()
            .for_each(|piece| self.gathered.extend_from_slice(piece));
    }
}
