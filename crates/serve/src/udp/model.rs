//! What a UDP server does with a datagram (mode), how the datagram reaches its worker (model), and how it is answered.
//!
//! Vocabulary only: names as documents and flags spell them, and words for people.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a datagram finds its worker. All but the last are rivals that exact steering is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// One socket, one thread: whatever the number of buckets, one CPU serves.
    Single,
    /// One socket, many threads that compete for what it holds.
    Shared,
    /// One thread reads the one socket and hands each datagram to the worker of its bucket through a mailbox.
    Farm,
    /// One socket a worker, chosen by the kernel's own hash over an `SO_REUSEPORT` group.
    Reuseport,
    /// The same group, with each socket bound to the datagrams that its worker's CPU receives (`SO_INCOMING_CPU`).
    IncomingCpu,
    /// By the RSS hash and the indirection table: one socket a bucket.
    Exact,
}

impl Model {
    /// All models: the rivals, then exact steering.
    pub const ALL: [Self; 6] = [
        Self::Single,
        Self::Shared,
        Self::Farm,
        Self::Reuseport,
        Self::IncomingCpu,
        Self::Exact,
    ];

    /// The model in words.
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

    /// Whether a datagram goes to the worker of the bucket that its RSS hash names, so that any other worker is an error.
    #[must_use]
    pub const fn promises_buckets(self) -> bool {
        matches!(self, Self::Exact | Self::Farm)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// What the server did with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Sent it back.
    Echo,
    /// Received it and nothing else.
    Sink,
}

impl Mode {
    /// The name of the rate that steps of this mode are judged by.
    #[must_use]
    pub const fn main_rate_name(self) -> &'static str {
        match self {
            Self::Echo => "answered",
            Self::Sink => "seen",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// How a server answers: by which hash the queue is chosen that an answer leaves on. The four ways of "Application awareness
/// of receive side scaling (RSS) on FreeBSD", as far as stock Linux has them: it takes no hash from an application, so what
/// an application knows about a flow shows in who sends and on which socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The kernel hashes each answer and chooses the queue by that.
    #[default]
    PerSend,
    /// The received hash is used again: it chose the worker, and the worker's CPU has the bucket's queue (XPS).
    Received,
    /// The worker hashes the flow itself and answers on the socket of the bucket that the hash names; queues as for
    /// `received`.
    Caller,
    /// A connected socket a flow: the kernel keeps route and hash in it.
    Connected,
}

impl Answers {
    /// Every way, the default first.
    pub const ALL: [Self; 4] = [Self::PerSend, Self::Received, Self::Caller, Self::Connected];

    /// Whether each transmit queue belongs to the CPU of its bucket.
    #[must_use]
    pub const fn queues_by_cpu(self) -> bool {
        matches!(self, Self::Received | Self::Caller)
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::read_word;

    #[test]
    fn flags_and_documents_spell_a_model_alike() {
        for model in Model::ALL {
            assert_eq!(read_word(&model.to_string()), Ok(model));
            assert_eq!(serde_json::to_value(model).unwrap(), model.to_string());
        }
        let unknown = read_word::<Model>("steered").unwrap_err().to_string();
        assert!(
            unknown.contains("'steered'") && unknown.contains("incoming_cpu"),
            "{unknown}"
        );
    }

    #[test]
    fn modes_and_answers_are_read_as_they_are_written() {
        for mode in [Mode::Echo, Mode::Sink] {
            assert_eq!(read_word(&mode.to_string()), Ok(mode));
        }
        assert!(
            read_word::<Mode>("tee")
                .unwrap_err()
                .to_string()
                .contains("echo or sink")
        );
        for answers in Answers::ALL {
            assert_eq!(read_word(&answers.to_string()), Ok(answers));
            assert_eq!(serde_json::to_value(answers).unwrap(), answers.to_string());
        }
    }
}
