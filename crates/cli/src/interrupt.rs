//! SIGINT and SIGTERM end a run early; it still reports. Other signals ask it to do something meanwhile.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked to end.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first SIGINT or SIGTERM is noted here; a second one ends the process at once.
    pub fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        // One that comes between the two registrations waits until both are there: neither alone is of use.
        let unblocked = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked))?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        unblocked.thread_set_mask()?;
        Ok(Self(asked))
    }

    /// Whether it was asked for.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Whether the user asked for something by a signal.
#[derive(Debug)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    /// From now on this signal is noted here.
    pub fn catch(signal: i32) -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
        Ok(Self(asked))
    }

    /// Whether it was asked since the last time.
    pub fn taken(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
