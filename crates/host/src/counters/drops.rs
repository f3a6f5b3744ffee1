//! What the kernel dropped, by cause.

use super::{Softnet, TcpStatistics, UdpStatistics};
use crate::HostError;
use corelane_measure::drops::Cause;
use std::collections::BTreeMap;

/// Packets dropped so far, by cause: on the way to the sockets of the calling thread's network namespace, and
/// [`Cause::Backlog`] in all of them.
///
/// # Errors
///
/// Those of the counters; see [`UdpStatistics::read`].
pub fn drops() -> Result<BTreeMap<Cause, u64>, HostError> {
    let (udp, tcp) = (UdpStatistics::read()?, TcpStatistics::read()?.listener);
    let others = [
        (Cause::Backlog, Softnet::read()?.total().dropped),
        (Cause::Listener, tcp.drops),
        (Cause::TcpBacklog, tcp.backlog_drops),
        (Cause::TcpReceiveQueue, tcp.receive_queue_drops),
    ];
    Ok(udp.drops().into_iter().chain(others).collect())
}
