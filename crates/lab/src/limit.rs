//! What stopped growth: the kind of limit, the sentence that says so, and what was measured of everyone who could have been it.

use corelane_measure::quantity::{self, or_missing};
use serde::{Deserialize, Serialize};

/// Below this idle share a CPU has nothing left to give: the kernel's accounting is in ticks, and a percent or two goes to
/// the clock and to the experiment itself.
pub(crate) const BUSY_IDLE_SHARE: f64 = 0.05;

/// Why nothing can be said where the CPUs' times are not known.
const NO_CPU_TIMES: &str = "not to be told without the CPUs' times";

/// What stopped growth, in words and with evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The kind of limit.
    pub cause: LimitCause,
    /// One sentence: the last line of the text.
    pub sentence: String,
    /// The measurements that say so, one a line.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// Everyone who could have been it.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
}

/// Kinds of limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCause {
    /// The server had no CPU time left.
    ServerCpu,
    /// The client had none left: the server could take more.
    ClientCpu,
    /// The kernel's receive path (softirq) had none left.
    ReceivePathCpu,
    /// Client and server shared CPUs, and together they had none left.
    SharedCpus,
    /// The kernel's receive path had none left, or dropped what it could not take.
    KernelReceive,
    /// The generator could not send more: nothing can be said of the server.
    Generator,
    /// The generator sent no more because it was not asked to.
    OfferedRate,
    /// Socket buffers overflowed although CPU time was left.
    SocketBuffers,
    /// Something between the two ends dropped frames.
    Path,
    /// Connections waited to be accepted, or were refused, because a listener's queue was full.
    ListenerBacklog,
    /// Memory ran out.
    Memory,
    /// The client had no descriptors or ports for more connections.
    Resources,
    /// Each connection waited for its answer, and CPU time was left: more connections would do more.
    Connections,
    /// Frames or connections reached the wrong bucket.
    Steering,
    /// Nothing that was measured explains it.
    #[default]
    Unknown,
}

/// Someone who could have been the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// Who.
    pub name: SuspectName,
    /// Whether it was.
    pub is_limit: bool,
    /// What was measured of it.
    pub evidence: String,
}

/// Who can be the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectName {
    /// The generator: its CPUs, descriptors and ports.
    Client,
    /// The server's CPUs.
    Server,
    /// The kernel's receive path: softirq, backlogs, socket buffers.
    KernelReceive,
    /// The listeners' queues.
    ListenerBacklog,
    /// Memory of any kind.
    Memory,
}

impl SuspectName {
    /// Its name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::KernelReceive => "kernel receive",
            Self::ListenerBacklog => "listener backlog",
            Self::Memory => "memory",
        }
    }
}

impl Limit {
    /// As long as no trial gave a result.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            sentence: "No trial gave a result, so the limit is unknown.".to_owned(),
            ..Self::default()
        }
    }
}

/// A kind of limit, and the words that complete «the limit was».
pub(crate) type Found = (LimitCause, String);

/// The limit of a step in which as much goes to the wrong place as `what` says, where that is so.
pub(crate) fn steering(right: Option<f64>, what: &str) -> Option<Found> {
    let because = format!("steering: {what} reached the wrong bucket, so the rates mean little");
    right
        .filter(|right| *right < 1.0)
        .map(|_| (LimitCause::Steering, because))
}

/// The limit of a step with `idle` CPU time left, where nothing was dropped or missing: what was asked for.
pub(crate) fn asked_for(idle: Option<f64>, cause: LimitCause, what: &str) -> Found {
    match idle {
        Some(idle) => (
            cause,
            format!("{what}: {} of CPU time was left", quantity::percent(idle)),
        ),
        None => (LimitCause::Unknown, NO_CPU_TIMES.to_owned()),
    }
}

/// How far a rate grew, in words.
pub(crate) fn growth(did: &str, linearity: Option<f64>, active: usize, one: &str) -> String {
    match linearity {
        Some(linearity) if active > 1 => format!("{did}, {:.2} times {one}", linearity * active as f64),
        _ => did.to_owned(),
    }
}

/// A share in percent.
pub(crate) fn percent(share: Option<f64>) -> String {
    or_missing(share, quantity::percent)
}
