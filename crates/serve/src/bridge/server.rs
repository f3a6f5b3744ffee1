//! Starts a bridge, reports its counters, and stops it.

use super::arrived::Clock;
use super::check::refused;
use super::counts::WorkerCounts;
use super::document::{Bridged, Known};
use super::error::BridgeError;
use super::forward::Forwarder;
use super::keys::read_keys;
use super::links::{Keeper, LinkEvent, Order};
use super::lists::Lists;
use super::loop_check::LoopCheck;
use super::mail::{BucketsPlan, Mail};
use super::plan::BridgePlan;
use super::planner::{Planner, Request};
use super::queues::Queues;
use super::ways::Ways;
use super::worker::BridgeWorker;
use crate::server::Server;
use crate::shared::lock;
use corelane_link::{AnyLink, Link, LinkKind, Opener, share_out};
use corelane_rss::Bucket;
use corelane_stage::WayCounts;
use corelane_stage::dispatch::Workstreams;
use corelane_worker::crew::Crew;
use corelane_worker::{CachePadded, WorkerSettings};
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

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
    requests: Sender<Request>,
    counts: Vec<Arc<CachePadded<WorkerCounts>>>,
    known: Known,
    failure: Arc<OnceLock<String>>,
    openers: Vec<Opener>,
    /// The counts of the stages, by bucket.
    ways: Vec<Arc<WayCounts>>,
    /// The queues of the buckets, if there are any.
    streams: Option<Arc<Workstreams>>,
    /// See [`Ways::new`].
    seed: u64,
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

    /// Requests a reload of all tables.
    pub fn reload(&self) {
        self.request(Request::Reload);
    }

    /// Requests a reload of all tables, and another plan: each worker runs it from its next batch on. A plan that cannot be
    /// taken, or the reason why there is none, is counted, and the one before stays.
    pub fn replan(&self, plan: Result<BridgePlan, String>) {
        self.request(Request::Replan(plan.map(Box::new)));
    }

    fn request(&self, request: Request) {
        // The receiver is only dropped when the bridge stops.
        let _ = self.requests.send(request);
    }

    fn start_worker(
        &mut self,
        plan: &BridgePlan,
        workers: usize,
        shares: Vec<Vec<AnyLink>>,
        lists: &mut Lists,
        wires: Wires,
    ) -> Result<Ways, BridgeError> {
        let number = self.counts.len();
        let counts = WorkerCounts {
            batch_wait: plan.stages.coalesce.map(|_| Mutex::default()),
            ..WorkerCounts::new(plan.links.len())
        };
        let counts = Arc::new(CachePadded::new(counts));
        self.counts.push(Arc::clone(&counts));
        // Without mail a worker is one bucket.
        let buckets = wires
            .mail
            .as_ref()
            .map_or_else(|| vec![Bucket::new(number as u16)], Mail::buckets);
        let ways = Ways::new(
            plan,
            &buckets,
            workers,
            Arc::clone(&counts),
            self.streams.clone(),
            self.seed,
        );
        self.ways.extend(ways.counts());
        let mut stages = ways.by(plan, lists.rules(number));
        let (burst, stop) = (plan.burst, self.workers.stop_flag());
        let clock = self
            .is_captured
            .then(|| Clock::new(self.started, plan.links.len()));
        let settings = WorkerSettings::new(format!("bridge {number}"), plan.cpus[number]);
        let body = move || {
            let queues = shares.into_iter().map(Queues::new).collect();
            let lanes = buckets.into_iter().map(|bucket| (bucket, stages(bucket)));
            let forwarder = Forwarder::new(queues, lanes, burst, counts)
                .checking_loops(wires.loops)
                .timed_by(clock);
            let worker = BridgeWorker {
                forwarder: match wires.mail {
                    Some(mail) => forwarder.with_mail(mail),
                    None => forwarder,
                },
                orders: wires.orders,
                events: wires.events,
            };
            worker.forward(&stop).map_err(io::Error::other)
        };
        self.workers.spawn(settings, body)?;
        Ok(ways)
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
        let specs = plan.specs()?;
        read_keys(&mut plan.stages)?;
        let known: Known = Arc::new(Mutex::new(Bridged::planned(&plan)));
        // Before any device is touched, so that an invalid list has no effect on devices.
        let mut lists = Lists::load(&plan, Arc::clone(&known))?;
        let is_captured = specs.iter().all(|link| link.kind == LinkKind::Capture);
        let mut loops = LoopCheck::new(&specs, Instant::now());
        let openers: Vec<Opener> = specs.into_iter().map(Opener::new).collect();
        let opened: Vec<Vec<AnyLink>> = openers.iter().map(Opener::open).collect::<Result<_, _>>()?;
        let workers = workers(&plan, &opened)?;
        let mut mails = mails(plan.buckets.as_ref(), workers)?.into_iter();
        for (link, opened) in lock(&known).links.iter_mut().zip(&opened) {
            link.queues = opened.len();
        }
        let (requests, requested) = mpsc::channel();
        let mut bridge = Bridge {
            started: Instant::now(),
            is_captured,
            requests,
            counts: Vec::new(),
            known: Arc::clone(&known),
            failure: Arc::default(),
            openers: openers.clone(),
            ways: Vec::new(),
            streams: mails.as_slice().first().map(|mail| Arc::clone(mail.streams())),
            seed: fastrand::u64(..),
            workers: Crew::new(),
            helpers: Crew::new(),
        };
        let (reports, events) = mpsc::channel();
        let (mut orders, mut ways) = (Vec::new(), Vec::new());
        for shares in by_worker(opened, workers) {
            let (order, ordered) = mpsc::channel();
            orders.push(order.clone());
            let wires = Wires::new(ordered, reports.clone(), &mut loops, mails.next());
            let started = bridge.start_worker(&plan, workers, shares, &mut lists, wires)?;
            ways.push((started, order));
        }
        let keeper = Keeper {
            openers,
            known: Arc::clone(&known),
            failure: Arc::clone(&bridge.failure),
            events,
            orders,
            stop: bridge.helpers.stop_flag(),
        };
        bridge.help("bridge links", move || keeper.run())?;
        let (stop, streams) = (bridge.helpers.stop_flag(), bridge.streams.clone());
        let planner = Planner {
            plan,
            lists,
            known,
            streams,
            workers: ways,
            requests: requested,
        };
        bridge.help("bridge plan", move || planner.run(&stop))?;
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

/// The mail of each worker; none without buckets.
pub(super) fn mails(plan: Option<&BucketsPlan>, workers: usize) -> Result<Vec<Mail>, BridgeError> {
    let Some(plan) = plan else {
        return Ok(Vec::new());
    };
    if usize::from(plan.buckets) < workers {
        let why = format!(
            "{} buckets for {workers} workers: each worker needs one",
            plan.buckets
        );
        return refused("buckets", why);
    }
    Mail::between(plan, workers).map_err(|error| BridgeError::Failed(format!("eventfd: {error}")))
}

/// The number of workers: every one has a queue of every link.
fn workers(plan: &BridgePlan, opened: &[Vec<AnyLink>]) -> Result<usize, BridgeError> {
    let fewest = opened.iter().min_by_key(|queues| queues.len());
    let (most, link) = fewest.map_or((1, ""), |queues| (queues.len(), queues[0].name()));
    let wanted = plan.workers.unwrap_or(most.min(plan.cpus.len()).max(1));
    if wanted == 0 || wanted > most {
        let why = format!(
            "{wanted} workers were asked for and {link} has {most} queues: each worker needs a queue of every link"
        );
        return refused("workers", why);
    }
    if wanted > plan.cpus.len() {
        let given = plan.cpus.len();
        return refused(
            "workers",
            format!("{wanted} workers need {wanted} CPUs, and {given} are given"),
        );
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
