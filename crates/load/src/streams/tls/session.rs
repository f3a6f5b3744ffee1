//! One TLS session, without a socket: bytes of the server in any split go in; what it says to them, and what they say in
//! plain, come out in buffers that all sessions of a worker use in turn. A session that rests holds no buffer of its own.

use corelane_worker::Time;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, Error, HandshakeKind};
use std::sync::Arc;

/// What a record may add to the bytes in it: its header of 5 bytes, the nonce of TLS 1.2 (8), the type of TLS 1.3 (1) and
/// the tag (16); RFC 8446 5.2, RFC 5288 3.
const OVERHEAD: usize = 30;

/// Plain bytes of a record at most (RFC 8446 5.1).
pub(in crate::streams) const RECORD: usize = 16_384;

/// Bytes of an alert, encrypted.
const ALERT: usize = 2 + OVERHEAD;

/// One session.
pub(in crate::streams) struct Session {
    connection: UnbufferedClientConnection,
    began: Time,
    /// Received and not used yet: less than a record, or than a message of the handshake.
    tail: Vec<u8>,
    shaking_hands: bool,
    ended: bool,
}

/// What the sessions of a worker use in turn.
#[derive(Debug, Default)]
pub(in crate::streams) struct Buffers {
    incoming: Vec<u8>,
    /// What is to be sent.
    pub(in crate::streams) outgoing: Vec<u8>,
    /// What was received, in plain.
    pub(in crate::streams) plain: Vec<u8>,
}

/// What the last bytes brought, beside those in the buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::streams) struct News {
    /// The handshake is complete, and whether it resumed an earlier session.
    pub(in crate::streams) opened: Option<Handshake>,
    /// The server has ended its side (`close_notify`), as nobody else could.
    pub(in crate::streams) ended: bool,
}

/// How a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::streams) enum Handshake {
    /// With a certificate.
    Full,
    /// With what an earlier session left.
    Resumed,
}

impl Session {
    /// A session before its handshake.
    pub(in crate::streams) fn new(
        configuration: &Arc<ClientConfig>,
        server_name: &ServerName<'static>,
        now: Time,
    ) -> Result<Self, Error> {
        Ok(Self {
            connection: UnbufferedClientConnection::new(Arc::clone(configuration), server_name.clone())?,
            began: now,
            tail: Vec::new(),
            shaking_hands: true,
            ended: false,
        })
    }

    /// Takes in what the server sent, at first nothing. The buffers hold what it came to, also when it failed: plain bytes
    /// before the failure, and an alert for the server.
    pub(in crate::streams) fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<News, Error> {
        buffers.incoming.clear();
        buffers.incoming.append(&mut self.tail);
        buffers.incoming.extend_from_slice(bytes);
        let before = self.ended;
        let (used, received) = self.drive(buffers);
        if received.is_err() {
            self.tell_alert(used, buffers);
        }
        received?;
        // What follows the server's end is not for us (RFC 8446 6.1).
        self.tail = if self.ended {
            Vec::new()
        } else {
            buffers.incoming[used..].to_vec()
        };
        let complete = self.shaking_hands && !self.connection.is_handshaking();
        self.shaking_hands &= !complete;
        Ok(News {
            opened: complete.then(|| match self.connection.handshake_kind() {
                Some(HandshakeKind::Resumed) => Handshake::Resumed,
                _ => Handshake::Full,
            }),
            ended: self.ended && !before,
        })
    }

    /// Has the state machine go on as far as it can; how many of the incoming bytes were used.
    fn drive(&mut self, buffers: &mut Buffers) -> (usize, Result<(), Error>) {
        let Buffers {
            incoming,
            outgoing,
            plain,
        } = buffers;
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut incoming[used..]);
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
            used += discard;
            match failed {
                Some(error) => return (used, Err(error)),
                None if more => {}
                None => return (used, Ok(())),
            }
        }
    }

    /// What a failed session still has to say.
    fn tell_alert(&mut self, used: usize, buffers: &mut Buffers) {
        let mut used = used;
        while self.connection.wants_write() {
            let status = self.connection.process_tls_records(&mut buffers.incoming[used..]);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else {
                return;
            };
            encode(&mut data, &mut buffers.outgoing);
            used += status.discard;
        }
    }

    /// When its handshake began.
    pub(in crate::streams) fn began(&self) -> Time {
        self.began
    }

    /// Whether the server has ended its side, so that what it sent is known to be whole.
    pub(in crate::streams) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Version and cipher suite, once they are agreed on.
    pub(in crate::streams) fn suite(&self) -> Option<String> {
        let (version, suite) = (
            self.connection.protocol_version()?,
            self.connection.negotiated_cipher_suite()?.suite(),
        );
        Some(format!("{version:?} {suite:?}"))
    }

    /// Encrypts bytes, at most a few records of them, behind what `outgoing` holds.
    pub(in crate::streams) fn encrypt(&mut self, bytes: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Error> {
        let room = bytes.len() + (bytes.len() / RECORD + 1) * OVERHEAD;
        self.write(outgoing, room, |traffic, room| traffic.encrypt(bytes, room))
    }

    /// Says that nothing more follows from this side.
    pub(in crate::streams) fn end(&mut self, outgoing: &mut Vec<u8>) -> Result<(), Error> {
        if self.shaking_hands {
            return Err(Error::HandshakeNotComplete);
        }
        self.write(outgoing, ALERT, |traffic, room| traffic.queue_close_notify(room))
    }

    fn write(
        &mut self,
        outgoing: &mut Vec<u8>,
        room: usize,
        mut put: impl FnMut(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::client::ClientConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
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
                        // A message of the session's own goes before it.
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

/// Puts a record of the session's own behind what `outgoing` holds.
fn encode<Data>(data: &mut rustls::unbuffered::EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) {
    let start = outgoing.len();
    let mut length = data.encode(&mut []);
    if let Err(EncodeError::InsufficientSize(short)) = length {
        outgoing.resize(start + short.required_size, 0);
        length = data.encode(&mut outgoing[start..]);
    }
    outgoing.truncate(start + length.unwrap_or(0));
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("tail", &self.tail.len())
            .field("shaking_hands", &self.shaking_hands)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
