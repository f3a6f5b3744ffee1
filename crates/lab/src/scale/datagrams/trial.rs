//! One trial of one step: a server and its clients as fresh processes in the bed, a warm-up that is not counted, and
//! readings before and after; between them, the requested observations.

use super::account::{self, Evidence, Spent};
use super::document::{Datagrams, SCHEMA, ScaleReport, Shape, Trial};
use super::places::{self, Framing};
use super::plan::ScalePlan;
use super::verdict;
use crate::child::{LoadProcess, ServerProcess};
use crate::document::Head;
use crate::error::Refusal;
use crate::experiment::RunningTrial;
use crate::observe::Observation;
use crate::observed::Observed;
use crate::scale::experiment::ScalingExperiment;
use crate::scale::quota::{QuotaLimits, Quotas};
use crate::scale::sides::{SideReading, Sides};
use crate::scale::steps::Report;
use corelane_host::HostError;
use corelane_host::bed::{Bed, BedKind};
use corelane_load::sources::SourceError;
use corelane_load::udp::{UdpLoad, UdpLoadError};
use corelane_measure::counters::Counters;
use corelane_observe::profile::Processes;
use corelane_serve::udp::{DropCause, Mode, UdpServed, UdpServer};
use std::path::PathBuf;
use std::time::Duration;

/// Counts are final after this time without change if the workers have counted every datagram that the kernel delivered.
const SETTLED_WHEN_COMPLETE: Duration = Duration::from_millis(10);

/// Answers are sent after this time without change, and on loopback counts are final.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

/// Where the counts cannot be compared with the kernel's, they are final after this time without change: on a busy
/// machine a worker may wait this long for its CPU.
const SETTLED_UNSEEN: Duration = Duration::from_millis(400);

/// A scaling experiment, ready to run.
pub struct Scale {
    /// The plan.
    pub plan: ScalePlan,
    /// Where.
    pub bed: Bed,
    /// The executable of servers and generators: this program.
    pub program: PathBuf,
    /// Facts about the run for its document.
    pub facts: Head,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

impl ScalingExperiment for Scale {
    type Kind = Datagrams;

    fn planned(&self) -> ScaleReport {
        let (plan, head) = (&self.plan, self.facts.begun(SCHEMA, Some((&self.bed).into())));
        let begun = (head, Datagrams::default());
        Report::planned(begun, plan, &plan.steps, &plan.request.settings.steering)
    }

    fn check(&self, shape: &Shape) -> anyhow::Result<()> {
        match self.plan.load(shape, self.descriptor_limit) {
            Err(UdpLoadError::Sources(error @ SourceError::Unreached { .. })) => {
                Err(Refusal::new("--buckets", error).into())
            }
            load => Ok(load.map(drop)?),
        }
    }

    fn measure(&mut self, running: &mut RunningTrial<'_>) -> anyhow::Result<(Trial, Option<Observed>)> {
        let (plan, bed) = (&self.plan, &self.bed);
        let (turn, watch) = (running.turn, running.watch());
        let step = &plan.steps[turn.step];
        let load = plan.load(step, self.descriptor_limit)?;
        let program = &self.program;
        plan.prepare(step, bed)?;
        let before = SideReading::take(&bed.server)?;
        let serve = plan.server(step);
        let mut server = ServerProcess::<UdpServer>::start(program, &bed.server, &serve, watch.interrupt)?;
        LoadProcess::<UdpLoad>::start(program, &bed.client)?.run(
            &plan.warm_up(&load),
            watch.naming(None),
            |_| (),
        )?;
        running.begun();
        let framing = Framing::of(plan);
        let settle = |server: &mut _| settle((bed, &before), (&framing, step.mode), server);
        let generator = LoadProcess::<UdpLoad>::start(program, &bed.client)?;
        // Last, so that nothing can arrive between the server's counts and the kernel's.
        let served_before = settle(&mut server)?;
        let (serving, generating) = (server.pid(), generator.pid());
        let processes = Processes {
            server: vec![serving],
            generator: generating,
        };
        let observation = Observation::start(plan.request.settings.observe, plan.cpus(step), &processes);
        let sides_before = Sides::take(bed)?;
        let spent_before = Spent::take(serving, generating)?;
        let quotas_before = Quotas::read(serving, generating);
        let mut quotas = QuotaLimits::default();
        let mut spent = Err(HostError::Missing {
            place: "the generator",
            what: "last datagram".to_owned(),
        });
        let loaded = generator.run(&load, watch, |_| {
            spent = Spent::take(serving, generating);
            quotas = Quotas::read(serving, generating).limits_since(&quotas_before);
        })?;
        // CPU time spent on lost answers and on settling is excluded from the trial.
        let spent = spent?.since(&spent_before);
        let clock = account::clock(plan.request.settings.steering.cpus[0]);
        let seen = observation.finish(turn.round);
        let served = settle(&mut server)?;
        let evidence = Evidence {
            sides: Sides::take(bed)?.since(&sides_before),
            spent: &spent,
            clock: &clock,
            served_before: &served_before,
            served: &served,
            loaded: &loaded,
            quotas: &quotas,
            apart: bed.kind() != BedKind::Loopback,
        };
        running.clocked(spent.cpus.clone());
        let mut trial = account::trial(plan, turn, &evidence);
        places::count(&mut trial, plan, &evidence);
        Ok((trial, seen))
    }

    fn judge(&self, report: &mut ScaleReport) {
        report.limit = verdict::limit(report, &self.plan);
    }
}

/// Waits until the server has read and counted what its host received since `before`, when it was started, and its counts
/// are stable; returns them.
fn settle(
    (bed, before): (&Bed, &SideReading),
    (framing, mode): (&Framing, Mode),
    server: &mut ServerProcess<UdpServer>,
) -> anyhow::Result<UdpServed> {
    let counts = |served: &UdpServed| {
        let given_up = served.dropped().get(&DropCause::MailboxFull).copied();
        (served.seen() + given_up.unwrap_or_default(), served.answered())
    };
    server.settled(counts, |&(read, answered), still| {
        // Loopback counters cover all programs since boot: they do not show what is queued here.
        if bed.kind() == BedKind::Loopback {
            return Ok(still > SETTLED_AFTER);
        }
        let reading = SideReading::take(&bed.server)?.since(before);
        let is_read = framing.queued(&reading) == 0;
        // The kernel counts a merged frame once.
        if framing.merged_in_sockets {
            return Ok(is_read && still > SETTLED_UNSEEN);
        }
        let is_counted = is_read && read == reading.udp.total().in_datagrams;
        let is_answered = mode == Mode::Sink || answered == read;
        Ok(is_counted && (is_answered && still > SETTLED_WHEN_COMPLETE || still > SETTLED_AFTER))
    })
}
