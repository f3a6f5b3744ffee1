//! Who was the limit: the suspects, each with its evidence, and the verdict.

use serde::{Deserialize, Serialize};

/// What stopped growth, in words and with evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The kind of limit.
    pub cause: LimitCause,
    /// One sentence: the last line of the text.
    pub sentence: String,
    /// Everyone who could have been it.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
}

/// Kinds of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCause {
    /// The server had no CPU time left.
    ServerCpu,
    /// The client had none left: the server could take more.
    ClientCpu,
    /// Client and server shared CPUs, and together they had none left.
    SharedCpus,
    /// The kernel's receive path had none left, or dropped what it could not take.
    KernelReceive,
    /// Connections waited to be accepted, or were refused, because a listener's queue was full.
    ListenerBacklog,
    /// Memory ran out.
    Memory,
    /// The client had no descriptors or ports for more connections.
    Resources,
    /// Each connection waited for its answer, and CPU time was left: more connections would do more.
    Connections,
    /// The generator sent no more because it was not asked to.
    OfferedRate,
    /// Connections reached the wrong bucket.
    Steering,
    /// The generator, in every trial: nothing can be said of the server.
    Generator,
    /// Nothing that was measured explains it.
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
    /// Before anything was measured.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            cause: LimitCause::Unknown,
            sentence: "No trial gave a result, so the limit is unknown.".to_owned(),
            suspects: Vec::new(),
        }
    }
}
