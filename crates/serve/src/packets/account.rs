//! Accounts for marked frames: takes frames and the time of their burst, returns counts and latencies.

use super::received::StreamReceived;
use corelane_measure::histogram::Histogram;
use corelane_packet::{Dissection, TransportHeader};
use corelane_proto::mark::Mark;
use corelane_proto::probe::{Arrival, Sequence};
use corelane_worker::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of UDP's header (RFC 768).
const UDP_HEADER: usize = 8;
/// Latencies above this are invalid: the clocks of sender and receiver are on different machines.
const ABSURD: Duration = Duration::from_secs(600);

/// Results of one worker.
///
/// Streams are distinguished by their marks only. A stream whose frames reach several workers is merged at the end. The
/// order between workers is then unknown, so reordering is counted only within each worker.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) received: u64,
    pub(super) bytes: u64,
    pub(super) marked: u64,
    pub(super) changed_or_foreign: u64,
    pub(super) not_udp: u64,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) latency: Histogram,
    /// Marks with a time in the future or implausibly far in the past.
    pub(super) other_clock: u64,
    pub(super) streams: BTreeMap<u16, Stream>,
    /// Frames lost because the link's receive ring was full.
    pub(super) receive_dropped: u64,
    /// Frames that arrived but were invalid.
    pub(super) receive_invalid: u64,
    /// Whether frames have the timestamps of a capture.
    pub(super) is_capture: bool,
    /// Why the link was lost, if it was.
    pub(super) lost: Option<String>,
}

/// One stream, as received by one worker.
#[derive(Debug, Default)]
pub(super) struct Stream {
    sequence: Sequence,
    pub(super) counts: StreamReceived,
    /// One past the newest number, extended beyond 2^32.
    pub(super) newest: u64,
}

impl Account {
    /// Records a frame that arrived now.
    #[inline]
    pub(super) fn take(&mut self, frame: &[u8], now: Time) {
        self.received += 1;
        self.bytes += frame.len() as u64;
        let Some(payload) = payload(frame) else {
            self.not_udp += 1;
            return;
        };
        let Ok(mark) = Mark::read(payload) else {
            self.changed_or_foreign += 1;
            return;
        };
        self.marked += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        let sent = Time::from_nanoseconds(mark.time);
        if sent > now || now.since(sent) > ABSURD {
            self.other_clock += 1;
        } else {
            self.latency.record(now.since(sent).as_nanos() as u64);
        }
        self.streams.entry(mark.stream).or_default().take(mark.sequence);
    }
}

impl Stream {
    fn take(&mut self, number: u32) {
        let end = self.sequence.end();
        let ahead = number.wrapping_sub(end);
        // The number sent is unknown: assume that a number ahead of all others was sent last, and one behind was sent
        // earlier.
        let sent = if ahead <= u32::MAX / 2 {
            number.wrapping_add(1)
        } else {
            end
        };
        match self.sequence.arrive(number, sent) {
            Arrival::InOrder => {
                self.newest += u64::from(ahead) + 1;
                self.counts.received += 1;
            }
            Arrival::Reordered => {
                self.counts.received += 1;
                self.counts.reordered += 1;
            }
            Arrival::Duplicate => self.counts.duplicated += 1,
            Arrival::TooLate | Arrival::Unsent => self.counts.too_late += 1,
        }
    }
}

/// The UDP payload of a frame, without Ethernet padding. A first fragment yields a partial payload, which contains no
/// valid mark.
#[inline]
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let dissection = Dissection::of(frame).ok()?;
    match dissection.transport() {
        TransportHeader::Udp(_) => {
            frame.get(dissection.transport_offset() + UDP_HEADER..dissection.packet_end())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(numbers: &[u32]) -> (StreamReceived, u64) {
        let mut stream = Stream::default();
        numbers.iter().for_each(|number| stream.take(*number));
        (stream.counts, stream.newest)
    }

    #[test]
    fn order_loss_and_duplicates_come_out_of_the_numbers() {
        let (counts, newest) = taken(&[0, 1, 2, 5, 4, 4, 6]);
        assert_eq!(
            (counts.received, counts.reordered, counts.duplicated, newest),
            (6, 1, 1, 7)
        );
        let (counts, newest) = taken(&[2000, 1, 2001]);
        assert_eq!((counts.received, counts.too_late, newest), (2, 1, 2002));
    }

    #[test]
    fn what_is_no_datagram_of_the_generator_is_counted_apart() {
        let mut account = Account::default();
        account.take(&[0; 60], Time::now());
        let mut frame = vec![2; 12];
        frame.extend([
            0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        frame.extend([0, 1, 0, 2, 0, 26, 0, 0]);
        frame.resize(60, 7);
        account.take(&frame, Time::now());
        assert_eq!(
            (account.received, account.not_udp, account.changed_or_foreign),
            (2, 1, 1)
        );
    }
}
