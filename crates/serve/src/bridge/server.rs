//! Starts a bridge, answers for it while it runs, and stops it.

use super::classify::Classifier;
use super::counts::WorkerCounts;
use super::document::{Bridged, bridged};
use super::forward::{Forwarder, Queues};
use super::links::{Keeper, LinkStates};
use super::lists::{ListFileError, ListStates, Lists};
use super::plan::BridgePlan;
use super::worker::BridgeWorker;
use crate::Server;
use corelane_link::{AnyLink, Link, LinkError, LinkSpec, Opener, SpecError, share_out};
use corelane_worker::crew::{Crew, CrewError};
use corelane_worker::{CachePadded, WorkerSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Why there is no bridge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The plan cannot be met.
    #[error("{0}")]
    Plan(String),
    /// A link's specification is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A table's file is refused.
    #[error(transparent)]
    List(#[from] ListFileError),
    /// A thread could not start or go on.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A link failed in a way that waiting does not fix.
    #[error("{0}")]
    Failed(String),
}

/// A running bridge. Dropping it stops it.
pub struct Bridge {
    plan: BridgePlan,
    started: Instant,
    reload: Arc<AtomicBool>,
    counts: Vec<Arc<CachePadded<WorkerCounts>>>,
    links: LinkStates,
    openers: Vec<Opener>,
    lists: ListStates,
    workers: Crew<()>,
    /// The threads that open links again and that read files.
    helpers: Crew<()>,
}

impl Bridge {
    /// The counts until now. Those of links are up to 50 ms old.
    #[must_use]
    pub fn bridged(&self) -> Bridged {
        let duration_s = self.started.elapsed().as_secs_f64();
        bridged(
            &self.plan,
            duration_s,
            &self.counts,
            &self.links.read(),
            &self.openers.iter().map(Opener::injected).collect::<Vec<_>>(),
            &self.lists.read(),
        )
    }

    /// Reads all files again, soon.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    fn start_worker(
        &mut self,
        number: usize,
        shares: Vec<Vec<AnyLink>>,
        lists: &Lists,
        orders: Receiver<super::links::Order>,
        news: Sender<super::links::News>,
    ) -> Result<(), BridgeError> {
        let counts = Arc::clone(&self.counts[number]);
        let (rules, otherwise, not_ip) = (lists.rules(), self.plan.otherwise, self.plan.not_ip);
        let (burst, stop) = (self.plan.burst, self.workers.stop_flag());
        let settings = WorkerSettings::new(format!("bridge {number}"), self.plan.cpus[number]);
        let body = move || {
            let classifier = Classifier::new(rules, otherwise, not_ip, Arc::clone(&counts));
            let queues = shares.into_iter().map(Queues::new).collect();
            let worker = BridgeWorker {
                forwarder: Forwarder::new(queues, classifier, burst, counts),
                orders,
                news,
                stop,
            };
            worker.run();
            Ok(())
        };
        Ok(self.workers.spawn(settings, body)?)
    }

    fn start_keeper(
        &mut self,
        openers: Vec<Opener>,
        news: Receiver<super::links::News>,
        orders: Vec<Sender<super::links::Order>>,
    ) -> Result<(), BridgeError> {
        let keeper = Keeper {
            openers,
            states: self.links.clone(),
            news,
            orders,
            stop: self.helpers.stop_flag(),
        };
        self.help("bridge links", move || keeper.run())
    }

    fn start_refresher(&mut self, mut lists: Lists) -> Result<(), BridgeError> {
        /// How often the thread looks whether it is wanted.
        const LOOK: Duration = Duration::from_millis(20);
        let (stop, reload, every) = (
            self.helpers.stop_flag(),
            Arc::clone(&self.reload),
            self.plan.reload_every,
        );
        self.help("bridge lists", move || {
            let mut looked = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                let asked = reload.swap(false, Ordering::Relaxed);
                if asked || every.is_some_and(|every| looked.elapsed() >= every) {
                    lists.refresh(asked);
                    looked = Instant::now();
                }
            }
        })
    }

    fn help(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), BridgeError> {
        let settings = WorkerSettings {
            cpu: None,
            ..WorkerSettings::new(name, 0)
        };
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
    const KIND: &'static str = "bridge";

    /// Reads the tables and opens the links in the calling thread's network namespace.
    fn start(plan: Self::Plan) -> Result<Self, BridgeError> {
        let specs: Vec<LinkSpec> = plan
            .links
            .iter()
            .map(|link| link.parse())
            .collect::<Result<_, _>>()?;
        if specs.len() < 2 {
            return Err(BridgeError::Plan("a bridge needs two links or more".to_owned()));
        }
        LinkSpec::check_captures(&specs)?;
        // Before anything is put on a device, so that a wrong list touches none.
        let lists = Lists::load(&plan)?;
        let openers: Vec<Opener> = specs.into_iter().map(Opener::new).collect();
        let opened: Vec<Vec<AnyLink>> = openers.iter().map(Opener::open).collect::<Result<_, _>>()?;
        let workers = workers(&plan, &opened)?;
        let links = LinkStates::new(opened.iter().map(Vec::len));
        let counts: Vec<Arc<CachePadded<WorkerCounts>>> = (0..workers)
            .map(|_| {
                Arc::new(CachePadded::new(WorkerCounts::new(
                    openers.len(),
                    plan.tables.len(),
                )))
            })
            .collect();
        let mut bridge = Bridge {
            started: Instant::now(),
            reload: Arc::default(),
            counts,
            links,
            openers: openers.clone(),
            lists: lists.states(),
            workers: Crew::new(),
            helpers: Crew::new(),
            plan,
        };
        let (news, told) = mpsc::channel();
        let mut orders = Vec::new();
        for (worker, shares) in by_worker(opened, workers).into_iter().enumerate() {
            let (order, ordered) = mpsc::channel();
            orders.push(order);
            bridge.start_worker(worker, shares, &lists, ordered, news.clone())?;
        }
        bridge.start_keeper(openers, told, orders)?;
        bridge.start_refresher(lists)?;
        Ok(bridge)
    }

    fn served(&mut self) -> Bridged {
        self.bridged()
    }

    /// Files are read to their ends, or a link failed in a way that waiting does not fix.
    fn is_finished(&self) -> bool {
        self.workers.is_finished() || self.links.failure().is_some()
    }

    fn stop(mut self) -> Result<Bridged, BridgeError> {
        self.workers.stop();
        self.workers.finish()?;
        self.helpers.stop();
        self.helpers.finish()?;
        match self.links.failure() {
            Some(why) => Err(BridgeError::Failed(why)),
            None => Ok(self.bridged()),
        }
    }
}

/// How many workers there are to be: every one has a queue of every link.
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

/// The queues of every link that each worker has.
fn by_worker(opened: Vec<Vec<AnyLink>>, workers: usize) -> Vec<Vec<Vec<AnyLink>>> {
    let mut shares: Vec<Vec<Vec<AnyLink>>> = (0..workers).map(|_| Vec::new()).collect();
    for queues in opened {
        for (share, queues) in shares.iter_mut().zip(share_out(queues, workers)) {
            share.push(queues);
        }
    }
    shares
}
