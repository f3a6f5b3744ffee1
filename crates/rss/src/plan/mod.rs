//! Which client addresses and which source ports reach which bucket.
//!
//! A steering, the fixed ends of the flows and a pool or range enter; for every bucket the members that land on it
//! leave, and the buckets that none lands on are named.

mod addresses;
mod flows;
mod ports;
mod shape;

pub use addresses::{AddressPlan, addresses};
pub use flows::{Ends, FlowPlan, FlowsError, PlannedFlow, flows};
pub use ports::{PairedPortPlan, PlanError, PortPlan, paired_ports, ports, reply_ports};
pub use shape::{Shape, ShapeError};
