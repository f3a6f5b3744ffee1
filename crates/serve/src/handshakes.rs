//! TLS handshakes of one bucket: written by its worker, readable by any thread.

use corelane_worker::Counter;
use corelane_worker::tls::HandshakeKind;

/// Completed handshakes.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// With a certificate.
    pub(crate) full: Counter,
    /// Of resumed sessions.
    pub(crate) resumed: Counter,
}

impl Handshakes {
    pub(crate) fn count(&self, kind: HandshakeKind) {
        match kind {
            HandshakeKind::Resumed => self.resumed.add(1),
            _ => self.full.add(1),
        }
    }
}
