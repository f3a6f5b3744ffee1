//! The text of FreeBSD's `netstat -sp udp`, written and read by one list of its lines.

use corelane_measure::drops::UdpAccount;
use std::fmt::Write as _;
use thiserror::Error;

/// Why text is no UDP account.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetstatError {
    /// There is no line `udp:`.
    #[error("no line `udp:`: give the whole output of `netstat -sp udp`")]
    NoUdp,
    /// A line under `udp:` does not start with a count.
    #[error(
        "the line `{0}` does not start with a count of at most 64 bits: give the output of `netstat -sp udp` as it is"
    )]
    NoCount(String),
    /// A line that the sum needs is missing.
    #[error("no line `{0}` under `udp:`: give the whole output of `netstat -sp udp`")]
    Missing(&'static str),
}

/// One line: how it reads after its count, and the field it stands for.
struct Line {
    plural: &'static str,
    /// What is written for a count of one, where FreeBSD makes a difference.
    singular: &'static str,
    /// Whether the line is written when its count is 0. FreeBSD writes all of its own.
    always: bool,
    field: fn(&mut UdpAccount) -> &mut u64,
}

const fn line(text: &'static str, field: fn(&mut UdpAccount) -> &mut u64) -> Line {
    counted(text, text, field)
}

const fn counted(
    plural: &'static str,
    singular: &'static str,
    field: fn(&mut UdpAccount) -> &mut u64,
) -> Line {
    Line {
        plural,
        singular,
        always: true,
        field,
    }
}

const fn linux_only(text: &'static str, field: fn(&mut UdpAccount) -> &mut u64) -> Line {
    Line {
        plural: text,
        singular: text,
        always: false,
        field,
    }
}

const RECEIVED: &str = "datagrams received";
const DELIVERED: &str = "delivered";

/// The lines in FreeBSD's order (`udp_stats` in usr.bin/netstat/inet.c), with Linux's own after their neighbours.
const LINES: [Line; 14] = [
    counted(RECEIVED, "datagram received", |account| &mut account.received),
    line("with incomplete header", |account| &mut account.drops.bad_header),
    line("with bad data length field", |account| {
        &mut account.drops.bad_length
    }),
    line("with bad checksum", |account| &mut account.drops.bad_checksum),
    line("with no checksum", |account| &mut account.notes.no_checksum),
    line("dropped due to no socket", |account| &mut account.drops.no_socket),
    counted(
        "broadcast/multicast datagrams undelivered",
        "broadcast/multicast datagram undelivered",
        |account| &mut account.drops.broadcast,
    ),
    line("dropped due to full socket buffers", |account| {
        &mut account.drops.full_buffers
    }),
    linux_only("dropped due to the limit of UDP memory", |account| {
        &mut account.drops.memory
    }),
    linux_only("dropped due to other errors", |account| {
        &mut account.drops.other_errors
    }),
    line("not for hashed pcb", |account| {
        &mut account.notes.not_for_hashed_pcb
    }),
    line(DELIVERED, |account| &mut account.delivered),
    counted("datagrams output", "datagram output", |account| {
        &mut account.notes.output
    }),
    counted(
        "times multicast source filter matched",
        "time multicast source filter matched",
        |account| &mut account.notes.multicast_filter_matched,
    ),
];

pub fn render(account: &UdpAccount) -> String {
    let mut account = *account;
    let mut text = String::from("udp:\n");
    for line in &LINES {
        let number = *(line.field)(&mut account);
        if number > 0 || line.always {
            let words = if number == 1 { line.singular } else { line.plural };
            let _ = writeln!(text, "        {number} {words}");
        }
    }
    text
}

pub fn parse(text: &str) -> Result<UdpAccount, NetstatError> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != "udp:");
    lines.next().ok_or(NetstatError::NoUdp)?;
    let mut account = UdpAccount::default();
    let mut needed = vec![RECEIVED, DELIVERED];
    // The next protocol of `netstat -s` starts at the left margin again.
    for line in lines
        .take_while(|line| line.starts_with([' ', '\t']))
        .map(str::trim)
    {
        if line.is_empty() {
            continue;
        }
        let (number, words) = line.split_once(' ').unwrap_or((line, ""));
        let number: u64 = number
            .parse()
            .map_err(|_| NetstatError::NoCount(line.to_owned()))?;
        let known = LINES
            .iter()
            .find(|known| [known.plural, known.singular].contains(&words.trim()));
        if let Some(known) = known {
            *(known.field)(&mut account) = number;
            needed.retain(|words| *words != known.plural);
        }
    }
    match needed.first() {
        Some(words) => Err(NetstatError::Missing(words)),
        None => Ok(account),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_account_is_refused_with_the_reason() {
        assert_eq!(parse("tcp:\n    1 packet sent\n"), Err(NetstatError::NoUdp));
        let refused = parse("udp:\n\t12 datagrams received\n").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no line `delivered` under `udp:`: give the whole output of `netstat -sp udp`"
        );
        let refused = parse("udp:\n\tmany datagrams received\n").unwrap_err();
        assert_eq!(
            refused,
            NetstatError::NoCount("many datagrams received".to_owned())
        );
    }

    #[test]
    fn the_udp_part_of_all_protocols_is_found() {
        let text = "tcp:\n\t5 packets sent\nudp:\n\t7 datagrams received\n\t3 of a new kind\n\t7 delivered\nip:\n\t9 delivered\n";
        let account = parse(text).unwrap();
        assert_eq!((account.received, account.delivered), (7, 7));
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        let account = UdpAccount {
            received: 1,
            delivered: 1,
            ..UdpAccount::default()
        };
        let text = render(&account);
        assert!(text.starts_with("udp:\n        1 datagram received\n"), "{text}");
        assert_eq!(parse(&text), Ok(account));
    }
}
