//! Where the bytes of one connection go: to the engine as they are, or through its TLS session.

use corelane_worker::engine::{Id, Ops, Output, Plain};
use corelane_worker::tls::{Encrypted, Side};

/// Where the bytes of one connection go, plain or encrypted.
pub trait Transport: Output {
    /// The connection in its engine; `None` where there is none.
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        None
    }
}

impl<S: Side> Transport for Encrypted<'_, S> {}

impl Transport for Plain<'_> {
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        Some((self.ops, self.id))
    }
}
