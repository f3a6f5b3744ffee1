//! The guest's side: sets the device, reads what it says of each frame, and holds that to the rule.
//!
//! What enters: a plan; frames and signals by the device. What leaves: [`NicProbed`]. The device is not put back: the guest
//! ends with the experiment.

use super::document::{Caught, CpuReport, NicProbed, RoundReport};
use super::plan::{NicPlan, NicRound};
use super::signal::Signal;
use corelane_host::bed::switch_on;
use corelane_host::ethtool::{Field, FlowType, change};
use corelane_host::explain::{Ends, Flow, explain};
use corelane_host::inventory::{Device, Inventory, inventory};
use corelane_link::packet_socket::{self, PacketLink, PacketOptions};
use corelane_link::{FrameLayout, Link};
use corelane_packet::verify::{Observed, Queue, Verifier};
use corelane_packet::{Dissection, HashTypes, Transport};
use corelane_rss::{HashFields, Protocol, Toeplitz};
use corelane_worker::received::{HEAD_BYTES, HeadReceiver, ReceivedHead};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// How long nothing may have come before the guest says what it has seen.
const QUIET: Duration = Duration::from_millis(5);

/// How often it says so again, should that have been lost.
const AGAIN: Duration = Duration::from_millis(100);

/// How long the whole may take; the guest's own limit is above it.
const LIMIT: Duration = Duration::from_secs(90);

/// Carries out the guest's side of a plan.
///
/// # Errors
/// In words: what the device refused, or that the host went silent.
pub fn probe(plan: &NicPlan) -> Result<NicProbed, String> {
    let device = plan.device.as_str();
    switch_on(device).map_err(words)?;
    let options = PacketOptions {
        queues: 1,
        fanout: packet_socket::Fanout::default(),
        layout: FrameLayout::default(),
        promiscuous: false,
    };
    let mut signals = packet_socket::open(device, &options).map_err(words)?;
    let signals = signals.first_mut().ok_or("no packet socket was opened")?;
    let mut receiver = HeadReceiver::new(device).map_err(words)?;
    let started = Instant::now();
    let mut rounds = Vec::new();
    let mut found = None;
    for (number, stage) in plan.stages().into_iter().enumerate() {
        let round = stage.round;
        set(device, round)?;
        let inventory = inventory();
        let own = inventory.device(device).ok_or("the device has gone")?;
        let mut heard = Heard::new(round, own, &inventory, &receiver);
        listen(number as u32, &mut heard, &mut receiver, signals, started + LIMIT)?;
        if stage.counts {
            rounds.push(heard.report(&receiver));
        }
        found = Some(probed(own, &inventory));
    }
    let mut probed = found.ok_or("the plan has no round")?;
    probed.rounds = rounds;
    Ok(probed)
}

fn words(error: impl Display) -> String {
    error.to_string()
}

fn probed(device: &Device, inventory: &Inventory) -> NicProbed {
    let driver = device.driver.value.as_ref();
    NicProbed {
        kernel: inventory.machine.kernel.clone().unwrap_or_default(),
        driver: driver.map(|driver| driver.name.clone()).unwrap_or_default(),
        queues: device.receive_queues.len(),
        rounds: Vec::new(),
    }
}

/// Sets key, table and fields, and has hashes handed up.
fn set(device: &str, round: &NicRound) -> Result<(), String> {
    change::set_rss(device, Some(&round.key), Some(&round.table)).map_err(words)?;
    for (flow_type, fields) in fields(round) {
        change::set_fields(device, flow_type, fields).map_err(words)?;
    }
    change::set_receive_hashing(device).map_err(words)
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

/// Hears frames until the host asks for another round.
fn listen(
    number: u32,
    heard: &mut Heard<'_>,
    receiver: &mut HeadReceiver,
    signals: &mut PacketLink,
    deadline: Instant,
) -> Result<(), String> {
    let (mut changed, mut told) = (Instant::now(), None);
    loop {
        let now = Instant::now();
        let before = heard.frames();
        receiver
            .drain(|head, received| heard.hear(head, received))
            .map_err(words)?;
        let seen = heard.frames();
        if seen != before {
            changed = now;
        }
        let due = match told {
            Some((count, at)) => count != seen && now - changed > QUIET || now - at > AGAIN,
            None => true,
        };
        if due {
            let signal = Signal {
                round: number,
                seen: seen as u32,
            };
            signals
                .send([&signal.frame(false)[..]].into_iter())
                .map_err(words)?;
            told = Some((seen, now));
        }
        let asked = signals.receive(1024).map_err(words)?;
        let asked = asked
            .iter()
            .filter_map(Signal::read)
            .map(|signal| signal.round)
            .max();
        if asked.is_some_and(|asked| asked > number) {
            return Ok(());
        }
        if now > deadline {
            return Err(format!(
                "the host went silent in round {number}, after {seen} frames"
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// What was heard of one round.
struct Heard<'a> {
    inventory: &'a Inventory,
    toeplitz: Toeplitz,
    hash_types: HashTypes,
    right: Verifier,
    wrong_key: Verifier,
    wrong_table: Verifier,
    /// What the receiver had counted before.
    before: (u64, u64),
    device: &'a Device,
    round: &'a NicRound,
    /// Frames by queue, the CPU named and the CPU seen.
    cpus: BTreeMap<(Option<u16>, Option<u32>, u32), u64>,
    report: RoundReport,
}

impl<'a> Heard<'a> {
    fn new(
        round: &'a NicRound,
        device: &'a Device,
        inventory: &'a Inventory,
        receiver: &HeadReceiver,
    ) -> Self {
        let mut entries_by_queue = vec![0; round.table.buckets()];
        for bucket in round.table.entries() {
            entries_by_queue[bucket.index()] += 1;
        }
        Self {
            inventory,
            toeplitz: Toeplitz::new(&round.key),
            hash_types: round.rule().hash_types,
            right: Verifier::new(&round.rule()),
            wrong_key: Verifier::new(&round.wrong_key()),
            wrong_table: Verifier::new(&round.wrong_table()),
            before: (receiver.too_short(), receiver.incomplete()),
            device,
            round,
            cpus: BTreeMap::new(),
            report: RoundReport {
                key: round.key.to_string(),
                reads_back: reads_back(round, device),
                entries_by_queue,
                ..RoundReport::default()
            },
        }
    }

    fn frames(&self) -> u64 {
        self.report.frames
    }

    /// Takes a frame. Those that are not the experiment's carry no IP between documentation networks, and are passed over.
    fn hear(&mut self, head: &[u8; HEAD_BYTES], received: ReceivedHead) {
        if Signal::read(head).is_some() {
            return;
        }
        let Some((dissection, input)) = Dissection::of(head)
            .ok()
            .and_then(|dissection| Some((dissection, dissection.rss_input(self.hash_types)?)))
        else {
            return;
        };
        let observed = Observed {
            hash: Some(received.hash),
            queue: received.queue.map(Queue),
            sequence: None,
        };
        for verifier in [&mut self.right, &mut self.wrong_key, &mut self.wrong_table] {
            verifier.frame(head, observed);
        }
        let report = &mut self.report;
        report.frames += 1;
        report.without_hash += u64::from(received.hash == 0);
        let hash = self.toeplitz.hash_input(input.as_bytes());
        let of_type = report
            .types
            .entry(input.hash_type().name().to_owned())
            .or_default();
        of_type.frames += 1;
        of_type.right_hash += u64::from(received.hash == hash);
        if let Some(queue) = received.queue {
            *report.frames_by_queue.entry(queue).or_default() += 1;
            of_type.right_queue += u64::from(Queue(queue).serves(self.round.table.bucket(hash)));
        }
        let named = explained_cpu(self.inventory, self.device, &dissection);
        let seen = u32::from(received.cpu);
        report.right_cpu += u64::from(named == Some(seen));
        *self.cpus.entry((received.queue, named, seen)).or_default() += 1;
    }

    /// The verifier's counts have to agree with those by type, or one of the two is wrong.
    fn report(mut self, receiver: &HeadReceiver) -> RoundReport {
        let right = self.right.report();
        let counted: u64 = self
            .report
            .types
            .values()
            .map(|of_type| of_type.right_queue)
            .sum();
        if right.frames - right.misplaced != counted {
            self.report.types.clear();
        }
        let caught = |verifier: &Verifier| {
            let report = verifier.report();
            Caught {
                misplaced: report.misplaced,
                right_hash: report.buckets.iter().filter_map(|bucket| bucket.right_hash).sum(),
            }
        };
        self.report.wrong_key = caught(&self.wrong_key);
        self.report.wrong_table = caught(&self.wrong_table);
        let cpus = self.cpus.iter().map(|((queue, named, seen), frames)| CpuReport {
            queue: *queue,
            named: *named,
            seen: *seen,
            frames: *frames,
        });
        self.report.cpus = cpus.collect();
        self.report.too_short = receiver.too_short() - self.before.0;
        self.report.incomplete = receiver.incomplete().saturating_sub(self.before.1);
        self.report
    }
}

/// Whether the device says of itself what it was set to.
fn reads_back(round: &NicRound, device: &Device) -> bool {
    let Some(rss) = &device.rss.value else {
        return false;
    };
    let told = device.fields.value.as_ref();
    let same = |(flow_type, fields): (FlowType, &[Field])| {
        told.and_then(|told| told.get(&flow_type))
            .is_some_and(|told| told == fields)
    };
    rss.key().as_ref() == Ok(&round.key)
        && rss.table().as_ref() == Ok(&round.table)
        && fields(round).into_iter().all(same)
}

/// The CPU that `explain` names for a frame.
fn explained_cpu(inventory: &Inventory, device: &Device, dissection: &Dissection<'_>) -> Option<u32> {
    let flow = Flow {
        tuple: dissection.tuple(),
        protocol: match dissection.transport() {
            Transport::Tcp(_) => Protocol::Tcp,
            Transport::Udp(_) => Protocol::Udp,
            _ => Protocol::Other,
        },
        device: Some(device.name.clone()),
        sender_cpu: None,
    };
    let explanation = explain(inventory, &flow, &Ends::default()).ok()?;
    let direction = explanation.directions.first()?;
    match dissection.is_part() {
        true => direction.fragments.as_ref()?.cpu,
        false => direction.cpu,
    }
}
