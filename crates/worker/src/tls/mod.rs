//! TLS of connections: certificates of a server, trust of a client, sessions, and what drives them.
//!
//! A [`Driver`] turns the bytes that an engine receives on a connection into [`Plaintext`] events, and the plaintext
//! that its owner writes to a [`Channel`] into records. [`Connections`] is a table of connections, encrypted or not.
//! [`ServerSettings`] have the certificate of a server, [`ClientSettings`] whom a client trusts.

mod channel;
mod client;
mod connections;
mod driver;
mod pem;
mod server;
mod session;

pub use channel::Channel;
pub use client::{ClientSettings, SystemAuthorities, Trust, TrustError, server_name};
pub use connections::Connections;
pub use driver::{Driver, Plaintext, Received, SessionError};
pub use pem::{CertificateError, CertificateFiles};
pub use rustls::HandshakeKind;
pub use server::{Certificate, ServerSettings};
pub use session::{Buffers, News, RECORD, Session, Settings, Side};

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

/// A client's session.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// The output of a server's connection.
pub type ServerChannel<'a> = Channel<'a, UnbufferedServerConnection>;

/// Maximum bytes to queue on an encrypted connection before its writer waits for the peer: encrypted bytes are copies
/// owned by the connection.
pub const WINDOW: u64 = 256 << 10;
