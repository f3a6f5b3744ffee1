//! Where frames went between the five places, in datagrams.
//!
//! In: what both devices and both kernels counted over a trial, and the counts of server and generator. Out: in the
//! [`Trial`], datagrams received and dropped by cause.
//!
//! A merged frame (`UDP_SEGMENT` sent it, veth does not cut it) is one frame to a device whatever it carries, and with
//! `UDP_GRO` one to the socket's counters too. What a device received in datagrams follows from its bytes, because all
//! payloads of a trial are equally long: every frame brings one set of headers, every datagram one payload. For drops
//! there are no bytes. So where frames may be merged, a single cause of a gap takes all datagrams that are missing
//! there beyond those counted one by one. With several such causes their shares are unknown: each is reported in
//! frames, and the rest stays unexplained, with the reason under `unknown`.

use super::account::Evidence;
use super::document::{Trial, unexplained};
use super::gap::{self, Gap, Side};
use super::plan::ScalePlan;
use crate::scale::sides::SideReading;
use corelane_measure::drops::Cause;
use corelane_serve::udp::DropCause;

/// Bytes of an Ethernet header, which device counters include, and of UDP's (RFC 768).
const ETHERNET_AND_UDP_BYTES: u64 = 14 + 8;

/// Bytes of an IPv4 header without options (RFC 791) and of an IPv6 header (RFC 8200).
const IPV4_BYTES: u64 = 20;
const IPV6_BYTES: u64 = 40;

/// How the datagrams of a trial lie in frames.
pub(super) struct Framing {
    /// Bytes of each payload.
    payload: u64,
    /// Bytes of headers a frame.
    headers: u64,
    /// Whether a frame may carry several datagrams.
    merged: bool,
    /// Whether sockets take merged frames whole. Otherwise the kernel cuts them before it queues and counts them.
    pub(super) merged_in_sockets: bool,
}

/// What one cause took.
struct Dropped {
    cause: Cause,
    side: Side,
    count: u64,
    /// Whether it was counted in frames that may hold several datagrams each.
    merged: bool,
}

/// Fills in what was received and dropped, and what is missing without a cause.
pub(super) fn count(trial: &mut Trial, plan: &ScalePlan, evidence: &Evidence<'_>) {
    let framing = Framing::of(plan);
    let mut dropped = server_drops(evidence, &framing);
    if evidence.apart {
        let (server, client) = (&evidence.sides.server, &evidence.sides.client);
        match framing.received(server) {
            Ok(received) => trial.counts.received = Some(received),
            Err(reason) => {
                trial.head.explain("received_pps", reason);
            }
        }
        let refused = evidence.sides.backlog_dropped;
        let at_server = refused.min(server.device.rx_dropped);
        let at_client = (refused - at_server).min(client.device.rx_dropped);
        dropped.extend(way_drops(Side::Server, client, server, at_server, &framing));
        if trial.counts.answered.is_some() {
            dropped.extend(way_drops(Side::Client, server, client, at_client, &framing));
            dropped.extend(client_drops(evidence));
        }
    } else {
        let reason = "client and server share the loopback device and its counters";
        trial.head.explain("received_pps", reason);
    }
    attribute(trial, dropped);
    trial.unexplained = unexplained(trial);
}

impl Framing {
    /// Of every trial of a plan.
    pub(super) fn of(plan: &ScalePlan) -> Self {
        let ip = if plan.server.is_ipv4() {
            IPV4_BYTES
        } else {
            IPV6_BYTES
        };
        Self {
            payload: plan.request.payload_bytes as u64,
            headers: ETHERNET_AND_UDP_BYTES + ip,
            merged: plan.request.gso,
            merged_in_sockets: plan.request.gso && plan.request.gro,
        }
    }

    /// Datagrams that a device received, or why the number is unknown.
    fn received(&self, reading: &SideReading) -> Result<u64, String> {
        let frames = reading.received();
        if !self.merged {
            return Ok(frames);
        }
        if reading.udp.icmp_received > 0 {
            return Err(
                "datagrams of merged frames are computed from bytes, and ICMP messages were counted too"
                    .to_owned(),
            );
        }
        let payloads = reading.device.rx_bytes.checked_sub(frames * self.headers);
        payloads
            .filter(|payloads| payloads % self.payload == 0)
            .map(|payloads| payloads / self.payload)
            .ok_or_else(|| {
                format!(
                    "{} bytes in {frames} frames are no whole number of payloads: something else used the device",
                    reading.device.rx_bytes
                )
            })
    }

    /// What a side's sockets still held, in the unit of their counters.
    pub(super) fn queued(&self, reading: &SideReading) -> u64 {
        reading.queued(match self.merged_in_sockets {
            true => reading.received(),
            // Merged frames were cut before they were queued: as many arrived as there were datagrams.
            false => self.received(reading).unwrap_or(0),
        })
    }
}

/// What was dropped between a sender's device and the sockets of `side`. Of what the receiving device dropped,
/// `refused` frames found a CPU's backlog full (`enqueue_to_backlog` in `net/core/dev.c` counts them with both).
fn way_drops(
    side: Side,
    sender: &SideReading,
    receiver: &SideReading,
    refused: u64,
    framing: &Framing,
) -> Vec<Dropped> {
    let device = receiver.device.rx_dropped;
    let counts = [
        (
            Cause::TransmitQueue,
            sender.device.tx_dropped.saturating_sub(device),
        ),
        (Cause::Device, device - refused),
        (Cause::Backlog, refused),
        (Cause::StillQueued, framing.queued(receiver)),
    ];
    let dropped = |(cause, count)| Dropped {
        cause,
        side,
        count,
        merged: match cause {
            Cause::TransmitQueue | Cause::Device | Cause::Backlog | Cause::Ip | Cause::NoSocket => {
                framing.merged
            }
            _ => framing.merged_in_sockets,
        },
    };
    let counts = counts.into_iter().chain(receiver.udp.drops());
    counts.map(dropped).collect()
}

/// Datagrams that the server's workers read and did not answer, that its mailboxes dropped, and that its sockets
/// dropped without a kernel counter.
fn server_drops(evidence: &Evidence<'_>, framing: &Framing) -> Vec<Dropped> {
    let before = evidence.served_before.dropped();
    let mut dropped = Vec::new();
    for (name, count) in evidence.served.dropped() {
        // The kernel's own counts of these are used where there are some: they cover every socket.
        if matches!(name, DropCause::FullBuffers | DropCause::BadChecksum) && evidence.apart {
            continue;
        }
        let cause = of_server(name);
        dropped.push(Dropped {
            cause,
            side: Side::Server,
            count: count - before.get(&name).copied().unwrap_or(0),
            merged: cause == Cause::FullBuffers && framing.merged_in_sockets,
        });
    }
    dropped
}

/// What a cause of the server is in the account.
const fn of_server(cause: DropCause) -> Cause {
    use DropCause as D;
    match cause {
        D::BadChecksum => Cause::BadChecksum,
        D::FullBuffers => Cause::FullBuffers,
        D::MailboxFull => Cause::MailboxFull,
        D::QueueFull => Cause::AnswerBuffersFull,
        D::RefusedPort | D::RefusedPeer | D::RefusedBroadcast => Cause::Refused,
        D::RefusedEcho | D::RefusedLoop => Cause::Refused,
        D::Truncated => Cause::Corrupted,
        D::NoDestination | D::NoAddress | D::AddressInUse | D::Unreachable => Cause::SendFailed,
        D::NoBuffer | D::NoDescriptor | D::TooLarge | D::Forbidden => Cause::SendFailed,
        D::Refused | D::Reset | D::TimedOut | D::Closed | D::Other => Cause::SendFailed,
    }
}

/// Answers that reached a client and count as none.
fn client_drops(evidence: &Evidence<'_>) -> [Dropped; 2] {
    let total = &evidence.loaded.total;
    let counts = [
        (Cause::Corrupted, total.corrupted),
        (Cause::OtherErrors, total.too_late),
    ];
    counts.map(|(cause, count)| Dropped {
        cause,
        side: Side::Client,
        count,
        merged: false,
    })
}

fn add(trial: &mut Trial, dropped: &Dropped, datagrams: u64) {
    if datagrams > 0 {
        *trial
            .drops
            .entry(gap::key(dropped.cause, dropped.side))
            .or_default() += datagrams;
    }
}

/// Charges what was dropped: datagrams as they were counted, merged frames with the datagrams that are missing.
fn attribute(trial: &mut Trial, dropped: Vec<Dropped>) {
    let (merged, single): (Vec<_>, Vec<_>) = dropped.into_iter().partition(|dropped| dropped.merged);
    for dropped in &single {
        add(trial, dropped, dropped.count);
    }
    let mut by_stretch: [Vec<Dropped>; 4] = Default::default();
    for dropped in merged.into_iter().filter(|dropped| dropped.count > 0) {
        by_stretch[stretch(trial, gap::gap(dropped.cause, dropped.side))].push(dropped);
    }
    for (stretch, dropped) in by_stretch.iter().enumerate() {
        let frames: u64 = dropped.iter().map(|dropped| dropped.count).sum();
        let missing = missing(trial, stretch).filter(|missing| *missing > frames);
        if let ([only], Some(missing)) = (&dropped[..], missing) {
            add(trial, only, missing);
            continue;
        }
        if missing.is_some() && !dropped.is_empty() {
            let reason = "the kernel counts merged frames, and several causes dropped some: the datagrams of each \
                          are unknown";
            trial.head.explain("drops", reason);
        }
        for dropped in dropped {
            add(trial, dropped, dropped.count);
        }
    }
}

/// The gap that a cause is charged to; where the device was not counted, the way to the worker is one.
fn stretch(trial: &Trial, gap: Gap) -> usize {
    match gap {
        Gap::ReceivedToSeen if trial.counts.received.is_none() => Gap::GeneratedToReceived as usize,
        gap => gap as usize,
    }
}

/// Datagrams missing on a stretch beyond those that a cause has taken already; `None` if its ends were not counted.
fn missing(trial: &Trial, index: usize) -> Option<u64> {
    let [generated, received, seen, answered, returned] = trial.counts.places();
    let (before, after) = match Gap::ALL[index] {
        Gap::GeneratedToReceived => (generated, received.or(seen)),
        Gap::ReceivedToSeen => (received, seen),
        Gap::SeenToAnswered => (seen, answered),
        Gap::AnsweredToReturned => (answered, returned),
    };
    let charged = trial.drops.iter().filter_map(|(key, count)| {
        let (cause, side) = gap::of_key(key)?;
        (stretch(trial, gap::gap(cause, side)) == index).then_some(*count)
    });
    let charged: u64 = charged.sum();
    Some(before?.saturating_sub(after?).saturating_sub(charged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::counts::Counts;
    use crate::trial::{Trial as _, TrialHead};

    fn trial() -> Trial {
        Trial {
            counts: Counts {
                generated: 1_000,
                received: Some(1_000),
                seen: Some(700),
                ..Counts::default()
            },
            ..Trial::new(TrialHead::new(0, 0, 1.0))
        }
    }

    fn dropped(cause: Cause, count: u64, merged: bool) -> Dropped {
        let side = Side::Server;
        Dropped {
            cause,
            side,
            count,
            merged,
        }
    }

    #[test]
    fn one_cause_takes_the_datagrams_of_its_merged_frames() {
        let mut trial = trial();
        let causes = vec![
            dropped(Cause::FullBuffers, 5, true),
            dropped(Cause::MailboxFull, 100, false),
        ];
        attribute(&mut trial, causes);
        assert_eq!(trial.drops["full_buffers"], 200, "what the mailbox did not take");
        assert_eq!(unexplained(&trial)[&Gap::ReceivedToSeen], Some(0));
    }

    #[test]
    fn several_causes_of_merged_frames_leave_the_rest_unexplained_and_say_why() {
        let mut trial = trial();
        attribute(
            &mut trial,
            vec![
                dropped(Cause::FullBuffers, 5, true),
                dropped(Cause::Memory, 1, true),
            ],
        );
        assert_eq!(unexplained(&trial)[&Gap::ReceivedToSeen], Some(294));
        assert!(trial.head.unknown["drops"].contains("merged frames"));
    }

    #[test]
    fn what_was_counted_in_datagrams_hides_no_other_loss() {
        let mut trial = trial();
        attribute(&mut trial, vec![dropped(Cause::FullBuffers, 299, false)]);
        assert_eq!(unexplained(&trial)[&Gap::ReceivedToSeen], Some(1));
        assert!(trial.head.unknown.is_empty());
    }

    #[test]
    fn merged_frames_of_one_datagram_each_count_as_they_are() {
        let mut trial = trial();
        attribute(
            &mut trial,
            vec![
                dropped(Cause::FullBuffers, 299, true),
                dropped(Cause::Memory, 1, true),
            ],
        );
        assert_eq!((trial.drops["full_buffers"], trial.drops["memory"]), (299, 1));
        assert!(trial.head.unknown.is_empty());
    }

    #[test]
    fn without_a_device_counter_the_way_to_the_worker_is_one_gap() {
        let mut trial = trial();
        trial.counts.received = None;
        attribute(&mut trial, vec![dropped(Cause::FullBuffers, 5, true)]);
        assert_eq!(trial.drops["full_buffers"], 300);
    }
}
