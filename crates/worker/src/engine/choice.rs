//! Selects the engine: the requested one, or the one that this kernel and its policy allow, with the reason.

use super::settings::EngineSettings;
use super::uring;
use corelane_host::limits;
use corelane_measure::words;
use serde::{Deserialize, Serialize};

/// The engines over the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Readiness by epoll (by ppoll for few sockets), datagrams by `recvmmsg` and `sendmmsg`. Linux 5.11.
    Epoll,
    /// Completions by io_uring, multishot receives into a ring of provided buffers. Linux 6.0.
    IoUring,
}

words!(EngineKind);

/// The selected engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its kind.
    pub kind: EngineKind,
    /// Why it is not the requested one, or the faster one.
    pub reason: Option<String>,
}

/// The requested engine cannot be used: the reason.
#[derive(Debug, thiserror::Error)]
#[error("io_uring was requested and cannot be used: {0}")]
pub struct NoEngine(pub String);

/// Selects the requested engine. Without a request it selects epoll, which works on every Linux system; io_uring is not
/// always faster. If io_uring is requested and the kernel, a sysctl or a container's policy denies it, it selects epoll
/// and returns the reason.
#[must_use]
pub fn choose(requested: Option<EngineKind>) -> Chosen {
    match requested {
        Some(EngineKind::IoUring) => Chosen::unless(uring::probe().err()),
        _ => Chosen {
            kind: EngineKind::Epoll,
            reason: None,
        },
    }
}

impl Chosen {
    /// The engine of that many workers with these settings: epoll if their rings need more locked memory than this
    /// process may lock. Since Linux 6.14 the rings of all processes of a user count together.
    ///
    /// # Errors
    /// If it is not the engine that was requested.
    pub fn for_workers(
        self,
        requested: Option<EngineKind>,
        workers: usize,
        settings: &EngineSettings,
    ) -> Result<Self, NoEngine> {
        let limit = limits::locked_memory().filter(|_| limits::rings_are_counted());
        let needed = workers as u64 * uring::locked_bytes(settings);
        let limit = limit.filter(|_| self.kind == EngineKind::IoUring);
        let chosen = match limit.and_then(|limit| too_much(needed, limit)) {
            None => self,
            reason => Self::unless(reason),
        };
        match (requested, &chosen.reason) {
            (Some(EngineKind::IoUring), Some(reason)) => Err(NoEngine(reason.clone())),
            _ => Ok(chosen),
        }
    }

    /// io_uring, unless there is a reason for epoll.
    fn unless(reason: Option<String>) -> Self {
        let kind = match reason {
            None => EngineKind::IoUring,
            Some(_) => EngineKind::Epoll,
        };
        Self { kind, reason }
    }
}

/// The number of connections per worker up to which io_uring should be selected without a request. For each waiting
/// receive the kernel keeps 840 B, a fifth of the memory that it uses for a connection in any case.
pub const MOST_ON_THE_RING: usize = 4_096;

/// Like [`choose`], for programs that send short messages on many connections at once: request servers, and clients
/// that let responses gather ([`Ops::gather`](super::Ops::gather)). Without a request it selects io_uring if the kernel
/// can combine sends and waits in one call, which was measured to be faster for them (journals, 2026-11-22-http-speed
/// and 2026-11-22-ring); otherwise epoll, and returns the reason.
#[must_use]
pub fn choose_batching(requested: Option<EngineKind>) -> Chosen {
    if requested.is_some() {
        return choose(requested);
    }
    Chosen::unless(match uring::probe() {
        Ok(true) => None,
        Ok(false) => Some("this kernel's io_uring cannot combine sends and waits in one call".to_owned()),
        Err(reason) => Some(reason),
    })
}

/// Why so many bytes cannot be locked.
fn too_much(needed: u64, limit: u64) -> Option<String> {
    (needed > limit).then(|| {
        let (needed, limit) = (needed >> 10, limit >> 10);
        format!("io_uring needs {needed} KiB of locked memory, and the limit is {limit} KiB (ulimit -l)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_that_need_more_memory_than_may_be_locked_are_refused_by_name() {
        let ring = uring::locked_bytes(&EngineSettings::default());
        let limit = 8 << 20;
        assert_eq!(too_much(89 * ring, limit), None);
        assert_eq!(
            too_much(90 * ring, limit).unwrap(),
            "io_uring needs 8280 KiB of locked memory, and the limit is 8192 KiB (ulimit -l)"
        );
        let epoll = choose(None);
        let many = epoll
            .clone()
            .for_workers(None, 1 << 30, &EngineSettings::default());
        assert_eq!(many.unwrap(), epoll);
    }

    #[test]
    fn an_engine_that_was_requested_and_cannot_be_used_is_an_error() {
        let fallback = Chosen::unless(Some("it is denied".to_owned()));
        let settings = EngineSettings::default();
        let kept = fallback.clone().for_workers(None, 1, &settings).unwrap();
        assert_eq!(kept, fallback);
        let requested = Some(EngineKind::IoUring);
        let error = fallback.for_workers(requested, 1, &settings).unwrap_err();
        assert_eq!(
            error.to_string(),
            "io_uring was requested and cannot be used: it is denied"
        );
    }

    #[test]
    fn names_are_read_back() {
        for kind in [EngineKind::Epoll, EngineKind::IoUring] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "kqueue".parse::<EngineKind>().unwrap_err().to_string();
        assert_eq!(unknown, "'kqueue': give epoll or io_uring");
    }

    #[test]
    fn epoll_is_chosen_by_default() {
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
    }

    #[test]
    fn falling_back_always_has_a_reason() {
        for chosen in [choose(Some(EngineKind::IoUring)), choose_batching(None)] {
            assert_eq!(chosen.kind == EngineKind::Epoll, chosen.reason.is_some());
        }
    }
}
