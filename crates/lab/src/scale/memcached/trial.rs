//! One trial of one step: a server as a fresh process in the bed, clients that store every key, and clients that measure; readings before
//! and after.

use super::document::{Caches, MemcachedScaleReport, OF_DATAGRAMS, SCHEMA, Shape, Transport};
use super::metrics::Trial;
use super::plan::MemcachedScalePlan;
use super::verdict;
use crate::child::{LoadProcess, ServerProcess, Subject};
use crate::document::{Head, as_json};
use crate::error::Refusal;
use crate::experiment::RunningTrial;
use crate::observe::Observation;
use crate::observed::Observed;
use crate::scale::counts::Counts;
use crate::scale::experiment::ScalingExperiment;
use crate::scale::quota::{QuotaLimits, Quotas};
use crate::scale::sides::Sides;
use crate::scale::steps::Report;
use crate::trial::{Trial as _, TrialHead, cpu_shares};
use corelane_host::HostError;
use corelane_host::bed::{Bed, BedKind};
use corelane_host::counters::{CpuTimes, Family};
use corelane_load::memcached::{MemcachedCounts, MemcachedLoad, MemcachedLoadReport};
use corelane_load::memcached::{MemcachedUdpLoad, MemcachedUdpLoadReport};
use corelane_load::{Generator, OwnCounts as _, RunOutcome};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::share::Share;
use corelane_observe::profile::Processes;
use corelane_serve::Server;
use corelane_serve::memcached::MemcachedServer;
use std::path::PathBuf;
use std::time::Duration;

/// A scaling experiment, ready to run.
pub struct MemcachedScale {
    /// The plan.
    pub plan: MemcachedScalePlan,
    /// Where.
    pub bed: Bed,
    /// The executable of servers and generators: this program.
    pub program: PathBuf,
    /// Facts about the run for its document.
    pub facts: Head,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

impl ScalingExperiment for MemcachedScale {
    type Kind = Caches;

    fn planned(&self) -> MemcachedScaleReport {
        let (plan, head) = (&self.plan, self.facts.begun(SCHEMA, Some((&self.bed).into())));
        let kind = Caches {
            transport: plan.request.transport,
            subject: plan.request.subject.clone(),
            left_out: plan.left_out.clone(),
        };
        Report::planned((head, kind), plan, &plan.steps, &plan.request.settings.steering)
    }

    fn check(&self, step: &Shape) -> anyhow::Result<()> {
        let checked = match self.plan.request.transport {
            Transport::Udp => self.plan.datagrams(step, self.descriptor_limit).map(drop),
            Transport::Tcp => self.plan.streams(step, self.descriptor_limit).map(drop),
        };
        checked.map_err(|error| Refusal::new("--buckets", error).into())
    }

    fn measure(&mut self, running: &mut RunningTrial<'_>) -> anyhow::Result<(Trial, Option<Observed>)> {
        let step = &self.plan.steps[running.turn.step];
        match self.plan.subject(step) {
            Some(subject) => self.measure_server::<Subject>(running, &subject, |_| None),
            None => self.measure_server::<MemcachedServer>(running, &self.plan.ours(), |served| {
                Some(Served {
                    datagrams: served.sum(|bucket| bucket.datagrams_sent),
                    local: served.sum(|bucket| bucket.events.local),
                    asked: served.sum(|bucket| bucket.events.locality().samples),
                })
            }),
        }
    }

    fn judge(&self, report: &mut MemcachedScaleReport) {
        report.limit = verdict::limit(report);
    }
}

corelane_measure::counters! {
    /// CPU time up to one moment, or between two.
    #[derive(Debug, Clone)]
    struct Spent {
        cpus: CpuTimes,
        server_ns: u64,
        clients_ns: u64,
    }
}

corelane_measure::counters! {
    /// What our server counted up to one moment, or between two.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct Served {
        datagrams: u64,
        local: u64,
        asked: u64,
    }
}

/// Counts are stable after this time without change: a worker publishes them every 20 ms.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

impl Served {
    /// The share of local requests.
    fn local(self) -> Option<Share> {
        (self.asked > 0).then_some(Share {
            hits: self.local,
            samples: self.asked,
        })
    }
}

/// A server of a trial: its process, whether that is the keeper of others, and what it counts, if it does.
struct Measured<'a> {
    process: u32,
    keeps: bool,
    served: &'a mut dyn FnMut() -> anyhow::Result<Option<Served>>,
}

impl Spent {
    /// Reads the CPUs, the server, of whose processes the first may be the keeper alone, and the clients.
    fn take((server, keeps): (u32, bool), clients: u32) -> Result<Self, HostError> {
        let server = match keeps {
            true => Family::below(server)?,
            false => Family::read(server)?,
        };
        Ok(Self {
            cpus: CpuTimes::read()?,
            server_ns: server.cpu_ns(),
            clients_ns: Family::read(clients)?.cpu_ns(),
        })
    }
}

impl MemcachedScale {
    /// Runs a server, fills it and measures it.
    fn measure_server<S: Server>(
        &self,
        running: &mut RunningTrial<'_>,
        serve: &S::Plan,
        counts: fn(&S::Served) -> Option<Served>,
    ) -> anyhow::Result<(Trial, Option<Observed>)> {
        let (plan, limit) = (&self.plan, self.descriptor_limit);
        let step = &plan.steps[running.turn.step];
        let watch = running.watch();
        let mut server = ServerProcess::<S>::start(&self.program, &self.bed.server, serve, watch.interrupt)?;
        let (process, keeps) = (server.pid(), S::STARTS_PROCESSES);
        let mut served = || {
            let served = server.settled(counts, |counts, still| {
                Ok(counts.is_none() || still > SETTLED_AFTER)
            });
            Ok(counts(&served?))
        };
        let server = Measured {
            process,
            keeps,
            served: &mut served,
        };
        match plan.request.transport {
            Transport::Udp => {
                let load = plan.datagrams(step, limit)?;
                let fill = load.clone().filling();
                self.run::<MemcachedUdpLoad>(running, server, (&fill, &load), of_datagrams)
            }
            Transport::Tcp => {
                let load = plan.streams(step, limit)?;
                let fill = load.clone().filling();
                self.run::<MemcachedLoad>(running, server, (&fill, &load), of_streams)
            }
        }
    }

    /// Stores every key, then measures.
    fn run<G: Generator>(
        &self,
        running: &mut RunningTrial<'_>,
        server: Measured<'_>,
        (fill, load): (&G::Plan, &G::Plan),
        counted: fn(G::Report) -> Counted,
    ) -> anyhow::Result<(Trial, Option<Observed>)> {
        let (plan, bed, program) = (&self.plan, &self.bed, &self.program);
        let (turn, watch, of_server) = (running.turn, running.watch(), (server.process, server.keeps));
        let step = &plan.steps[turn.step];
        LoadProcess::<G>::start(program, &bed.client)?.run(fill, watch.naming(None), |_| ())?;
        running.begun();
        let generator = LoadProcess::<G>::start(program, &bed.client)?;
        let pid = generator.pid();
        let processes = Processes {
            server: vec![of_server.0],
            generator: pid,
        };
        let observation = Observation::start(plan.request.settings.observe, plan.cpus(step), &processes);
        let served_before = (server.served)()?;
        let before = (Sides::take(bed)?, Spent::take(of_server, pid)?);
        let quotas_before = Quotas::read(of_server.0, pid);
        let mut quotas = QuotaLimits::default();
        let mut spent = Err(HostError::Missing {
            place: "the generator",
            what: "last request".to_owned(),
        });
        let loaded = counted(generator.run(load, watch, |_| {
            spent = Spent::take(of_server, pid);
            quotas = Quotas::read(of_server.0, pid).limits_since(&quotas_before);
        })?);
        let seen = observation.finish(turn.round);
        let sides = Sides::take(bed)?.since(&before.0);
        let spent = spent?.since(&before.1);
        let served = (server.served)()?.zip(served_before);
        let served = served.map(|(after, before)| after.since(&before));
        running.clocked(spent.cpus.clone());
        let counted = (&sides, &spent, served);
        let mut trial = self.account(step, loaded.trial, counted);
        (trial.head.step, trial.head.round) = (turn.step, turn.round);
        let failed = loaded.outcome.failed_because.clone();
        quotas.end(&mut trial.head, &loaded.outcome, failed);
        Ok((trial, seen))
    }

    /// A trial as the clients counted it, with what the server's end says.
    fn account(
        &self,
        step: &Shape,
        loaded: Trial,
        (sides, spent, served): (&Sides, &Spent, Option<Served>),
    ) -> Trial {
        let plan = &self.plan;
        let apart = plan.request.transport == Transport::Udp && self.bed.kind() != BedKind::Loopback;
        let one_by_one = apart && !plan.request.client_io.coalesce;
        let udp = sides.server.udp.total();
        let mut trial = Trial {
            counts: Counts {
                received: one_by_one.then(|| sides.server.received()),
                seen: one_by_one.then_some(udp.in_datagrams),
                answered: apart.then(|| served.map_or(udp.out_datagrams, |served| served.datagrams)),
                ..loaded.counts
            },
            local: served.and_then(Served::local),
            server_cpu_us: Some(spent.server_ns as f64 / 1e3),
            cpu_shares: cpu_shares(&plan.cpus(step), &spent.cpus),
            others_share: {
                let own = Duration::from_nanos(spent.server_ns + spent.clients_ns);
                spent.cpus.others_share(&plan.cpus(step), own)
            },
            ..loaded
        };
        let (unknown, why) = match apart {
            false => (
                &OF_DATAGRAMS[..],
                "both ends share the counters of the loopback device",
            ),
            true if !one_by_one => (&OF_DATAGRAMS[..2], "the kernel counts merged datagrams once"),
            true => (&[][..], ""),
        };
        if plan.request.transport == Transport::Udp {
            for field in unknown {
                trial.head.explain(field, why);
            }
        }
        trial
    }
}

/// What the clients counted.
struct Counted {
    trial: Trial,
    outcome: RunOutcome,
}

fn of_datagrams(loaded: MemcachedUdpLoadReport) -> Counted {
    let total = &loaded.total;
    let trial = Trial {
        counts: of_clients(total.sent, total.returned),
        latency: loaded.round_trip_histogram,
        raw: as_json(total),
        ..of_cache(&total.own, loaded.sending_s)
    };
    of_outcome(trial, loaded.outcome)
}

fn of_streams(loaded: MemcachedLoadReport) -> Counted {
    let requests = &loaded.counts.requests;
    let latency = loaded.pools.iter().map(|pool| &pool.tally.histograms.latency);
    let trial = Trial {
        counts: of_clients(requests.sent, requests.ok.saturating_sub(requests.ok_late)),
        latency: Histogram::sum(latency).if_any(),
        raw: as_json(requests),
        ..of_cache(&requests.own, loaded.running_s)
    };
    of_outcome(trial, loaded.outcome)
}

fn of_clients(generated: u64, returned: u64) -> Counts {
    Counts {
        generated,
        returned: Some(returned),
        ..Counts::default()
    }
}

/// What only a cache has.
fn of_cache(own: &MemcachedCounts, seconds: f64) -> Trial {
    let [hits, samples] = own.hits().unwrap_or_default();
    Trial {
        hits: (samples > 0).then_some(Share { hits, samples }),
        wrong: own.wrong().unwrap_or_default(),
        operations: own.operations.clone(),
        ..Trial::new(TrialHead::new(0, 0, seconds))
    }
}

fn of_outcome(trial: Trial, outcome: RunOutcome) -> Counted {
    let trial = Trial {
        over_time: outcome.over_time.clone(),
        ..trial
    };
    Counted { trial, outcome }
}
