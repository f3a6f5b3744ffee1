//! Lines of names over lines of numbers: the form of `/proc/net/snmp` and `/proc/net/netstat`.

use crate::HostError;

/// Names and their numbers.
pub(super) type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The names and numbers of a protocol: a line of names, then a line of numbers, both headed by the protocol
/// (`snmp_seq_show` and `netstat_seq_show` in `net/ipv4/proc.c`). `None` when there are no such lines.
pub(super) fn pairs<'a>(place: &str, text: &'a str, protocol: &str) -> Result<Option<Pairs<'a>>, HostError> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let Some(names) = lines.next() else {
        return Ok(None);
    };
    let numbers = lines.next().unwrap_or_default();
    if names.split_whitespace().count() != numbers.split_whitespace().count() {
        return Err(HostError::format(
            format!("{place} ({protocol})"),
            "a line of names and a line of as many numbers",
            numbers,
        ));
    }
    Ok(Some(
        names.split_whitespace().zip(numbers.split_whitespace()).collect(),
    ))
}

/// [`pairs`] that must be there.
pub(super) fn required<'a>(
    place: &'static str,
    text: &'a str,
    protocol: &str,
) -> Result<Pairs<'a>, HostError> {
    pairs(place, text, protocol)?.ok_or_else(|| HostError::Missing {
        place,
        what: format!("{protocol}: lines"),
    })
}

/// Finds a number by its name.
pub(super) fn lookup<'a>(pairs: &'a Pairs<'a>) -> impl Fn(&str) -> Option<u64> + 'a {
    |name| {
        let (_, number) = pairs.iter().find(|(known, _)| *known == name)?;
        // Some counters of the same lines are signed (`MaxConn -1`); none of those asked for is.
        number.parse().ok()
    }
}
