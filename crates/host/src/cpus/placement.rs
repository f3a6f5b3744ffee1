//! Assigns a CPU to each worker, without side effects.
//!
//! Input: a [`Topology`], the [`Allowed`] CPUs, the number of workers. Output: one CPU per worker, in worker order, or
//! an error with both numbers.

use thiserror::Error;

use super::allowed::Allowed;
use super::topology::{CpuInfo, Topology};

/// What a placement may use in addition to the physical cores of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// Also use the other hardware threads of a core. Two siblings share the execution units of their core, so their
    /// rate is not that of two cores.
    pub use_siblings: bool,
    /// Also use CPUs of other nodes. Memory and interrupts of one node are then remote to the others.
    pub use_other_nodes: bool,
    /// Let workers share CPUs, round robin, if there are more workers than CPUs.
    pub share: bool,
}

/// Why no placement was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// No worker was requested.
    #[error("0 workers requested: request at least 1")]
    NoWorkers,
    /// No CPU can be used.
    #[error("no CPU is both online and allowed: widen the affinity (taskset) or the cpuset of the cgroup")]
    NoCpus,
    /// There are fewer CPUs than workers, and they may not share.
    #[error(
        "{workers} workers need {workers} CPUs and {cpus} can be used{}: request at most {cpus} workers{}, or let workers \
         share CPUs",
        held_back(*.siblings, *.other_nodes),
        widen(*.siblings, *.other_nodes)
    )]
    TooFewCpus {
        /// Requested workers.
        workers: usize,
        /// CPUs that the options allow.
        cpus: usize,
        /// Further CPUs with [`PlacementOptions::use_siblings`].
        siblings: usize,
        /// Further CPUs with [`PlacementOptions::use_other_nodes`].
        other_nodes: usize,
    },
}

/// Assigns one CPU per worker.
///
/// Order: one hardware thread of each core of the home node; then, if allowed, of each core of the other nodes; then,
/// if allowed, the siblings in the same order. The home node is the one with the most allowed cores, the
/// lowest-numbered on a tie. Within a node CPUs ascend.
///
/// # Errors
///
/// See [`PlacementError`].
pub fn placement(
    topology: &Topology,
    allowed: &Allowed,
    workers: usize,
    options: PlacementOptions,
) -> Result<Vec<u32>, PlacementError> {
    if workers == 0 {
        return Err(PlacementError::NoWorkers);
    }
    let order = usable(topology, allowed, options);
    if order.is_empty() {
        return Err(PlacementError::NoCpus);
    }
    if workers > order.len() && !options.share {
        let with = |options| usable(topology, allowed, options).len() - order.len();
        let mut wider = [options; 2];
        (wider[0].use_siblings, wider[1].use_other_nodes) = (true, true);
        let [siblings, other_nodes] = wider.map(with);
        return Err(PlacementError::TooFewCpus {
            workers,
            cpus: order.len(),
            siblings,
            other_nodes,
        });
    }
    Ok(order.into_iter().cycle().take(workers).collect())
}

/// The CPUs that the options allow, best first.
fn usable(topology: &Topology, allowed: &Allowed, options: PlacementOptions) -> Vec<u32> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let usable = |cpu: &&CpuInfo| cpu.online && allowed.cpus.contains(&cpu.id);
    for cpu in topology.cpus.iter().filter(usable) {
        let core = cpu.siblings.iter().copied().min().unwrap_or(cpu.id);
        candidates.push(Candidate {
            id: cpu.id,
            node: cpu.node.unwrap_or(0),
            core,
            sibling: candidates.iter().any(|earlier| earlier.core == core),
        });
    }
    // The node with the most cores, the lowest-numbered on a tie.
    let cores = |node| {
        candidates
            .iter()
            .filter(|own| own.node == node && !own.sibling)
            .count()
    };
    let nodes = candidates.iter().map(|candidate| candidate.node);
    let home = nodes.max_by_key(|node| (cores(*node), std::cmp::Reverse(*node)));
    candidates.retain(|candidate| {
        let near = options.use_other_nodes || Some(candidate.node) == home;
        near && (options.use_siblings || !candidate.sibling)
    });
    candidates.sort_by_key(|own| (own.sibling, Some(own.node) != home, own.node, own.id));
    candidates.iter().map(|candidate| candidate.id).collect()
}

/// One CPU that is online and allowed.
struct Candidate {
    id: u32,
    node: u32,
    /// The lowest hardware thread of its core: a machine-wide unique id of the core.
    core: u32,
    /// Whether a lower-numbered thread of its core is a candidate too.
    sibling: bool,
}

fn held_back(siblings: usize, other_nodes: usize) -> String {
    match (siblings, other_nodes) {
        (0, 0) => String::new(),
        (siblings, 0) => format!(" ({siblings} SMT siblings held back)"),
        (0, other) => format!(" ({other} on other nodes held back)"),
        (siblings, other) => format!(" ({siblings} SMT siblings and {other} on other nodes held back)"),
    }
}

fn widen(siblings: usize, other_nodes: usize) -> &'static str {
    match (siblings, other_nodes) {
        (0, 0) => "",
        (_, 0) => ", admit SMT siblings",
        (0, _) => ", admit other nodes",
        _ => ", admit SMT siblings or other nodes",
    }
}
