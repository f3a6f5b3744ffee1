//! Lines of names over lines of numbers: the form of `/proc/net/snmp` and `/proc/net/netstat`.

use std::collections::BTreeMap;

use crate::HostError;

/// Numbers by name. Some are signed (`MaxConn -1`); none of those read here is.
#[derive(Default)]
pub(super) struct Named<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Named<'a> {
    /// The names and numbers of a protocol: a line of names, then a line of numbers, both headed by the protocol
    /// (`snmp_seq_show` and `netstat_seq_show` in `net/ipv4/proc.c`). `None` when there are no such lines.
    pub(super) fn find(place: &str, text: &'a str, protocol: &str) -> Result<Option<Self>, HostError> {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
        let Some(names) = lines.next() else {
            return Ok(None);
        };
        let line = lines.next().unwrap_or_default();
        let (names, numbers) = (names.split_whitespace(), line.split_whitespace());
        if names.clone().count() != numbers.clone().count() {
            let expected = "a line of names and a line of as many numbers";
            return Err(HostError::format(format!("{place} ({protocol})"), expected, line));
        }
        Ok(Some(Self(names.zip(numbers).collect())))
    }

    /// [`Named::find`] of lines that must be there.
    pub(super) fn require(place: &'static str, text: &'a str, protocol: &str) -> Result<Self, HostError> {
        let missing = || HostError::missing(place, format!("{protocol}: lines"));
        Self::find(place, text, protocol)?.ok_or_else(missing)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }
}
