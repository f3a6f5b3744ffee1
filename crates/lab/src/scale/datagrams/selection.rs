//! Which steps of `lab scale udp` are measured.

use crate::scale::plan;
use corelane_load::udp::Skew;
use corelane_serve::udp::{Answers, Mode, Model};
use serde::Serialize;

/// What selects steps: as [`plan::Selection`], and what only datagrams have.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Selection {
    /// The models, in order.
    pub models: Vec<Model>,
    /// Server modes. `None`: echo with every model, and sink with exact steering and aligned clients.
    pub modes: Option<Vec<Mode>>,
    /// A skew to measure besides even traffic.
    pub skew: Skew,
    /// Transmit modes to measure besides the kernel's default. If any, the CPU and queue of answers are traced.
    pub answers: Vec<Answers>,
    /// Also measure the cost of per-datagram flow metadata for the application.
    pub metadata: bool,
    /// The common part.
    #[serde(flatten)]
    pub common: plan::Selection,
}
