//! Starts a bridge, reports its counters, and stops it.

use super::counts::WorkerCounts;
use super::document::{Bridged, Known};
use super::forward::Forwarder;
use super::keys;
use super::links::{Keeper, LinkEvent, Order};
use super::lists::{ListFileError, Lists};
use super::loop_check::LoopCheck;
use super::mail::{BucketsPlan, Mail};
use super::plan::BridgePlan;
use super::queues::Queues;
use super::worker::BridgeWorker;
use crate::server::Server;
use crate::shared::lock;
use corelane_link::{AnyLink, Link, LinkError, LinkKind, LinkSpec, Opener, SpecError, share_out};
use corelane_rss::{Bucket, Key};
use corelane_stage::dispatch::{Dispatch, Workstreams};
use corelane_stage::reassembly::Placement;
use corelane_stage::{Lane, StagePlans, TableStage, Way, WayCounts};
use corelane_worker::crew::{Crew, CrewError};
use corelane_worker::{CachePadded, WorkerSettings};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// Why a bridge cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The plan cannot be fulfilled.
    #[error("{0}")]
    Plan(String),
    /// The buckets cannot be as planned.
    #[error("{0}")]
    Buckets(String),
    /// A stage cannot be as planned.
    #[error("{0}: {1}")]
    Stage(&'static str, String),
    /// Invalid link specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A table file was rejected.
    #[error(transparent)]
    List(#[from] ListFileError),
    /// A thread could not start or continue.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A link failed in a way that reopening does not repair.
    #[error("{0}")]
    Failed(String),
}

/// What connects a worker with others.
struct Wires {
    orders: Receiver<Order>,
    events: Sender<LinkEvent>,
    loops: LoopCheck,
    mail: Option<Mail>,
}

impl Wires {
    /// The first worker sends the frames that find loops, and all recognise them.
    fn new(
        orders: Receiver<Order>,
        events: Sender<LinkEvent>,
        loops: &mut LoopCheck,
        mail: Option<Mail>,
    ) -> Wires {
        let listening = loops.clone().listening();
        Wires {
            orders,
            events,
            loops: std::mem::replace(loops, listening),
            mail,
        }
    }
}

/// A running bridge. Dropping it stops it.
pub struct Bridge {
    started: Instant,
    /// Whether all frames come from captures: time goes on as theirs did.
    is_captured: bool,
    reload: Arc<AtomicBool>,
    counts: Vec<Arc<CachePadded<WorkerCounts>>>,
    known: Known,
    failure: Arc<OnceLock<String>>,
    openers: Vec<Opener>,
    /// The counts of the stages, by bucket.
    ways: Vec<Arc<WayCounts>>,
    /// The queues of the buckets, if there are any.
    streams: Option<Arc<Workstreams>>,
    workers: Crew<()>,
    /// The threads that reopen links and reload files.
    helpers: Crew<()>,
}

impl Bridge {
    /// The counters so far. Those of links are up to 50 ms old.
    #[must_use]
    pub fn bridged(&self) -> Bridged {
        let injected = self.openers.iter().map(Opener::injected);
        Bridged {
            duration_s: self.started.elapsed().as_secs_f64(),
            ..lock(&self.known)
                .clone()
                .with(&self.counts, injected, self.streams.as_deref())
                .with_stages(&self.ways)
        }
    }

    /// Requests a reload of all files.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    fn start_worker(
        &mut self,
        plan: &BridgePlan,
        shares: Vec<Vec<AnyLink>>,
        lists: &Lists,
        wires: Wires,
    ) -> Result<(), BridgeError> {
        let number = self.counts.len();
        let counts = WorkerCounts {
            batch_wait: plan.stages.coalesce.map(|_| Mutex::default()),
            ..WorkerCounts::new(plan.links.len(), plan.tables.len())
        };
        let counts = Arc::new(CachePadded::new(counts));
        self.counts.push(Arc::clone(&counts));
        let buckets = wires
            .mail
            .as_ref()
            .map_or_else(|| vec![Bucket::new(0)], Mail::buckets);
        let mut stages = self.stages(plan, lists, &counts, &buckets);
        let (burst, stop) = (plan.burst, self.workers.stop_flag());
        let epoch = self.is_captured.then_some(self.started);
        let settings = WorkerSettings::new(format!("bridge {number}"), plan.cpus[number]);
        let body = move || {
            let queues = shares.into_iter().map(Queues::new).collect();
            let forwarder = Forwarder::new(queues, stages(buckets[0]), burst, counts)
                .checking_loops(wires.loops)
                .timed_by(epoch);
            let worker = BridgeWorker {
                forwarder: match wires.mail {
                    Some(mail) => forwarder.with_buckets(mail, stages),
                    None => forwarder,
                },
                orders: wires.orders,
                events: wires.events,
            };
            worker.forward(&stop).map_err(io::Error::other)
        };
        Ok(self.workers.spawn(settings, body)?)
    }

    /// The stages of each of these buckets, in order.
    fn stages(
        &mut self,
        plan: &BridgePlan,
        lists: &Lists,
        counts: &WorkerCounts,
        buckets: &[Bucket],
    ) -> impl FnMut(Bucket) -> Way + Send + use<> {
        let (plan, rules, tables) = (plan.clone(), lists.rules(), Arc::clone(&counts.tables));
        let spread = plan.buckets.as_ref().map(|buckets| Arc::new(buckets.spread()));
        let streams = self.streams.clone();
        let ways = buckets.iter().map(|bucket| {
            let counts = Arc::new(WayCounts::new(&plan.stages));
            (*bucket, counts)
        });
        let ways: Vec<(Bucket, Arc<WayCounts>)> = ways.collect();
        self.ways
            .extend(ways.iter().map(|(_, counts)| Arc::clone(counts)));
        let seed = fastrand::u64(..);
        let reassemble = plan.stages.reassemble.as_ref();
        let has_owners = reassemble.is_some_and(|reassemble| reassemble.at == Placement::Owner);
        move |bucket| {
            let lane = Lane {
                bucket,
                buckets: plan.buckets.as_ref().map_or(1, |buckets| buckets.buckets),
                seed,
                key: plan
                    .buckets
                    .as_ref()
                    .map_or(Key::VERIFICATION, |buckets| buckets.key.clone()),
            };
            let exchanged = spread.as_ref().zip(streams.as_ref());
            let dispatch = plan
                .buckets
                .as_ref()
                .zip(exchanged)
                .map(|(plan, (spread, streams))| {
                    Dispatch::new(bucket, &plan.dispatch, Arc::clone(spread), Arc::clone(streams))
                        .with_owners(has_owners)
                });
            let tables = TableStage::new(rules.clone(), plan.otherwise, plan.not_ip, Arc::clone(&tables));
            let counts = ways.iter().find(|(of, _)| *of == bucket);
            let counts = counts.map_or_else(
                || Arc::new(WayCounts::new(&plan.stages)),
                |(_, counts)| Arc::clone(counts),
            );
            Way::new(&plan.stages, &lane, dispatch, tables, &counts)
        }
    }

    fn help(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), BridgeError> {
        let settings = WorkerSettings::new(name, None);
        let body = || {
            body();
            Ok(())
        };
        Ok(self.helpers.spawn(settings, body)?)
    }
}

impl Server for Bridge {
    type Plan = BridgePlan;
    type Served = Bridged;
    type Error = BridgeError;
    const NAME: &'static str = "bridge";

    /// Loads the tables and opens the links in the calling thread's network namespace.
    fn start(mut plan: Self::Plan) -> Result<Self, BridgeError> {
        let specs: Vec<LinkSpec> = plan
            .links
            .iter()
            .map(|link| link.parse())
            .collect::<Result<_, _>>()?;
        if specs.len() < 2 {
            return Err(BridgeError::Plan("a bridge needs two links or more".to_owned()));
        }
        LinkSpec::check_together(&specs)?;
        let specs = suited(specs, &plan.stages)?;
        keys::read(&mut plan.stages).map_err(|why| BridgeError::Stage("decapsulate", why))?;
        let known: Known = Arc::new(Mutex::new(Bridged::planned(&plan)));
        // Before any device is touched, so that an invalid list has no effect on devices.
        let lists = Lists::load(&plan, Arc::clone(&known))?;
        let is_captured = specs.iter().all(|link| link.kind == LinkKind::Capture);
        let mut loops = LoopCheck::new(&specs, Instant::now());
        let openers: Vec<Opener> = specs.into_iter().map(Opener::new).collect();
        let opened: Vec<Vec<AnyLink>> = openers.iter().map(Opener::open).collect::<Result<_, _>>()?;
        let workers = workers(&plan, &opened)?;
        let mails = mails(plan.buckets.as_ref(), workers)?;
        for (link, opened) in lock(&known).links.iter_mut().zip(&opened) {
            link.queues = opened.len();
        }
        let mut bridge = Bridge {
            started: Instant::now(),
            is_captured,
            reload: Arc::default(),
            counts: Vec::new(),
            known: Arc::clone(&known),
            failure: Arc::default(),
            openers: openers.clone(),
            ways: Vec::new(),
            streams: mails.first().map(|mail| Arc::clone(mail.streams())),
            workers: Crew::new(),
            helpers: Crew::new(),
        };
        let (reports, events) = mpsc::channel();
        let (mut orders, mut mails) = (Vec::new(), mails.into_iter());
        for shares in by_worker(opened, workers) {
            let (order, ordered) = mpsc::channel();
            orders.push(order);
            let wires = Wires::new(ordered, reports.clone(), &mut loops, mails.next());
            bridge.start_worker(&plan, shares, &lists, wires)?;
        }
        let keeper = Keeper {
            openers,
            known,
            failure: Arc::clone(&bridge.failure),
            events,
            orders,
            stop: bridge.helpers.stop_flag(),
        };
        bridge.help("bridge links", move || keeper.run())?;
        let (stop, reload) = (bridge.helpers.stop_flag(), Arc::clone(&bridge.reload));
        let refresher = move || lists.keep_fresh(&stop, &reload, plan.reload_every);
        bridge.help("bridge lists", refresher)?;
        Ok(bridge)
    }

    fn served(&mut self) -> Bridged {
        self.bridged()
    }

    /// All capture files are read to the end, or a link failed permanently.
    fn is_finished(&self) -> bool {
        self.workers.is_finished() || self.failure.get().is_some()
    }

    fn stop(mut self) -> Result<Bridged, BridgeError> {
        self.workers.stop();
        self.workers.finish()?;
        self.helpers.stop();
        self.helpers.finish()?;
        match self.failure.get() {
            Some(why) => Err(BridgeError::Failed(why.clone())),
            None => Ok(self.bridged()),
        }
    }
}

/// The links, opened for the frames that the stages make.
fn suited(specs: Vec<LinkSpec>, stages: &StagePlans) -> Result<Vec<LinkSpec>, BridgeError> {
    check_tunnels(stages, specs.len())?;
    match (&stages.coalesce, &stages.segment) {
        (None, Some(_)) => {
            let why = "there are no merged segments to cut: add coalesce";
            Err(BridgeError::Stage("segment", why.to_owned()))
        }
        (Some(_), None) if stages.encapsulate.is_some() || stages.fragment.is_some() => {
            let why = "merged segments are too long for encapsulate and fragment: add segment";
            Err(BridgeError::Stage("coalesce", why.to_owned()))
        }
        (Some(_), None) => {
            let merged = specs.into_iter().map(LinkSpec::for_merged);
            let merged: Result<_, _> = merged.collect();
            merged.map_err(|error| BridgeError::Stage("coalesce", format!("{error}, or add segment")))
        }
        _ => Ok(specs),
    }
}

/// Whether there can be such tunnels between so many links.
fn check_tunnels(stages: &StagePlans, links: usize) -> Result<(), BridgeError> {
    let refused = |stage, why: String| Err(BridgeError::Stage(stage, why));
    let out = stages.decapsulate.as_ref();
    let into = stages.encapsulate.as_ref();
    let of = [
        ("decapsulate", out.and_then(|plan| plan.link)),
        ("encapsulate", into.and_then(|plan| plan.link)),
    ];
    for (stage, link) in of {
        if let Some(link) = link.filter(|link| *link >= links) {
            return refused(
                stage,
                format!("link {link}: there are {links}, and the first is 0"),
            );
        }
    }
    let Some(into) = into else { return Ok(()) };
    if let Err(error) = into.check() {
        return refused("encapsulate", error.to_string());
    }
    let undone = out.is_some_and(|out| {
        let apart = out.link.is_some() && into.link.is_some() && out.link != into.link;
        !apart && out.kinds.contains(&into.wrap.kind())
    });
    match undone {
        true => refused(
            "encapsulate",
            "what decapsulate takes out of such a tunnel would be put into one again: give each its own link"
                .to_owned(),
        ),
        false => Ok(()),
    }
}

/// The mail of each worker; none without buckets.
fn mails(plan: Option<&BucketsPlan>, workers: usize) -> Result<Vec<Mail>, BridgeError> {
    let Some(plan) = plan else {
        return Ok(Vec::new());
    };
    plan.dispatch.validate().map_err(BridgeError::Buckets)?;
    let (buckets, named) = (usize::from(plan.buckets), plan.table.buckets());
    let refused = if buckets < workers {
        format!("{buckets} buckets for {workers} workers: each worker needs one")
    } else if named > buckets {
        format!("the table names {named} buckets, and there are {buckets}")
    } else {
        return Mail::between(plan, workers)
            .map_err(|error| BridgeError::Failed(format!("eventfd: {error}")));
    };
    Err(BridgeError::Buckets(refused))
}

/// The number of workers: every one has a queue of every link.
fn workers(plan: &BridgePlan, opened: &[Vec<AnyLink>]) -> Result<usize, BridgeError> {
    let fewest = opened.iter().min_by_key(|queues| queues.len());
    let (most, link) = fewest.map_or((1, ""), |queues| (queues.len(), queues[0].name()));
    let wanted = plan.workers.unwrap_or(most.min(plan.cpus.len()).max(1));
    if wanted == 0 || wanted > most {
        return Err(BridgeError::Plan(format!(
            "{wanted} workers were asked for and {link} has {most} queues: each worker needs a queue of every link"
        )));
    }
    if wanted > plan.cpus.len() {
        return Err(BridgeError::Plan(format!(
            "{wanted} workers need {wanted} CPUs, and {} are given",
            plan.cpus.len()
        )));
    }
    Ok(wanted)
}

/// The queues of every link, by worker.
fn by_worker(opened: Vec<Vec<AnyLink>>, workers: usize) -> Vec<Vec<Vec<AnyLink>>> {
    let mut shares: Vec<Vec<Vec<AnyLink>>> = (0..workers).map(|_| Vec::new()).collect();
    for queues in opened {
        for (share, queues) in shares.iter_mut().zip(share_out(queues, workers)) {
            share.push(queues);
        }
    }
    shares
}
