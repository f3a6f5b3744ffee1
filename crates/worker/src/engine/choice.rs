//! Which engine runs: what was asked for, or what this kernel and its policy allow, with the reason.

use super::uring;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The engines over the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Readiness by epoll (by ppoll while sockets are few), datagrams by `recvmmsg` and `sendmmsg`. Linux 5.11.
    Epoll,
    /// Completions by io_uring, multishot receives into a ring of provided buffers. Linux 6.0.
    IoUring,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            EngineKind::Epoll => "epoll",
            EngineKind::IoUring => "io_uring",
        })
    }
}

/// A name that is no engine's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown engine {0:?}: use epoll or io_uring")]
pub struct UnknownEngine(String);

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        match text {
            "epoll" => Ok(EngineKind::Epoll),
            "io_uring" => Ok(EngineKind::IoUring),
            other => Err(UnknownEngine(other.to_owned())),
        }
    }
}

/// The engine that will run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its kind.
    pub kind: EngineKind,
    /// Why it is another one than was asked for.
    pub reason: Option<String>,
}

/// Chooses the engine: the requested one; epoll when none is requested, as it works wherever Linux does and io_uring is
/// not always faster; epoll with the reason where io_uring is requested and the kernel, a sysctl or a container's policy
/// denies it.
#[must_use]
pub fn choose(requested: Option<EngineKind>) -> Chosen {
    let reason = match requested {
        Some(EngineKind::IoUring) => uring::probe().err(),
        _ => None,
    };
    let kind = match requested {
        Some(EngineKind::IoUring) if reason.is_none() => EngineKind::IoUring,
        _ => EngineKind::Epoll,
    };
    Chosen { kind, reason }
}

/// Connections of a worker up to which io_uring is worth taking unasked: of a receive that waits in its ring the kernel keeps
/// 840 B, which is a fifth of what a connection takes there anyhow.
pub const MOST_ON_THE_RING: usize = 4_096;

/// As [`choose`], for who has short messages on many connections to send at once, as a server of requests has, or a client
/// that lets answers gather ([`Ops::gather`](super::Ops::gather)): io_uring when none is requested and it takes sends and
/// waits together, which measured better there (journals, 2026-11-22-http-speed and 2026-11-22-ring).
#[must_use]
pub fn choose_batching(requested: Option<EngineKind>) -> Chosen {
    let batches = || uring::probe().is_ok_and(|abilities| abilities.batches);
    if requested.is_none() && batches() {
        return Chosen {
            kind: EngineKind::IoUring,
            reason: None,
        };
    }
    choose(requested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in [EngineKind::Epoll, EngineKind::IoUring] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "kqueue".parse::<EngineKind>().unwrap_err().to_string();
        assert_eq!(unknown, "unknown engine \"kqueue\": use epoll or io_uring");
    }

    #[test]
    fn epoll_is_chosen_unless_something_else_is_asked_for() {
        let chosen = choose(None);
        assert_eq!(chosen, choose(Some(EngineKind::Epoll)));
        assert_eq!((chosen.kind, chosen.reason), (EngineKind::Epoll, None));
    }

    #[test]
    fn a_requested_engine_is_used_for_batching_too() {
        assert_eq!(
            choose_batching(Some(EngineKind::Epoll)),
            choose(Some(EngineKind::Epoll))
        );
        assert_eq!(choose_batching(None).reason, None);
    }

    #[test]
    fn falling_back_always_has_a_reason() {
        let chosen = choose(Some(EngineKind::IoUring));
        assert_eq!(chosen.kind == EngineKind::Epoll, chosen.reason.is_some());
    }
}
