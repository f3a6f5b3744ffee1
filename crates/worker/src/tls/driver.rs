//! Drives the sessions of a worker's encrypted connections. Input: the bytes that the engine receives, and plaintext to
//! write. Output: plaintext events, and records queued on the engine.

use super::channel::Channel;
use super::session::{Buffers, Session, Settings};
use crate::engine::{Id, Ops};
use rustls::{Error, HandshakeKind};
use std::io;
use thiserror::Error as ThisError;

/// Settings of sessions, and the buffers that they share. Each connection keeps its own session.
#[derive(Debug)]
pub struct Driver<C> {
    settings: C,
    buffers: Buffers,
}

/// What arrived on an encrypted connection.
#[derive(Debug)]
pub enum Plaintext<'a> {
    /// The handshake is complete.
    Opened(HandshakeKind),
    /// Decrypted bytes.
    Bytes(&'a [u8]),
    /// The peer has ended its side (`close_notify`, authenticated).
    Ended,
    /// The session has failed. An alert is sent to the peer, and further bytes are ignored.
    Failed(&'a SessionError),
}

/// Why a session failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer's bytes are wrong, or it is not to be trusted.
    #[error(transparent)]
    Tls(#[from] Error),
    /// The connection has no room for the session's messages.
    #[error(transparent)]
    Full(#[from] io::Error),
}

/// The result of received bytes. It owns the plaintext, so that the connection can be written to meanwhile; see
/// [`Driver::recycle`].
#[derive(Debug, Default)]
pub struct Received {
    opened: Option<HandshakeKind>,
    plain: Vec<u8>,
    ended: bool,
    failed: Option<SessionError>,
}

impl Received {
    /// What happened, in order: plaintext before an end or a failure is whole.
    pub fn events(&self) -> impl Iterator<Item = Plaintext<'_>> {
        let bytes = (!self.plain.is_empty()).then_some(Plaintext::Bytes(&self.plain));
        let ended = self.ended.then_some(Plaintext::Ended);
        let end = self.failed.as_ref().map(Plaintext::Failed).or(ended);
        let opened = self.opened.map(Plaintext::Opened);
        [opened, bytes, end].into_iter().flatten()
    }

    /// Leaves out plaintext before a failure.
    pub(super) fn without_rest(mut self) -> Self {
        if self.failed.is_some() {
            self.plain.clear();
        }
        self
    }
}

impl<C: Settings> Driver<C> {
    /// A driver without sessions.
    pub fn new(settings: C) -> Self {
        Self {
            settings,
            buffers: Buffers::default(),
        }
    }

    /// Begins the session of a connection that the engine has opened. A client's first message is queued.
    ///
    /// # Errors
    /// If no session can begin.
    pub fn open(&mut self, ops: &mut Ops, id: Id) -> Result<Session<C::Side>, SessionError> {
        let mut session = Session::new(self.settings.connection()?);
        session.receive(&[], &mut self.buffers)?;
        self.buffers.flush(ops, id)?;
        Ok(session)
    }

    /// Passes received bytes to the session of their connection, and queues the session's replies.
    pub fn receive(
        &mut self,
        ops: &mut Ops,
        id: Id,
        session: &mut Session<C::Side>,
        bytes: &[u8],
    ) -> Received {
        let news = session.receive(bytes, &mut self.buffers);
        let flushed = self.buffers.flush(ops, id);
        let (news, failed) = match news {
            Ok(news) => (news, flushed.err().map(SessionError::Full)),
            Err(error) => (Default::default(), Some(error.into())),
        };
        Received {
            opened: news.opened,
            plain: std::mem::take(&mut self.buffers.plain),
            ended: news.ended,
            failed,
        }
    }

    /// Takes back the memory of handled plaintext.
    pub fn recycle(&mut self, received: Received) {
        self.buffers.plain = received.plain;
        self.buffers.plain.clear();
    }

    /// The output of a connection.
    pub fn output<'a>(
        &'a mut self,
        ops: &'a mut Ops,
        id: Id,
        session: &'a mut Session<C::Side>,
    ) -> Channel<'a, C::Side> {
        Channel::encrypted(ops, id, session, &mut self.buffers)
    }

    /// Encrypted bytes sent and received, including handshakes.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        [self.buffers.sent, self.buffers.received]
    }
}
