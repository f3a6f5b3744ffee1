//! A thread that collects until it is stopped.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ObserveError;

/// A collecting thread. If dropped, it stops shortly afterwards and its data is lost.
pub(crate) struct Collector<T> {
    stop: Sender<()>,
    thread: JoinHandle<Result<T, ObserveError>>,
}

/// The signal that the thread waits for.
pub(crate) struct Stop(Receiver<()>);

impl Stop {
    /// Waits for `interval`; returns whether the thread is to stop.
    pub(crate) fn within(&self, interval: Duration) -> bool {
        self.0.recv_timeout(interval) != Err(RecvTimeoutError::Timeout)
    }
}

impl<T: Send + 'static> Collector<T> {
    pub(crate) fn start(
        name: &str,
        collect: impl FnOnce(&Stop) -> Result<T, ObserveError> + Send + 'static,
    ) -> Result<Self, ObserveError> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || collect(&Stop(stopped)))
            .map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread and returns its data.
    pub(crate) fn finish(self) -> Result<T, ObserveError> {
        drop(self.stop);
        let panicked = |_| Err(failed(io::Error::other("it panicked")));
        self.thread.join().unwrap_or_else(panicked)
    }
}

pub(super) fn failed(cause: io::Error) -> ObserveError {
    ObserveError::Refused(format!("the collecting thread failed: {cause}"))
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
