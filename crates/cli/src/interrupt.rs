//! SIGINT, SIGTERM and SIGHUP end a run early; the report is still written. Other signals trigger actions during the run.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

/// Set by SIGINT, SIGTERM or SIGHUP.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs handlers: the first of these signals sets the flag, a second one terminates the process. SIGHUP, of a
    /// terminal that has gone, is left alone where it is ignored (nohup) or an [`Asked`] has caught it before.
    pub fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let hangup = Some(Signal::SIGHUP).filter(|hangup| has_default(*hangup));
        let signals: Vec<_> = [Signal::SIGINT, Signal::SIGTERM]
            .into_iter()
            .chain(hangup)
            .collect();
        // A signal between the two registrations stays blocked until both are installed; neither is useful alone.
        let unblocked = SigSet::from_iter(signals.iter().copied()).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        for signal in signals {
            signal_hook::flag::register_conditional_default(signal as i32, Arc::clone(&asked))?;
            signal_hook::flag::register(signal as i32, Arc::clone(&asked))?;
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

/// Whether a signal is neither ignored nor caught (proc(5): SigIgn, SigCgt). Without /proc it is taken to be so.
fn has_default(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_in = |mask: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(mask));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & 1 << (signal as u32 - 1) != 0)
    };
    !is_in("SigIgn:") && !is_in("SigCgt:")
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
