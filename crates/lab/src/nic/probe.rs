//! The guest's side: configures the device, reads the metadata of each frame, and compares it with the computed values.
//!
//! What enters: a plan; frames and signals by the device. What leaves: [`NicProbed`]. The device is not put back: the
//! guest ends with the experiment.

use super::document::{Caught, CpuReport, NicProbed, RoundReport};
use super::plan::{NicPlan, NicRound};
use super::traffic::{self, Signal};
use anyhow::{Context, bail};
use corelane_host::HostError;
use corelane_host::bed::switch_on;
use corelane_host::ethtool::{Field, FlowType, change};
use corelane_host::explain::{Ends, Flow, explain};
use corelane_host::inventory::{Device, Inventory, inventory};
use corelane_link::Link;
use corelane_link::packet_socket::PacketLink;
use corelane_packet::verify::{self, Observed, Queue, Rule, Verifier};
use corelane_packet::{Dissection, TransportHeader};
use corelane_rss::{Bucket, HashFields, Protocol, Toeplitz};
use corelane_worker::received::{LEAST_FRAME_BYTES, ReceivedFrame, Receiver};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Idle time after which the guest reports its count.
const QUIET: Duration = Duration::from_millis(5);

/// Interval at which the report is repeated in case it is lost.
const AGAIN: Duration = Duration::from_millis(100);

/// Time without a frame after which the probe gives up; the guest's own limit is larger. The host is silent for
/// half as long at most, once the emulator has a CPU.
const SILENCE: Duration = Duration::from_secs(60);

/// Carries out the guest's side of a plan.
///
/// # Errors
/// In words: what the device refused, or that the host went silent.
pub fn probe(plan: &NicPlan) -> anyhow::Result<NicProbed> {
    let device = plan.device.as_str();
    switch_on(device)?;
    let mut signals = traffic::open(device)?;
    let mut probed = None;
    let mut rounds = Vec::new();
    for (number, stage) in plan.stages().into_iter().enumerate() {
        let refused = set(device, stage.round)?;
        let inventory = inventory();
        let own = inventory.device(device).context("the device has gone")?;
        let mut round = stage.round.clone();
        if let Some(refused) = refused {
            // Such a driver sets the kernel's key, which the inventory reads.
            let rss = own.rss.value.as_ref();
            round.key = rss.and_then(|rss| rss.key().ok()).ok_or(refused)?;
        }
        let mut receiver = Receiver::of_heads(device, &PROGRAMS.map(|fields| round.steering(fields)))?;
        let mut heard = Heard::new(&round, own, &inventory);
        listen(number as u32, &mut heard, &mut receiver, &mut signals)?;
        if stage.counts {
            rounds.push(heard.report(&receiver));
        }
        let driver = own.driver.value.as_ref().map(|driver| driver.name.clone());
        probed = Some(NicProbed {
            kernel: inventory.machine.kernel.clone().unwrap_or_default(),
            driver: driver.unwrap_or_default(),
            queues: own.receive_queues.len(),
            rounds: Vec::new(),
        });
    }
    let probed = probed.context("the plan has no round")?;
    Ok(NicProbed { rounds, ..probed })
}

/// The programs that the kernel runs on every frame.
const PROGRAMS: [HashFields; 2] = [HashFields::TwoTuple, HashFields::FourTuple];

/// Sets key, table and fields, and has hashes handed up. Returns the error of a driver that keeps its own key.
fn set(device: &str, round: &NicRound) -> anyhow::Result<Option<HostError>> {
    let refused = change::set_rss(device, Some(&round.key), Some(&round.table)).err();
    if refused.is_some() {
        change::set_rss(device, None, Some(&round.table))?;
    }
    for (flow_type, fields) in fields(round) {
        change::set_fields(device, flow_type, fields)?;
    }
    change::set_receive_hashing(device)?;
    Ok(refused)
}

/// What is hashed of each type of flow.
fn fields(round: &NicRound) -> [(FlowType, &'static [Field]); 4] {
    let udp: &[Field] = match round.udp_fields {
        HashFields::TwoTuple => &Field::TWO_TUPLE,
        HashFields::FourTuple => &Field::FOUR_TUPLE,
    };
    [
        (FlowType::Tcp4, &Field::FOUR_TUPLE),
        (FlowType::Udp4, udp),
        (FlowType::Tcp6, &Field::FOUR_TUPLE),
        (FlowType::Udp6, udp),
    ]
}

/// Receives frames until the host requests another round.
fn listen(
    number: u32,
    heard: &mut Heard<'_>,
    receiver: &mut Receiver,
    signals: &mut PacketLink,
) -> anyhow::Result<()> {
    let (mut changed, mut signalled) = (Instant::now(), None);
    loop {
        let now = Instant::now();
        let before = heard.report.frames;
        receiver.drain(|frame| heard.hear(&frame))?;
        let seen = heard.report.frames;
        if seen != before {
            changed = now;
        }
        let due =
            signalled.is_none_or(|(count, at)| count != seen && now - changed > QUIET || now - at > AGAIN);
        if due {
            let signal = Signal {
                round: number,
                seen: seen as u32,
            };
            let frame = signal.frame(false);
            signals.send([&frame[..]].into_iter())?;
            signalled = Some((seen, now));
        }
        if traffic::hears(signals, |signal| signal.round > number)? {
            return Ok(());
        }
        if now - changed > SILENCE {
            bail!("the host went silent in round {number}, after {seen} frames");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The counts of one round.
struct Heard<'a> {
    inventory: &'a Inventory,
    device: &'a Device,
    toeplitz: Toeplitz,
    rule: Rule,
    /// Of the rule, of a wrong key, of a wrong table.
    verifiers: [Verifier; 3],
    /// Frames by queue, the CPU named and the CPU seen.
    cpus: BTreeMap<(Option<u16>, Option<u32>, u32), u64>,
    report: RoundReport,
}

impl<'a> Heard<'a> {
    fn new(round: &NicRound, device: &'a Device, inventory: &'a Inventory) -> Self {
        let mut entries_by_queue = vec![0; round.table.buckets()];
        for bucket in round.table.entries() {
            entries_by_queue[bucket.index()] += 1;
        }
        let rules = [round.rule(), round.wrong_key(), round.wrong_table()];
        Self {
            inventory,
            device,
            toeplitz: Toeplitz::new(&round.key),
            verifiers: rules.each_ref().map(Verifier::new),
            rule: round.rule(),
            cpus: BTreeMap::new(),
            report: RoundReport {
                key: round.key.to_string(),
                reads_back: reads_back(round, device),
                entries_by_queue,
                ..RoundReport::default()
            },
        }
    }

    /// Counts a frame. Frames of other origin have no IP addresses of documentation networks and are skipped.
    fn hear(&mut self, received: &ReceivedFrame) {
        let head = received.bytes.as_slice();
        if Signal::read(head).is_some() {
            return;
        }
        if head.len() < LEAST_FRAME_BYTES {
            self.report.too_short += 1;
            return;
        }
        let Some((dissection, input)) = Dissection::of(head)
            .ok()
            .and_then(|dissection| Some((dissection, dissection.rss_input(self.rule.hash_types)?)))
        else {
            return;
        };
        let observed = Observed {
            hash: Some(received.hash),
            queue: received.queue.map(Queue),
            sequence: None,
        };
        for verifier in &mut self.verifiers {
            verifier.frame(head, observed);
        }
        let report = &mut self.report;
        report.frames += 1;
        let hash = self.toeplitz.hash_input(input.as_bytes());
        // One flow of 2^32 has the hash that a device without hashes reports.
        report.without_hash += u64::from(received.hash == 0 && hash != 0);
        let name = input.hash_type().name().to_owned();
        let of_type = report.types.entry(name).or_default();
        of_type.frames += 1;
        of_type.right_hash += u64::from(received.hash == hash);
        if let Some(queue) = received.queue {
            *report.frames_by_queue.entry(queue).or_default() += 1;
            of_type.right_queue += u64::from(Queue(queue).serves(self.rule.table.bucket(hash)));
        }
        let program = PROGRAMS.iter().position(|of| *of == input.hash_type().fields());
        let bucket = program.and_then(|program| received.buckets.get(program).copied());
        let right = bucket.map(Bucket::new) == Some(self.rule.table.bucket(hash));
        *of_type.right_program.get_or_insert(0) += u64::from(right);
        let named = explained_cpu(self.inventory, self.device, &dissection);
        let seen = received.cpu;
        report.right_cpu += u64::from(named == Some(seen));
        *self.cpus.entry((received.queue, named, seen)).or_default() += 1;
    }

    /// The verifier's counts have to agree with those by type, or one of the two is wrong.
    fn report(self, receiver: &Receiver) -> RoundReport {
        let [right, wrong_key, wrong_table] = self.verifiers.each_ref().map(Verifier::report);
        let caught = |report: &verify::Report| Caught {
            misplaced: report.misplaced,
            right_hash: report.buckets.iter().filter_map(|bucket| bucket.right_hash).sum(),
        };
        let cpus = self
            .cpus
            .into_iter()
            .map(|((queue, named, seen), frames)| CpuReport {
                queue,
                named,
                seen,
                frames,
            });
        let mut report = RoundReport {
            wrong_key: caught(&wrong_key),
            wrong_table: caught(&wrong_table),
            cpus: cpus.collect(),
            incomplete: receiver.incomplete() + receiver.waiting(),
            ..self.report
        };
        let counted: u64 = report.types.values().map(|of_type| of_type.right_queue).sum();
        let verified = right.frames - right.misplaced;
        report.disagreement = (verified != counted).then(|| {
            format!(
                "{counted} frames are on their queue by the counts of their types, {verified} by the verifier"
            )
        });
        report
    }
}

/// Whether the device's settings read back as set.
fn reads_back(round: &NicRound, device: &Device) -> bool {
    let (Some(rss), Some(set)) = (&device.rss.value, &device.fields.value) else {
        return false;
    };
    rss.key().as_ref() == Ok(&round.key)
        && rss.table().as_ref() == Ok(&round.table)
        && fields(round)
            .iter()
            .all(|(flow_type, fields)| set.get(flow_type).is_some_and(|set| set == fields))
}

/// The CPU that `explain` reports for a frame.
fn explained_cpu(inventory: &Inventory, device: &Device, dissection: &Dissection<'_>) -> Option<u32> {
    let flow = Flow {
        tuple: dissection.tuple(),
        protocol: match dissection.transport() {
            TransportHeader::Tcp(_) => Protocol::Tcp,
            TransportHeader::Udp(_) => Protocol::Udp,
            _ => Protocol::Other,
        },
        device: Some(device.name.clone()),
        sender_cpu: None,
    };
    let explanation = explain(inventory, &flow, &Ends::default()).ok()?;
    let direction = explanation.directions.first()?;
    match dissection.is_fragment() {
        true => direction.fragments.as_ref()?.cpu,
        false => direction.cpu,
    }
}
