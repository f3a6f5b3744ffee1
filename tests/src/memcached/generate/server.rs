//! Requests to the server as a whole whose answers depend on no state, and rounds that end a connection.

use super::super::sequence::{Ending, Round};
use super::Generator;
use super::draft::Draft;

/// Requests that are answered alike at any time.
const OF_SERVER: &[&str] = &[
    "version",
    "version 1",
    "verbosity 0",
    "verbosity",
    "verbosity x",
    "verbosity -1",
    "verbosity 0 noreply",
    "stats reset",
    "stats bogus",
    "stats noreply",
    "stats bogus noreply",
    "stats detail",
    "stats detail x",
    "stats detail on",
    "stats detail off",
    "stats cachedump",
    "stats cachedump a b",
    "stats cachedump 300 1",
    "cache_memlimit",
    "cache_memlimit 7",
    "cache_memlimit x",
    "cache_memlimit 1024",
    "cache_memlimit 1024 noreply",
    "cache_memlimit 2000000000",
    "lru mode",
    "lru mode flat",
    "lru mode segmented",
    "lru mode x",
    "lru tune",
    "lru tune 10 25 0.1 2.0",
    "lru tune 50 50 0.1 2.0",
    "lru tune 20 40 -1 2",
    "lru tune a b c d",
    "lru temp_ttl 61",
    "lru temp_ttl -1",
    "lru temp_ttl x",
    "lru x",
    "lru_crawler",
    "lru_crawler sleep 100",
    "lru_crawler sleep 2000000",
    "lru_crawler sleep x",
    "lru_crawler tocrawl 0",
    "lru_crawler tocrawl x",
    "lru_crawler x",
    "lru_crawler x y z",
    "lru_crawler crawl 300",
    "lru_crawler crawl x",
    "slabs",
    "slabs automove",
    "slabs automove 0",
    "slabs automove 1",
    "slabs automove 3",
    "slabs automove x",
    "slabs automove ratio 0.8",
    "slabs automove ratio",
    "slabs automove window 30",
    "slabs automove window 1",
    "slabs reassign 1 1",
    "slabs reassign a b",
    "slabs x",
    "shutdown",
    "shutdown now",
    "flush_all x",
    "flush_all 20000",
    "flush_all 2592000 noreply",
    "flush_all 99999999999",
    "misbehave",
    "get",
    "gets",
    "gat",
    "gat 1",
    "gat x a",
    "set",
    "set a",
    "cas a 0 0",
    "delete",
    "incr",
    "incr a",
    "decr a",
    "touch",
    "touch a",
    "mg",
    "ms",
    "ms a",
    "md",
    "ma",
    "me",
    "mx",
    "m",
    "a",
    "ab",
    "",
    " ",
    "  ",
    " get a",
    "GET a",
    "Version",
    "get  a",
    "mn x",
    "quitt",
    "quit1",
    "\x00",
    "\x01\x02\x03\x04",
    "\x7fELF",
    "{\"a\":1}",
    "set a 0 0",
    "touch a x",
    "touch a 1 noreply x",
    "delete a 0",
    "delete a 0 noreply",
    "delete a 1 2 3",
    "incr a 1 2 3",
    "noreply",
    "foo noreply",
    "HTTP/1.1",
    "set a 0 0 -1",
    "set a 0 0 2147483647",
    "ms a -1",
    "ms a x",
    "ms a 2147483647",
    "auth a b",
    "refresh_certs",
    "refresh_certs x",
    "refresh_certs noreply",
];

impl Generator {
    /// A request to the server, or one that is no request.
    pub(super) fn of_server(&mut self) -> Draft {
        let mut line = self.one_of(OF_SERVER);
        if self.pauses && line.starts_with("flush_all") {
            line = "version";
        }
        let draft = Draft::new(line);
        self.ended(draft)
    }

    /// A retrieval whose first key is too long, 251 bytes and more: upstream performs those before, and loses their answers.
    pub(super) fn too_long_key(&mut self) -> Vec<u8> {
        let mut draft = self.retrieval();
        let first = if draft.words[0].starts_with(b"ga") { 2 } else { 1 };
        let key = vec![b'k'; self.random.usize(251..400)];
        draft.words.insert(first, key);
        draft.bytes()
    }

    /// A round after which the server closes the connection: upstream loses answers before some, so that they are alone.
    pub(super) fn closing_round(&mut self) -> Round {
        let line = match self.random.u8(0..5) {
            0 => vec![b'x'; self.random.usize(2_050..10_000)],
            1 => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            _ => self
                .one_of(&[
                    "quit\r\n",
                    "quit\n",
                    "quit now\r\nversion\r\n",
                    "quit\r\nget a\r\n",
                ])
                .into(),
        };
        let mut requests = vec![line];
        if requests[0].starts_with(b"quit") {
            requests.insert(0, self.request().bytes());
        }
        Round {
            requests,
            cuts: Vec::new(),
            ending: Ending::Closed,
        }
    }
}
