//! What a UDP server does with a datagram (mode), how the datagram reaches its worker (model), and how it is answered.
//!
//! Names used in documents and flags, and descriptions.

use corelane_measure::words;
use serde::{Deserialize, Serialize};

words!(Model, Mode, Answers);

/// How a datagram reaches its worker. All but the last are baselines for exact steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// One socket, one thread: one CPU serves all buckets.
    Single,
    /// One socket, many threads that compete for its datagrams.
    Shared,
    /// One thread reads the only socket and passes each datagram to the worker of its bucket through a mailbox.
    Farm,
    /// One socket per worker, selected by the kernel's hash over an `SO_REUSEPORT` group.
    Reuseport,
    /// The same group; each socket receives the datagrams that arrive on its worker's CPU (`SO_INCOMING_CPU`).
    IncomingCpu,
    /// By RSS hash and indirection table: one socket per bucket.
    Exact,
}

impl Model {
    /// All models: the baselines, then exact steering.
    pub const ALL: [Self; 6] = [
        Self::Single,
        Self::Shared,
        Self::Farm,
        Self::Reuseport,
        Self::IncomingCpu,
        Self::Exact,
    ];

    /// Description of the model.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Single => "one socket, one thread",
            Self::Shared => "one socket, many threads",
            Self::Farm => "one reader that farms out",
            Self::Reuseport => "kernel-hashed SO_REUSEPORT",
            Self::IncomingCpu => "SO_INCOMING_CPU",
            Self::Exact => "exact steering",
        }
    }

    /// Whether a datagram must reach the worker of the bucket that its RSS hash selects; any other worker is an error.
    #[must_use]
    pub const fn promises_buckets(self) -> bool {
        matches!(self, Self::Exact | Self::Farm)
    }
}

/// Mode of a UDP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Sends datagrams back.
    Echo,
    /// Receives datagrams and discards them.
    Sink,
}

impl Mode {
    /// The name of the rate by which steps in this mode are judged.
    #[must_use]
    pub const fn main_rate_name(self) -> &'static str {
        match self {
            Self::Echo => "answered",
            Self::Sink => "seen",
        }
    }
}

/// How a server answers: by which hash the transmit queue of an answer is selected. The four ways of "Application
/// awareness of receive side scaling (RSS) on FreeBSD", as far as stock Linux supports them: Linux accepts no hash from
/// an application, so knowledge of a flow is expressed by the thread that sends, the socket that it uses, and its mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The kernel hashes each answer and selects the queue by that.
    #[default]
    PerSend,
    /// The received hash is reused: it selected the bucket's socket, whose mark names the bucket's queue.
    Received,
    /// The worker hashes the flow itself and answers on the socket of the bucket that the hash selects; the worker's CPU
    /// has the bucket's queue (XPS).
    Caller,
    /// A connected socket per flow: the kernel caches route and hash in it.
    Connected,
}

impl Answers {
    /// All ways, the default first.
    pub const ALL: [Self; 4] = [Self::PerSend, Self::Received, Self::Caller, Self::Connected];

    /// Whether each transmit queue is assigned to the CPU of its bucket.
    #[must_use]
    pub const fn queues_by_cpu(self) -> bool {
        matches!(self, Self::Caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_documents_spell_a_model_alike() {
        for model in Model::ALL {
            assert_eq!(model.to_string().parse(), Ok(model));
            assert_eq!(serde_json::to_value(model).unwrap(), model.to_string());
        }
        let unknown = "steered".parse::<Model>().unwrap_err().to_string();
        assert!(
            unknown.contains("'steered'") && unknown.contains("incoming_cpu"),
            "{unknown}"
        );
    }

    #[test]
    fn modes_and_answers_are_read_as_they_are_written() {
        for mode in [Mode::Echo, Mode::Sink] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!(
            "tee"
                .parse::<Mode>()
                .unwrap_err()
                .to_string()
                .contains("echo or sink")
        );
        for answers in Answers::ALL {
            assert_eq!(answers.to_string().parse(), Ok(answers));
            assert_eq!(serde_json::to_value(answers).unwrap(), answers.to_string());
        }
    }
}
