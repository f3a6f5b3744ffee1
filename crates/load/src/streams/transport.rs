//! Output of one connection: directly to the engine, or through its TLS session.

use corelane_worker::engine::{Id, Ops, Output, Plain};
use corelane_worker::tls::{Encrypted, Side};

/// Output of one connection, plain or encrypted.
pub trait Transport: Output {
    /// The connection in its engine; `None` if encrypted or without an engine.
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
