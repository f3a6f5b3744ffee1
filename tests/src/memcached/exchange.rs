//! The same requests to several servers at the same time, and what each answers.

use super::compare::cas_numbers;
use super::datagrams::Datagrams;
use super::sequence::{Ending, Round, Sequence};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// How long a server may be silent; longer than the pauses of a virtual machine that a repetition does not meet again.
pub const SILENCE: Duration = Duration::from_secs(2);

/// The pause between two writes of one round, in which a server that waits reads the first.
const BETWEEN_WRITES: Duration = Duration::from_micros(100);

/// Written without reading in between: less than a socket buffers, so that two ends never wait for each other.
const WRITTEN: usize = 64 << 10;

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For connections.
    pub stream: SocketAddr,
    /// For datagrams, if it has them.
    pub datagrams: Option<SocketAddr>,
}

impl From<SocketAddr> for Addresses {
    fn from(stream: SocketAddr) -> Self {
        Self {
            stream,
            datagrams: None,
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server closed it.
    Closed,
    /// It was reset, which may have discarded answers.
    Reset,
    /// The server sent neither an answer nor an end.
    Silent,
}

/// What a server sent over one connection.
#[derive(Clone, Debug)]
pub struct Answers {
    pub bytes: Vec<u8>,
    /// `None` if this side ended it, after all answers.
    pub end: Option<End>,
}

/// One connection to each server.
pub struct Connections {
    sessions: Vec<Session>,
    rounds: usize,
}

impl Connections {
    /// Deletes the keys of the sequence on all servers, and connects.
    pub fn open(servers: &[Addresses], sequence: &Sequence) -> Self {
        delete(servers, sequence);
        Self {
            sessions: servers.iter().map(Session::open).collect(),
            rounds: 0,
        }
    }

    /// Performs these rounds at the same time on all servers.
    pub fn play(&mut self, rounds: &[Round]) {
        for round in rounds {
            self.rounds += 1;
            let opaque = format!("round-{}", self.rounds);
            if round.ending == Ending::Datagrams {
                let sessions = self.sessions.iter_mut();
                sessions.for_each(|session| session.exchange_datagrams(&round.requests));
                continue;
            }
            self.write(round, format!("mg _ O{opaque}\r\n").as_bytes());
            let answer = format!("EN O{opaque}\r\n");
            for session in &mut self.sessions {
                session.finish(round.ending, answer.as_bytes());
            }
        }
    }

    /// Writes the pieces of a round, each to all servers at the same time.
    fn write(&mut self, round: &Round, sentinel: &[u8]) {
        let pieces = |session: &mut Session| round.pieces(session.last_cas, sentinel).into_iter();
        let mut queued: Vec<_> = self.sessions.iter_mut().map(pieces).collect();
        for piece in 0.. {
            let next: Vec<_> = queued.iter_mut().map(Iterator::next).collect();
            if next.iter().all(Option::is_none) {
                return;
            }
            if piece > 0 {
                thread::sleep(BETWEEN_WRITES);
            }
            for (session, piece) in self.sessions.iter_mut().zip(next) {
                session.write(&piece.unwrap_or_default());
            }
        }
    }

    /// What the servers answered, in their order.
    pub fn answers(self) -> Vec<Answers> {
        let answers = |session: Session| Answers {
            bytes: session.bytes,
            end: session.end,
        };
        self.sessions.into_iter().map(answers).collect()
    }
}

/// What the servers answer to a sequence.
pub fn answers(servers: &[Addresses], sequence: &Sequence) -> Vec<Answers> {
    let mut connections = Connections::open(servers, sequence);
    connections.play(&sequence.rounds);
    connections.answers()
}

/// Deletes the keys of a sequence on all servers; waits until they are.
fn delete(servers: &[Addresses], sequence: &Sequence) {
    let requests = [&sequence.deletions()[..], b"mn\r\n"].concat();
    let mut sessions: Vec<Session> = servers.iter().map(Session::open).collect();
    for session in &mut sessions {
        session.write(&requests);
    }
    for (mut session, server) in sessions.into_iter().zip(servers) {
        session.finish(Ending::Whole, b"MN\r\n");
        assert_eq!(session.end, None, "{server:?} deletes keys");
    }
}

/// A connection to one server.
struct Session {
    stream: TcpStream,
    bytes: Vec<u8>,
    end: Option<End>,
    /// The last CAS number that it sent.
    last_cas: u64,
    datagrams: Option<Datagrams>,
}

impl Session {
    fn open(server: &Addresses) -> Self {
        let stream = TcpStream::connect(server.stream).expect("the server accepts");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(SILENCE)).expect("a timeout");
        stream.set_write_timeout(Some(SILENCE)).expect("a timeout");
        Self {
            stream,
            bytes: Vec::new(),
            end: None,
            last_cas: 1,
            datagrams: server.datagrams.map(Datagrams::open),
        }
    }

    /// Sends each request as a datagram, and adds the answers to those of the connection.
    fn exchange_datagrams(&mut self, requests: &[Vec<u8>]) {
        let datagrams = self.datagrams.as_mut().expect("the server has datagrams");
        for request in requests {
            if self.end.is_none() && !datagrams.exchange(request, &mut self.bytes) {
                self.end = Some(End::Silent);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(WRITTEN) {
            self.stream.set_nonblocking(true).expect("non-blocking");
            while self.end.is_none() && self.read() {}
            self.stream.set_nonblocking(false).expect("blocking");
            // If the server closed it, that is found when its answers are read.
            if self.end.is_some() || self.stream.write_all(part).is_err() {
                return;
            }
        }
    }

    /// Reads until the sentinel's answer, or the end.
    fn finish(&mut self, ending: Ending, sentinel: &[u8]) {
        if ending == Ending::Closed && self.end.is_none() {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        while self.end.is_none() && (ending == Ending::Closed || !self.bytes.ends_with(sentinel)) {
            if !self.read() {
                self.end.get_or_insert(End::Silent);
            }
        }
        if let Some(last) = cas_numbers(&self.bytes).last() {
            self.last_cas = *last;
        }
    }

    /// Reads what is there, or waits for more; whether something came.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.end = Some(End::Reset),
        }
        false
    }
}
