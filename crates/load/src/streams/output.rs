//! Output of one connection: to the engine, or in a test to nowhere.

use corelane_worker::engine::{Id, Ops, Output};
use corelane_worker::tls::{Channel, Side};

/// Output of one connection.
pub trait ConnectionOutput: Output {
    /// The connection in its engine; `None` without an engine.
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        None
    }
}

impl<S: Side> ConnectionOutput for Channel<'_, S> {
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        Some(Channel::engine(self))
    }
}
