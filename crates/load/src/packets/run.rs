//! Runs a packet generator: opens the link, assigns queues to workers, and merges their results.

use super::document::{FrameCounts, PacketsLoadReport, StreamLoadReport};
use super::generator::{Sender, Source, Stream};
use super::metrics::{self, LiveFrames};
use super::plan::{PacketsError, PacketsPlan, Traffic};
use super::replay::Replay;
use crate::account::merge;
use crate::document::{LoadReport, RunOutcome};
use crate::live::{LiveWorkers, Snapshot};
use crate::pace::{Pace, Schedule};
use crate::team::Team;
use crate::{Generator, Moment, Needs};
use corelane_link::{AnyLink, BareLink, Injected, Link, LinkError, Opener, QueueLoop, share_out, too_long};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_worker::crew::CrewEvent;
use corelane_worker::{Time, WorkerSettings};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer waits sleep; timers are accurate to about 50 µs (`timer_slack_ns`, proc(5)).
const SLEEP_OVER: Duration = Duration::from_micros(200);
/// Longest sleep, so that live data is there when it is requested.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Time limit at the end for frames that the kernel has not sent yet.
const DRAIN: Duration = Duration::from_millis(20);
/// Polling interval for frames that faults hold back.
const LOOK_AT_HELD: Duration = Duration::from_micros(300);
/// Time limit at the end for held frames that find the link full.
const PATIENCE: Duration = Duration::from_secs(1);

/// A running packet generator. Dropping it stops it.
pub struct PacketsLoad {
    plan: PacketsPlan,
    link: Opener,
    /// When the first frame is due.
    start: Time,
    team: Team<LiveFrames, Vec<Outcome>>,
}

/// Results of one queue.
struct Outcome {
    queue: String,
    sender: Sender,
    refused: u64,
    /// Why the worker ended early; at one of its queues.
    failure: Option<LinkError>,
}

impl Generator for PacketsLoad {
    type Plan = PacketsPlan;
    type Report = PacketsLoadReport;
    type Error = PacketsError;
    type Counts = LiveFrames;
    const KIND: &'static str = "packets";
    const COUNTED: &'static [Metric<LiveFrames>] = LiveFrames::ALL;
    const TIMED: Option<&'static Metric<Histogram>> = None;
    const FAILED: &'static [Metric<u64>] = &metrics::FAILED;

    fn needs(_plan: &PacketsPlan) -> Needs {
        Needs::default()
    }

    fn start(plan: Self::Plan) -> Result<Self, PacketsError> {
        let spec = plan.spec()?;
        let delay = spec.faults.map_or(Duration::ZERO, |faults| faults.delay);
        if let Traffic::Replayed(replay) = &plan.traffic
            && spec.overwrites(&replay.file)
        {
            return Err(PacketsError::Overwritten {
                file: replay.file.clone(),
            });
        }
        let link = Opener::new(spec);
        let queues = link.open()?;
        // Slightly in the future, so that no stream starts late.
        let start = Time::now() + Duration::from_millis(1);
        let used = match plan.traffic {
            Traffic::Replayed(_) => 1,
            Traffic::Generated(_) => queues.len(),
        };
        let mut sources = Vec::with_capacity(used);
        for (number, queue) in queues.into_iter().take(used).enumerate() {
            let sender = sender(&plan, number, used, start, &queue)?;
            sources.push((queue, sender));
        }
        let workers = plan.cpus.len().clamp(1, used);
        let cpus = (0..workers).map(|number| plan.cpus.get(number).copied().unwrap_or(0));
        let mut team = Team::on(cpus);
        let seconds = plan.duration_s.map(Duration::from_secs_f64);
        let end = seconds.map_or(Time::NEVER, |seconds| start + seconds);
        for (number, share) in share_out(sources, workers).into_iter().enumerate() {
            let stop = team.crew.stop_flag();
            let settings = WorkerSettings::new(format!("packets {number}"), team.live[number].cpu);
            let worker = SendWorker {
                queues: share,
                end,
                until: Instant::now().checked_add(end.since(Time::now())),
                is_over: false,
                live: Arc::clone(&team.live),
                number,
            };
            let body = move || Ok(worker.send(delay, &stop));
            team.crew.spawn(settings, body)?;
        }
        Ok(PacketsLoad {
            plan,
            link,
            start,
            team,
        })
    }

    fn wait(&mut self, time: Duration) -> bool {
        self.team.crew.wait(time) == CrewEvent::AllEnded
    }

    fn reached(&self) -> Option<Moment> {
        self.team.crew.is_finished().then_some(Moment::Sent)
    }

    fn live_workers(&self) -> &LiveWorkers<LiveFrames> {
        &self.team.live
    }

    fn snapshot(&mut self) -> Snapshot {
        let snapshot = self.team.snapshot(None);
        // Workers publish what they count with their snapshots only.
        let sent = || snapshot.counts.get("sent").copied().unwrap_or(0);
        let at_s = snapshot.at.since(self.start).as_secs_f64();
        self.team.over_time.count(at_s, sent);
        Snapshot {
            stage: "sending".to_owned(),
            no_times_because: Some("frames are not answered"),
            ..snapshot
        }
    }

    fn stop(&self) {
        self.team.crew.stop();
    }

    fn finish(mut self) -> Result<PacketsLoadReport, PacketsError> {
        let mut outcomes = Vec::new();
        for (number, sent) in self.team.crew.finish()?.into_iter().enumerate() {
            let cpu = self.team.live[number].cpu;
            outcomes.extend(sent.into_iter().map(|outcome| (cpu, outcome)));
        }
        outcomes.sort_by_key(|(_, outcome)| outcome.stream());
        let mut report = report(&self.plan, &outcomes, self.link.injected());
        report.outcome.over_time = self.team.over_time.ended(report.sending_s, &Histogram::new());
        Ok(report)
    }
}

/// The sender of queue `number` of `queues`.
fn sender(
    plan: &PacketsPlan,
    number: usize,
    queues: usize,
    start: Time,
    link: &AnyLink,
) -> Result<Sender, PacketsError> {
    let generated = match &plan.traffic {
        Traffic::Replayed(replay) => {
            let replay = Source::Replay(Box::new(Replay::open(replay)?));
            return Ok(Sender::new(replay, plan.count, plan.burst));
        }
        Traffic::Generated(generated) => generated,
    };
    let schedule = match generated.pace {
        Pace::Flood => None,
        Pace::Rate { per_second } => Some(Schedule::new(start, per_second, number, queues)),
        Pace::Window { .. } => return Err(PacketsError::Window),
    };
    let stream = Stream::new(generated, number, schedule)?;
    if generated.sizes.longest() > link.longest() {
        return Err(PacketsError::Long {
            bytes: generated.sizes.longest(),
            link: link.name().to_owned(),
            longest: link.longest(),
        });
    }
    // The first queues send the remainder.
    let count = plan
        .count
        .map(|count| count / queues as u64 + u64::from((number as u64) < count % queues as u64));
    Ok(Sender::new(Source::Stream(Box::new(stream)), count, plan.burst))
}

/// The queues of a worker, each with its sender.
struct SendWorker {
    queues: Vec<(AnyLink, Sender)>,
    /// The end of the plan's duration, by both clocks' types.
    end: Time,
    until: Option<Instant>,
    is_over: bool,
    live: LiveWorkers<LiveFrames>,
    number: usize,
}

impl SendWorker {
    /// Runs until the end. If a link fails, all workers stop, and what was sent is reported.
    fn send(mut self, delay: Duration, stop: &AtomicBool) -> Vec<Outcome> {
        let mut failure = self.run(stop).err();
        let over = Time::now().min(self.end);
        let mut outcomes = Vec::with_capacity(self.queues.len());
        for (mut link, mut sender) in self.queues {
            failure = failure.or_else(|| drain(&mut link, delay).err());
            if failure.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            sender.end(over);
            outcomes.push(Outcome {
                queue: link.name().to_owned(),
                refused: link.tally().send_failed,
                sender,
                failure: None,
            });
        }
        if let Some(first) = outcomes.first_mut() {
            first.failure = failure;
        }
        let queues = outcomes.iter().map(|outcome| (&outcome.sender, outcome.refused));
        let live = &self.live[self.number];
        live.snapshot.close(snapshot(&live.counts, queues));
        outcomes
    }
}

impl QueueLoop for SendWorker {
    fn turn(&mut self, now: Instant) -> Result<usize, LinkError> {
        self.is_over = self.until.is_some_and(|end| now >= end)
            || self.queues.iter().all(|(_, sender)| sender.is_done());
        if self.is_over {
            return Ok(0);
        }
        let mut frames = 0;
        for (link, sender) in &mut self.queues {
            frames += sender.turn(link)?;
        }
        let live = &self.live[self.number];
        live.snapshot.publish(|| {
            let queues = self.queues.iter();
            snapshot(
                &live.counts,
                queues.map(|(link, sender)| (sender, link.tally().send_failed)),
            )
        });
        Ok(frames)
    }

    fn rest(&mut self) -> Result<(), LinkError> {
        self.queues.iter_mut().try_for_each(|(link, _)| link.check())
    }

    fn is_over(&self, _stopping: bool) -> bool {
        self.is_over
    }

    /// Until the next frame is due.
    fn wait(&mut self) -> Result<bool, LinkError> {
        self.rest()?;
        let now = Time::now();
        let due = self.queues.iter().map(|(_, sender)| sender.next_due(now)).min();
        let due = due.unwrap_or(now).min(self.end);
        // Frames held back by a fault leave when they are due, not with the next generated frame.
        let holds = self.queues.iter().any(|(link, _)| link.held() > 0);
        let due = due.min(now + if holds { LOOK_AT_HELD } else { LONGEST_SLEEP });
        let wait = due.since(Time::now());
        if wait > SLEEP_OVER {
            thread::sleep(wait - SLEEP_OVER / 2);
        } else {
            thread::yield_now();
        }
        Ok(false)
    }
}

/// Drains the link at the end: first the frames held back by faults, for up to `delay` while they keep leaving.
fn drain(link: &mut AnyLink, delay: Duration) -> Result<(), LinkError> {
    let mut left = link.held();
    let mut patience = Time::now() + delay + PATIENCE;
    while left > 0 && Time::now() < patience {
        link.check()?;
        if link.held() < left {
            left = link.held();
            patience = Time::now() + delay + PATIENCE;
        }
        thread::sleep(LOOK_AT_HELD);
    }
    let drained = Time::now() + DRAIN;
    while matches!(link.inner(), BareLink::Packet(_)) && Time::now() < drained {
        link.check()?;
        thread::sleep(Duration::from_millis(1));
    }
    link.check()
}

/// The live data of a worker's queues, each with the frames that its device refused; publishes the counts.
fn snapshot<'a>(live: &LiveFrames, queues: impl Iterator<Item = (&'a Sender, u64)>) -> Snapshot {
    let (mut sent, mut sent_bytes, mut not_sent) = (0, 0, BTreeMap::new());
    for (sender, refused) in queues {
        sent += sender.counts.sent;
        sent_bytes += sender.counts.sent_bytes;
        not_sent.add(&dropped(sender, refused));
    }
    not_sent.retain(|_, count| *count > 0);
    live.sent.set(sent);
    live.sent_bytes.set(sent_bytes);
    Snapshot {
        errors: not_sent,
        ..Snapshot::of(LiveFrames::ALL, live)
    }
}

/// Frames of a queue that were not sent, by reason.
fn dropped(sender: &Sender, refused: u64) -> BTreeMap<String, u64> {
    let (oversized, not_read) = match &sender.source {
        Source::Stream(_) => (0, 0),
        Source::Replay(replay) => (replay.oversized, replay.not_read()),
    };
    BTreeMap::from([
        ("oversized".to_owned(), oversized),
        ("not_read".to_owned(), not_read),
        ("refused".to_owned(), refused),
    ])
}

impl Outcome {
    /// Stream number, and number of flows that take turns in it.
    fn stream(&self) -> Option<(u16, Option<usize>)> {
        match &self.sender.source {
            Source::Stream(stream) => Some((stream.number, stream.flows.count())),
            Source::Replay(_) => None,
        }
    }

    fn counts(&self) -> FrameCounts {
        FrameCounts {
            dropped: dropped(&self.sender, self.refused),
            sent_cut_short: match &self.sender.source {
                Source::Stream(_) => 0,
                Source::Replay(replay) => replay.cut_short,
            },
            ..self.sender.counts.clone()
        }
    }
}

fn report(plan: &PacketsPlan, outcomes: &[(u32, Outcome)], injected: Option<Injected>) -> PacketsLoadReport {
    let all = || outcomes.iter().map(|(_, outcome)| outcome);
    let first = all().filter_map(|outcome| outcome.sender.first).min();
    let last = all().filter_map(|outcome| outcome.sender.last).max();
    let sending = first
        .zip(last)
        .map_or(Duration::ZERO, |(first, last)| last.since(first));
    let sending_s = sending.as_secs_f64();
    let counts = FrameCounts::sum(all().map(Outcome::counts));
    let failed_because = all().find_map(|outcome| Some(outcome.failure.as_ref()?.to_string()));
    let limited_by = match (counts.unsent, counts.waits_for_room) {
        // The frames that were due when a link failed are no sign of a limit.
        _ if failed_because.is_some() => None,
        (0, _) => None,
        (_, 0) => Some("the generator's CPU: frames were due faster than it could generate them".to_owned()),
        _ => Some("the link: it was full when frames were due".to_owned()),
    };
    let streams = outcomes.iter().map(|(cpu, outcome)| StreamLoadReport {
        stream: outcome.stream().map(|(number, _)| number),
        queue: outcome.queue.clone(),
        cpu: *cpu,
        flows: outcome.stream().and_then(|(_, flows)| flows),
        sent: outcome.sender.counts.sent,
        sent_bytes: outcome.sender.counts.sent_bytes,
    });
    // Those of a capture; generated ones that are too long are refused before.
    let oversized = counts
        .dropped
        .get("oversized")
        .copied()
        .filter(|count| *count > 0);
    let oversized = oversized.map(|count| too_long(&plan.link, count, ["DEVICE"].into_iter()));
    PacketsLoadReport {
        schema: PacketsLoadReport::SCHEMA.to_owned(),
        link: plan.link.clone(),
        sending_s,
        frames_per_s: (sending_s > 0.0).then(|| counts.sent as f64 / sending_s),
        counts,
        faults: injected.map(|injected| injected.by_name()),
        schedule_lag: merge(all().map(|outcome| &outcome.sender.lag)).1,
        outcome: RunOutcome {
            failed_because,
            limited_by,
            notes: oversized.into_iter().collect(),
            ..RunOutcome::default()
        },
        streams: streams.collect(),
    }
}
