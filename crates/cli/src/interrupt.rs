//! SIGINT and SIGTERM end a run early; the report is still written. Other signals trigger actions during the run.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by SIGINT or SIGTERM.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs handlers: the first SIGINT or SIGTERM sets the flag, a second one terminates the process.
    pub fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        // A signal between the two registrations stays blocked until both are installed; neither is useful alone.
        let unblocked = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked))?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        unblocked.thread_set_mask()?;
        Ok(Self(asked))
    }

    /// Whether a signal was received.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Set by a signal that requests an action.
#[derive(Debug)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Installs a handler that sets the flag.
    pub fn catch(signal: i32) -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
        Ok(Self(asked))
    }

    /// Whether the signal was received since the last call; clears the flag.
    pub fn taken(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
