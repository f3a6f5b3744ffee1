//! Plans of the client addresses and source ports that reach each bucket.
//!
//! From a steering, the fixed ends of the flows and a pool or range, a plan lists the members that reach each bucket,
//! and the buckets that none reaches.

mod addresses;
mod flows;
mod landing;
mod ports;
mod shape;

pub use addresses::{AddressPlan, addresses};
pub use flows::{Ends, FlowPlan, FlowsError, PlannedFlow, flows};
pub use landing::{Landing, Landings};
pub use ports::{PortPlan, ports};
pub use shape::Shape;
