//! Outcomes of a connection or request that failed, each with its own name.

use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use corelane_worker::engine::{Cause, Remote};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Declares the failures, each with its name in documents.
macro_rules! failures {
    ($( $(#[$about:meta])* $failure:ident = $name:literal, )+) => {
        /// Why a request failed, or a connection could not be opened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Failure {
            $( $(#[$about])* $failure, )+
        }

        impl Failure {
            /// All failures in numeric order, with their names.
            const NAMED: [(Self, &'static str); [$($name),+].len()] = [$( (Self::$failure, $name) ),+];
        }
    };
}

failures! {
    /// Nobody listens there.
    Refused = "refused",
    /// The server reset the connection.
    Reset = "reset",
    /// The server closed the connection before the response was complete, or before it began.
    ClosedEarly = "closed_early",
    /// The response is not HTTP/1.1, or unexpected bytes arrived.
    Malformed = "malformed",
    /// Unexpected status code.
    WrongStatus = "wrong_status",
    /// The body differs from the expected one.
    WrongBody = "wrong_body",
    /// The server's certificate failed verification.
    CertificateRefused = "certificate_refused",
    /// The server violated TLS, or rejected this client.
    Tls = "tls",
    /// The connection was not established in time.
    ConnectTimeout = "connect_timeout",
    /// The connection was established, but the TLS handshake did not complete in time.
    HandshakeTimeout = "handshake_timeout",
    /// The response did not begin in time.
    FirstByteTimeout = "first_byte_timeout",
    /// The response was not complete in time.
    RequestTimeout = "request_timeout",
    /// No route to the server.
    Unreachable = "unreachable",
    /// Out of file descriptors.
    NoDescriptors = "no_descriptors",
    /// Out of source ports.
    NoPorts = "no_ports",
    /// The kernel was out of memory.
    NoMemory = "no_memory",
    /// Blocked by a firewall or a missing permission.
    Forbidden = "forbidden",
    /// Any other kernel error.
    Other = "other",
}

impl Failure {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMED.into_iter().map(|(failure, _)| failure)
    }

    /// Name used in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMED[self as usize].1
    }

    /// Its name in prose.
    #[must_use]
    pub fn words(self) -> String {
        self.name().replace('_', " ")
    }

    /// Whether it says nothing about the server: the cause is on this machine, or unknown.
    pub(crate) const fn is_own(self) -> bool {
        matches!(
            self,
            Self::NoDescriptors | Self::NoPorts | Self::NoMemory | Self::Forbidden | Self::Other
        )
    }

    /// The failure that the end of a connection means for the request in progress.
    pub(crate) fn of_cause(cause: Cause, was_open: bool) -> Self {
        match cause {
            Cause::Refused => Self::Refused,
            Cause::Reset => Self::Reset,
            Cause::TimedOut if was_open => Self::RequestTimeout,
            Cause::TimedOut => Self::ConnectTimeout,
            Cause::Unreachable => Self::Unreachable,
            Cause::NoDescriptor => Self::NoDescriptors,
            Cause::AddressInUse | Cause::NoAddress => Self::NoPorts,
            Cause::NoBuffer => Self::NoMemory,
            Cause::Forbidden => Self::Forbidden,
            Cause::Asked => Self::ClosedEarly,
            Cause::TooLarge | Cause::Truncated | Cause::Other(_) => Self::Other,
        }
    }
}

counters! {
    /// Counts by failure. Documents list every name, including zero counts.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(into = "BTreeMap<String, u64>", from = "BTreeMap<String, Value>")]
    pub struct Failures {
        by_failure: [u64; Failure::NAMED.len()],
    }
}

impl Failures {
    /// Counts one.
    pub fn count(&mut self, failure: Failure) {
        self.count_all(failure, 1);
    }

    /// Counts so many.
    pub(crate) fn count_all(&mut self, failure: Failure, count: u64) {
        self.by_failure[failure as usize] += count;
    }

    /// Number of such failures.
    #[must_use]
    pub fn of(&self, failure: Failure) -> u64 {
        self.by_failure[failure as usize]
    }

    /// Failures of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        Counters::sum(self.by_failure)
    }

    /// The non-zero counts.
    pub fn occurred(&self) -> impl Iterator<Item = (Failure, u64)> {
        Failure::all()
            .zip(self.by_failure)
            .filter(|(_, count)| *count > 0)
    }

    /// The non-zero counts, by name with this prefix.
    #[must_use]
    pub fn named(&self, prefix: &str) -> BTreeMap<String, u64> {
        let name = |(failure, count): (Failure, u64)| (format!("{prefix}{}", failure.name()), count);
        self.occurred().map(name).collect()
    }

    /// The causes that occurred, with their counts.
    #[must_use]
    pub fn causes(&self) -> String {
        let causes = self.occurred();
        let causes = causes.map(|(failure, count)| format!("{} {}", failure.words(), quantity::count(count)));
        causes.collect::<Vec<_>>().join(", ")
    }

    /// Why connections to these servers could not be opened, if none was.
    pub(crate) fn none_opened(&self, servers: &BTreeSet<&Remote>) -> String {
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let causes = self.occurred().map(|(failure, _)| match failure {
            Failure::Refused => format!("refused by {}", servers.join(", ")),
            failure => failure.words(),
        });
        let causes: Vec<String> = causes.collect();
        match causes.is_empty() {
            true => "no connection was opened".to_owned(),
            false => format!("no connection could be opened: {}", causes.join(", ")),
        }
    }

    /// The limit of this machine that connections could not be opened for, if any.
    pub(crate) fn limit(&self) -> Option<String> {
        let lacking = [
            (
                Failure::NoDescriptors,
                "descriptors ran out: use more --workers, or raise RLIMIT_NOFILE",
            ),
            (
                Failure::NoPorts,
                "source ports ran out: give --sources with more addresses",
            ),
            (Failure::NoMemory, "the kernel had no memory for more connections"),
        ];
        let found = lacking.into_iter().find(|(failure, _)| self.of(*failure) > 0);
        found.map(|(_, lacking)| lacking.to_owned())
    }
}

impl From<Failures> for BTreeMap<String, u64> {
    fn from(failures: Failures) -> Self {
        let named = Failure::NAMED.into_iter().zip(failures.by_failure);
        named.map(|((_, name), count)| (name.to_owned(), count)).collect()
    }
}

impl From<BTreeMap<String, Value>> for Failures {
    /// Takes all members of the block that failures are part of; others need not be counts.
    fn from(members: BTreeMap<String, Value>) -> Self {
        let count = |(_, name): (_, &str)| members.get(name).and_then(Value::as_u64).unwrap_or(0);
        Self {
            by_failure: Failure::NAMED.map(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_place_and_a_name_of_its_own() {
        let mut failures = Failures::default();
        for (place, failure) in Failure::all().enumerate() {
            assert_eq!(failure as usize, place);
            failures.count(failure);
        }
        let named = BTreeMap::from(failures);
        assert_eq!(
            (named.len(), failures.total()),
            (Failure::NAMED.len(), Failure::NAMED.len() as u64)
        );
        let read = serde_json::from_value(serde_json::to_value(named).unwrap());
        assert_eq!(read.ok(), Some(failures));
    }
}
