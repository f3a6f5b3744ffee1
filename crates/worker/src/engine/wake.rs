//! Wakes a worker that waits in its engine, from any thread.

use crate::system::signal;
use nix::sys::signal::SigSet;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Wakes one engine: its turn returns with [`Event::Woken`](super::Event::Woken). Several wakes before that cause one
/// event.
///
/// It holds a thread id, not a descriptor, so it works from threads that have their own descriptor table. After the
/// engine has ended it does nothing. It uses SIGURG: an empty handler is installed in the process, and the thread of an
/// engine blocks the signal except while it waits.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    woken: AtomicBool,
    /// The id of the waiting thread; 0 if none waits.
    waits: AtomicI32,
}

impl Waker {
    /// Makes the engine's current or next turn return soon.
    pub fn wake(&self) {
        // Sequentially consistent, like `Wakeable::wait`: either this store is seen before the wait, or the wait is
        // seen here.
        if self.shared.woken.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.shared.waits.load(Ordering::SeqCst) {
            0 => {}
            thread => signal::interrupt(thread),
        }
    }

    /// Whether a wake is pending.
    #[cfg(feature = "simulated")]
    pub(crate) fn is_woken(&self) -> bool {
        self.shared.woken.load(Ordering::SeqCst)
    }
}

/// The engine's side of its wakers.
#[derive(Debug)]
pub(crate) struct Wakeable {
    shared: Arc<Shared>,
    thread: i32,
    while_waiting: SigSet,
    /// The signal is blocked in the thread that prepared this, so it must wait there.
    not_send: PhantomData<*const ()>,
}

impl Wakeable {
    /// Prepares the calling thread to be woken.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            shared: Arc::default(),
            thread: signal::this_thread(),
            while_waiting: signal::prepare()?,
            not_send: PhantomData,
        })
    }

    /// One that never waits in the kernel: only [`Wakeable::take`] detects a wake.
    #[cfg(feature = "simulated")]
    pub(crate) fn without_thread() -> Self {
        Self {
            shared: Arc::default(),
            thread: 0,
            while_waiting: SigSet::empty(),
            not_send: PhantomData,
        }
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether there was a wake since the last call.
    pub(crate) fn take(&self) -> bool {
        self.shared.woken.load(Ordering::Relaxed) && self.shared.woken.swap(false, Ordering::SeqCst)
    }

    /// Runs `wait`, which must wait with the given signal mask so that a wake ends it. Skips it if a wake is pending.
    pub(crate) fn wait(&self, wait: impl FnOnce(&SigSet) -> io::Result<()>) -> io::Result<()> {
        self.shared.waits.store(self.thread, Ordering::SeqCst);
        let result = if self.shared.woken.load(Ordering::SeqCst) {
            Ok(())
        } else {
            // A signal sent from here on is blocked and stays pending until the wait itself changes the mask.
            wait(&self.while_waiting)
        };
        self.shared.waits.store(0, Ordering::SeqCst);
        result
    }
}
