//! The connections of one worker, all of them encrypted or none: what their owner keeps of each, and its session.

use super::channel::Channel;
use super::driver::{Driver, Received, SessionError};
use super::session::{Session, Settings, Side};
use crate::engine::{Id, Ops, Slots};

/// A table of connections.
#[derive(Debug)]
pub struct Connections<T, C: Settings> {
    slots: Slots<Slot<T, C::Side>>,
    driver: Option<Driver<C>>,
}

#[derive(Debug)]
struct Slot<T, S> {
    own: T,
    session: Option<Box<Session<S>>>,
}

impl<T, C: Settings> Connections<T, C> {
    /// An empty table; of plaintext connections without settings.
    pub fn new(settings: Option<C>) -> Self {
        Self {
            slots: Slots::default(),
            driver: settings.map(Driver::new),
        }
    }

    /// Whether its connections are encrypted.
    #[must_use]
    pub fn are_encrypted(&self) -> bool {
        self.driver.is_some()
    }

    /// Inserts a connection that the engine has opened, and begins its session.
    ///
    /// # Errors
    /// If no session can begin: the connection is then reset.
    pub fn open(&mut self, ops: &mut Ops, id: Id, own: T) -> Result<(), SessionError> {
        let mut driver = self.driver.as_mut();
        let session = driver.as_mut().map(|driver| driver.open(ops, id));
        let (session, outcome) = match session.transpose() {
            Ok(session) => (session.map(Box::new), Ok(())),
            Err(error) => {
                ops.abort(id);
                (None, Err(error))
            }
        };
        self.slots.insert(id, Slot { own, session });
        outcome
    }

    /// A connection, and its output; `None` for the listener.
    pub fn at<'a>(&'a mut self, ops: &'a mut Ops, id: Id) -> Option<(&'a mut T, Channel<'a, C::Side>)> {
        let slot = self.slots.get_mut(id)?;
        Some(slot.parts(self.driver.as_mut(), ops, id))
    }

    /// What is kept of a connection.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slots.get_mut(id).map(|slot| &mut slot.own)
    }

    /// Decrypts received bytes; `None` if the connection has no session. Plaintext before a failure is left out, because
    /// no answer to it can follow the alert.
    pub fn receive(&mut self, ops: &mut Ops, id: Id, bytes: &[u8]) -> Option<Received> {
        let session = self.slots.get_mut(id)?.session.as_deref_mut()?;
        let received = self.driver.as_mut()?.receive(ops, id, session, bytes);
        Some(received.without_rest())
    }

    /// Takes back the memory of handled plaintext.
    pub fn recycle(&mut self, received: Received) {
        if let Some(driver) = &mut self.driver {
            driver.recycle(received);
        }
    }

    /// Removes a connection that the engine has closed.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        self.slots.remove(id).map(|slot| slot.own)
    }

    /// All connections.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.slots.iter().map(|(id, slot)| (id, &slot.own))
    }

    /// Passes every connection and its output to `visit`.
    pub fn for_each(&mut self, ops: &mut Ops, mut visit: impl FnMut(&mut T, Channel<'_, C::Side>)) {
        for (id, slot) in self.slots.iter_mut() {
            let (own, channel) = slot.parts(self.driver.as_mut(), ops, id);
            visit(own, channel);
        }
    }
}

impl<T, S: Side> Slot<T, S> {
    fn parts<'a, C: Settings<Side = S>>(
        &'a mut self,
        driver: Option<&'a mut Driver<C>>,
        ops: &'a mut Ops,
        id: Id,
    ) -> (&'a mut T, Channel<'a, S>) {
        let channel = match (driver, self.session.as_deref_mut()) {
            (Some(driver), Some(session)) => driver.output(ops, id, session),
            _ => Channel::plain(ops, id),
        };
        (&mut self.own, channel)
    }
}
