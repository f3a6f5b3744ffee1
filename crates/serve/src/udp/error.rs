//! Why a UDP server could not start or continue.

use super::model::{Answers, Model};
use crate::server::ServeError;
use corelane_link::LinkError;
use thiserror::Error;

/// Why a UDP server could not start or continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UdpError {
    /// A cause that all servers share.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Rebalancing would not move the flows that have a connected socket.
    #[error(
        "answers by connected give each flow a socket of one worker, so that no entry of the table moves it: give another way to answer"
    )]
    ConnectedFlows,
    /// This way to answer requires one socket per bucket.
    #[error(
        "answers by {answers} take exact steering, not the model {model}: give another way to answer, or --model exact"
    )]
    Answers {
        /// The requested way to answer.
        answers: Answers,
        /// The requested model.
        model: Model,
    },
    /// Answers by the received hash require a device.
    #[error("answers by received take the device that they leave by: name it (--watch DEVICE)")]
    NoDevice,
    /// The device's transmit queues cannot be named by sockets.
    #[error("{0}; or answer by caller, whose queues XPS selects")]
    Queues(LinkError),
}
