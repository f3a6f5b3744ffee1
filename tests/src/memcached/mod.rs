//! Whether clients can distinguish a server from upstream memcached: random sequences of requests go to upstream, to a second
//! copy of it, and to the subject, and their answers are compared.

mod compare;
mod datagrams;
mod difference;
mod exchange;
mod generate;
mod minimise;
mod sequence;
mod upstream;

pub use compare::CasOrder;
pub use difference::{Differential, Outcome, Peers};
pub use exchange::Addresses;
pub use sequence::{Round, Sequence};
pub use upstream::Upstream;
