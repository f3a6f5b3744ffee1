//! One TLS session, of a client or a server, without a socket. Input: the peer's bytes in any split. Output: replies
//! and plaintext, in buffers shared by all sessions of a worker. An idle session holds no buffer.

use crate::engine::{Id, Ops};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{Error, HandshakeKind};
use std::fmt;
use std::io;
use std::ops::DerefMut;

/// The maximum overhead of a record: its header of 5 bytes, the nonce of TLS 1.2 (8), the type of TLS 1.3 (1) and the
/// tag (16); RFC 8446 5.2, RFC 5288 3.
const OVERHEAD: usize = 30;

/// The maximum plaintext of a record (RFC 8446 5.1).
pub const RECORD: usize = 16_384;

/// Bytes of an alert, encrypted.
const ALERT: usize = 2 + OVERHEAD;

/// The role of a session: client or server.
pub trait Side: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> {
    /// The rustls state of this role.
    type Data;

    /// The per-role functions of rustls connections.
    fn process_tls_records<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process_tls_records<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        (**self).process_tls_records(incoming)
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process_tls_records<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        (**self).process_tls_records(incoming)
    }
}

/// What sessions begin with: the settings of a server, or of a pool of clients.
pub trait Settings {
    /// The role of its sessions.
    type Side: Side;

    /// The state of a session before its handshake.
    ///
    /// # Errors
    /// If the settings exclude each other.
    fn connection(&self) -> Result<Self::Side, Error>;
}

/// One session.
pub struct Session<S> {
    connection: S,
    /// Received, not yet processed: less than a record or handshake message.
    tail: Vec<u8>,
    handshaking: bool,
    ended: bool,
    failed: bool,
}

/// Buffers shared by the sessions of a worker.
#[derive(Debug, Default)]
pub struct Buffers {
    incoming: Vec<u8>,
    /// Bytes to send.
    pub outgoing: Vec<u8>,
    /// Received plaintext.
    pub plain: Vec<u8>,
    /// Bytes sent over all sessions, encrypted, including handshakes.
    pub sent: u64,
    /// Bytes received over all sessions, encrypted, including handshakes.
    pub received: u64,
}

impl Buffers {
    /// Queues what the sessions want to send on a connection.
    ///
    /// # Errors
    /// If the connection has no room for it.
    pub(super) fn flush(&mut self, ops: &mut Ops, id: Id) -> io::Result<()> {
        let written = ops.write(id, &self.outgoing);
        self.sent += self.outgoing.len() as u64;
        self.outgoing.clear();
        Ok(written?)
    }
}

/// The events of the last bytes, besides the buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct News {
    /// The handshake is complete, and its kind.
    pub opened: Option<HandshakeKind>,
    /// The peer has ended its side (`close_notify`, authenticated).
    pub ended: bool,
}

impl<S: Side> Session<S> {
    /// A session before its handshake.
    pub fn new(connection: S) -> Self {
        Self {
            connection,
            tail: Vec::new(),
            handshaking: true,
            ended: false,
            failed: false,
        }
    }

    /// Processes bytes from the peer; for a client initially none. The buffers hold the result, also after a failure:
    /// plaintext before the failure, and an alert for the peer.
    ///
    /// # Errors
    /// The error in the bytes; the bytes after it are ignored.
    pub fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<News, Error> {
        // rustls must not continue: it would send its alert again and treat that as its own mistake.
        if self.failed {
            return Ok(News::default());
        }
        buffers.incoming.clear();
        buffers.incoming.append(&mut self.tail);
        buffers.incoming.extend_from_slice(bytes);
        buffers.received += bytes.len() as u64;
        let before = self.ended;
        let mut used = 0;
        if let Err(error) = self.drive(&mut used, buffers) {
            self.failed = true;
            self.put_alert(used, buffers);
            return Err(error);
        }
        // Bytes after the peer's close_notify are ignored (RFC 8446 6.1).
        self.tail = if self.ended {
            Vec::new()
        } else {
            buffers.incoming[used..].to_vec()
        };
        let complete = self.handshaking && !self.connection.is_handshaking();
        self.handshaking &= !complete;
        Ok(News {
            opened: self.connection.handshake_kind().filter(|_| complete),
            ended: self.ended && !before,
        })
    }

    /// Advances the state machine as far as possible; `used` returns the number of incoming bytes used.
    fn drive(&mut self, used: &mut usize, buffers: &mut Buffers) -> Result<(), Error> {
        let Buffers {
            incoming,
            outgoing,
            plain,
            ..
        } = buffers;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut incoming[*used..]);
            let mut more = true;
            let mut failed = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                plain.extend_from_slice(record.payload);
                            }
                            Err(error) => failed = Some(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.ended = true,
                Ok(_) => more = false,
                Err(error) => failed = Some(error),
            }
            *used += discard;
            match failed {
                Some(error) => return Err(error),
                None if more => {}
                None => return Ok(()),
            }
        }
    }

    /// Copies a failed session's remaining output to the buffers.
    fn put_alert(&mut self, mut used: usize, buffers: &mut Buffers) {
        while self.connection.wants_write() {
            let status = self.connection.process_tls_records(&mut buffers.incoming[used..]);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else {
                return;
            };
            encode(&mut data, &mut buffers.outgoing);
            used += status.discard;
        }
    }

    /// Whether the handshake is not complete.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.handshaking
    }

    /// Whether the peer has ended its side, so that its data is known to be complete.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Version and cipher suite, once they are agreed on.
    #[must_use]
    pub fn suite(&self) -> Option<String> {
        let (version, suite) = (
            self.connection.protocol_version()?,
            self.connection.negotiated_cipher_suite()?.suite(),
        );
        Some(format!("{version:?} {suite:?}"))
    }

    /// Encrypts bytes, at most a few records, and appends them to `outgoing`.
    ///
    /// # Errors
    /// Before the handshake is complete, and if the cryptography fails.
    pub fn encrypt(&mut self, bytes: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Error> {
        let room = bytes.len() + (bytes.len() / RECORD + 1) * OVERHEAD;
        self.write(outgoing, room, |traffic, room| traffic.encrypt(bytes, room))
    }

    /// Queues close_notify.
    ///
    /// # Errors
    /// Same as [`encrypt`](Self::encrypt).
    pub fn end(&mut self, outgoing: &mut Vec<u8>) -> Result<(), Error> {
        if self.handshaking {
            return Err(Error::HandshakeNotComplete);
        }
        self.write(outgoing, ALERT, |traffic, room| traffic.queue_close_notify(room))
    }

    fn write(
        &mut self,
        outgoing: &mut Vec<u8>,
        room: usize,
        mut put: impl FnMut(&mut WriteTraffic<'_, S::Data>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Error> {
        loop {
            let status = self.connection.process_tls_records(&mut self.tail);
            let discard = status.discard;
            let written = match status.state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let start = outgoing.len();
                    outgoing.resize(start + room, 0);
                    let mut written = put(&mut traffic, &mut outgoing[start..]);
                    if let Err(EncryptError::InsufficientSize(short)) = &written {
                        // A pending message of the session precedes it.
                        outgoing.resize(start + short.required_size, 0);
                        written = put(&mut traffic, &mut outgoing[start..]);
                    }
                    outgoing.truncate(start + written.as_ref().copied().unwrap_or(0));
                    Some(written)
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut data, outgoing);
                    None
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    None
                }
                _ => return Err(Error::HandshakeNotComplete),
            };
            self.tail.drain(..discard);
            if let Some(written) = written {
                return written.map(drop).map_err(|_| Error::EncryptError);
            }
        }
    }
}

/// Appends a record of the session itself to `outgoing`.
fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) {
    let start = outgoing.len();
    let mut length = data.encode(&mut []);
    if let Err(EncodeError::InsufficientSize(short)) = length {
        outgoing.resize(start + short.required_size, 0);
        length = data.encode(&mut outgoing[start..]);
    }
    outgoing.truncate(start + length.unwrap_or(0));
}

impl<S> fmt::Debug for Session<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Session")
            .field("tail", &self.tail.len())
            .field("handshaking", &self.handshaking)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
