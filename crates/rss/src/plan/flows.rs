//! Plans the flows of an experiment: a wanted number of flows per bucket, spread over clients, servers, source ports
//! and table entries.
//!
//! The hash is linear, so the contribution of a port is the same for every client and server. Ports are sorted once by
//! their contribution to the table entry; finding a flow for an entry is then a lookup in that list. Each pair of
//! client and server is hashed only once.

use super::addresses::named_buckets;
use crate::fields::HashFields;
use crate::steering::{Steerer, Steering};
use crate::table::Bucket;
use crate::tuple::{Tuple, same_address};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use thiserror::Error;

/// The possible ends of flows.
#[derive(Clone, Debug)]
pub struct Ends<'a> {
    /// Addresses of clients. A client and a server of different families get no flows; a client with a server's address
    /// does not use that server's port.
    pub clients: &'a [IpAddr],
    /// Addresses and ports of servers, all with the same steering.
    pub servers: &'a [SocketAddr],
    /// Source ports. Port 0 cannot be bound and is never planned.
    pub ports: RangeInclusive<u16>,
}

/// A flow, by indices into the lists of [`Ends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedFlow {
    /// Index of the client.
    pub client: u32,
    /// Index of the server.
    pub server: u16,
    /// The source port.
    pub port: u16,
}

impl PlannedFlow {
    /// A flow between the same two.
    fn with_port(self, port: u16) -> PlannedFlow {
        PlannedFlow { port, ..self }
    }
}

/// Flows by the bucket that they reach. All flows are different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowPlan {
    /// By bucket, in order.
    pub buckets: Vec<Vec<PlannedFlow>>,
    /// Buckets that got fewer flows than wanted, and how many are missing.
    pub short: Vec<(Bucket, usize)>,
}

impl Ends<'_> {
    /// The tuple of a flow that was planned between these ends.
    ///
    /// # Panics
    /// When the flow was planned for other ends.
    #[must_use]
    pub fn tuple(&self, flow: &PlannedFlow) -> Tuple {
        let source = SocketAddr::new(self.clients[flow.client as usize], flow.port);
        let tuple = Tuple::new(source, self.servers[usize::from(flow.server)]);
        tuple.expect("only pairs of one family are planned")
    }
}

/// Plans `wanted[b]` flows for each bucket `b`; buckets past its end get none.
///
/// Every pair of client and server gets its share, as far as its ports allow. Under 2-tuple steering all ports of a
/// pair reach the same bucket.
///
/// # Errors
/// If there are no clients, servers or ports, if there are too many of them, if flows are wanted for a bucket that the
/// table does not name, or if ports are hashed and other than low bits of the hash select the bucket.
pub fn flows(steering: &Steering, ends: &Ends<'_>, wanted: &[usize]) -> Result<FlowPlan, FlowsError> {
    check(steering, ends, wanted)?;
    let count = count_pairs(ends);
    if count == 0 {
        return Err(FlowsError::Families);
    }
    let mut plan = FlowPlan {
        buckets: wanted.iter().map(|wanted| Vec::with_capacity(*wanted)).collect(),
        short: Vec::new(),
    };
    match (steering.hash_fields, steering.table.low_bits()) {
        (HashFields::TwoTuple, _) => by_pair(steering, ends, wanted, &mut plan),
        (HashFields::FourTuple, Some(_)) => by_port(steering, ends, count, wanted, &mut plan),
        (HashFields::FourTuple, None) => return Err(FlowsError::Remainder(steering.table.size())),
    }
    let missing = plan.buckets.iter().zip(wanted).enumerate();
    let short = missing.filter(|(_, (flows, wanted))| flows.len() < **wanted);
    plan.short = short
        .map(|(bucket, (flows, wanted))| (Bucket::new(bucket as u16), wanted - flows.len()))
        .collect();
    Ok(plan)
}

/// How many pairs of client and server can talk to each other.
fn count_pairs(ends: &Ends<'_>) -> usize {
    let clients_v4 = ends.clients.iter().filter(|client| is_v4(client)).count();
    let of_server = |server: &SocketAddr| match is_v4(&server.ip()) {
        true => clients_v4,
        false => ends.clients.len() - clients_v4,
    };
    ends.servers.iter().map(of_server).sum()
}

/// The flow from port 0 of each of them, every client's first server before any client's second.
fn pairs<'a>(ends: &'a Ends<'_>) -> impl Iterator<Item = PlannedFlow> + 'a {
    let servers = (0_u16..).zip(ends.servers);
    servers.flat_map(move |(server, to)| {
        let to_v4 = is_v4(&to.ip());
        let clients = (0_u32..).zip(ends.clients);
        clients
            .filter(move |(_, client)| is_v4(client) == to_v4)
            .map(move |(client, _)| PlannedFlow {
                client,
                server,
                port: 0,
            })
    })
}

fn is_v4(ip: &IpAddr) -> bool {
    ip.to_canonical().is_ipv4()
}

/// Minimum number of flows of a large plan; smaller plans take no noticeable time.
const LARGE: usize = 16_384;

/// Minimum number of flows per pair and bucket in a large plan with more pairs than needed: one hash per flow would
/// alone exhaust the time budget of planning.
const FEWEST_A_PAIR: usize = 16;

/// As above for 2-tuples: only pairs that land in a wanted bucket are useful.
const FEWEST_BY_ADDRESS: usize = 128;

/// Minimum number of flows per pair and bucket, if more are wanted.
fn fewest(wanted: &[usize], in_large_plans: usize) -> usize {
    if wanted.iter().sum::<usize>() > LARGE {
        in_large_plans
    } else {
        1
    }
}

/// The share of `remaining` for this turn, given the number of turns left.
fn share(remaining: usize, turns: usize, fewest: usize) -> usize {
    remaining.div_ceil(turns.max(1)).max(fewest).min(remaining)
}

/// Plans under 2-tuple steering: every pair has one bucket, and all ports are equivalent.
fn by_pair(steering: &Steering, ends: &Ends<'_>, wanted: &[usize], plan: &mut FlowPlan) {
    let (steerer, fewest) = (steering.steerer(), fewest(wanted, FEWEST_BY_ADDRESS));
    let (first, last) = (
        u32::from(*ends.ports.start()).max(1),
        u32::from(*ends.ports.end()),
    );
    let ports_a_pair = (last + 1 - first) as usize;
    // More pairs than these are not needed; a client with the address of a server has one port less towards it.
    let own = ends.servers.len();
    let pairs_for = |wanted: &usize| match wanted {
        0 => 0,
        wanted => wanted.div_ceil(fewest.min(ports_a_pair)) + own,
    };
    let enough: Vec<usize> = wanted.iter().map(pairs_for).collect();
    let mut of_bucket: Vec<Vec<PlannedFlow>> = vec![Vec::new(); wanted.len()];
    let mut wanting = enough.iter().filter(|enough| **enough > 0).count();
    for pair in pairs(ends) {
        if wanting == 0 {
            break;
        }
        let bucket = steerer.bucket_of(&ends.tuple(&pair)).index();
        if bucket < wanted.len() && of_bucket[bucket].len() < enough[bucket] {
            of_bucket[bucket].push(pair);
            wanting -= usize::from(of_bucket[bucket].len() == enough[bucket]);
        }
    }
    for ((flows, of_bucket), wanted) in plan.buckets.iter_mut().zip(&of_bucket).zip(wanted) {
        for (turn, pair) in of_bucket.iter().enumerate() {
            let due = share(wanted - flows.len(), of_bucket.len() - turn, fewest);
            let left_out = left_out(ends, *pair);
            let taken = (due + usize::from(left_out.is_some())).min(ports_a_pair) as u32;
            let ports = (first..first + taken).filter(|port| Some(*port as u16) != left_out);
            flows.extend(ports.take(due).map(|port| pair.with_port(port as u16)));
        }
    }
}

/// The port that a client may not use towards a server: the server's own, when it has the server's address.
fn left_out(ends: &Ends<'_>, pair: PlannedFlow) -> Option<u16> {
    let to = ends.servers[usize::from(pair.server)];
    let own = same_address(ends.clients[pair.client as usize], to.ip());
    own.then_some(to.port())
}

/// Plans under 4-tuple steering.
fn by_port(steering: &Steering, ends: &Ends<'_>, count: usize, wanted: &[usize], plan: &mut FlowPlan) {
    let fewest = fewest(wanted, FEWEST_A_PAIR);
    let most = wanted.iter().map(|wanted| share(*wanted, count, fewest)).max();
    let mut planner = ByPort::new(steering, ends, most.unwrap_or(0));
    for (turn, pair) in pairs(ends).enumerate() {
        if !planner.pair(pair, count - turn, fewest, wanted, plan) {
            return;
        }
    }
    // Pairs with too few ports leave part of their share to pairs with more ports.
    let mut planner = ByPort::new(steering, ends, usize::MAX);
    planner.used = plan.buckets.iter().flatten().copied().collect();
    for pair in pairs(ends) {
        if !planner.pair(pair, 1, fewest, wanted, plan) {
            return;
        }
    }
}

struct ByPort<'a> {
    ends: &'a Ends<'a>,
    steerer: Steerer,
    /// Bits of the hash that index the table.
    mask: u32,
    /// The entries of each bucket, within the table's period.
    entries: Vec<Vec<u32>>,
    /// By family (IPv4 first), ports by their contribution to the entry.
    ports: [PortsByEntry; 2],
    /// Flows planned before, in a second round.
    used: HashSet<PlannedFlow>,
}

/// Ports by their contribution to the entry.
type PortsByEntry = Vec<Vec<u16>>;

/// Number of ports of an entry among which pairs start, so that they do not all use the same few.
const PORTS_TO_BEGIN_FROM: usize = 64;

impl<'a> ByPort<'a> {
    /// For pairs that get at most `most` flows per bucket, as far as their ports allow.
    fn new(steering: &Steering, ends: &'a Ends<'a>, most: usize) -> ByPort<'a> {
        let period = steering.table.period();
        let mut entries = vec![Vec::new(); steering.table.buckets()];
        for (entry, bucket) in period.iter().enumerate() {
            entries[bucket.index()].push(entry as u32);
        }
        let mask = period.len() as u32 - 1;
        let (steerer, enough) = (steering.steerer(), most.saturating_add(PORTS_TO_BEGIN_FROM));
        let ports = [true, false].map(|v4| {
            let mut families = ends.servers.iter().map(|server| is_v4(&server.ip()));
            match families.any(|server| server == v4) {
                true => ports_by_entry(&steerer, ends.ports.clone(), mask, v4, enough),
                false => Vec::new(),
            }
        });
        ByPort {
            ends,
            steerer,
            mask,
            entries,
            ports,
            used: HashSet::new(),
        }
    }

    /// Plans the flows of one pair, with this many pairs left including itself; returns whether any bucket needs more.
    fn pair(
        &mut self,
        pair: PlannedFlow,
        left: usize,
        fewest: usize,
        wanted: &[usize],
        plan: &mut FlowPlan,
    ) -> bool {
        let tuple = self.ends.tuple(&pair);
        let base = self.steerer.hash_of(&tuple) & self.mask;
        let ports = &self.ports[usize::from(tuple.destination().is_ipv6())];
        let left_out = left_out(self.ends, pair);
        let place = pair.client as usize + usize::from(pair.server);
        let mut wanting = false;
        for (bucket, flows) in plan.buckets.iter_mut().enumerate() {
            let due = share(wanted[bucket] - flows.len(), left, fewest);
            if due == 0 {
                continue;
            }
            let entries = &self.entries[bucket];
            // The last pair provides all that remains.
            let each = if left == 1 {
                due
            } else {
                due.div_ceil(entries.len())
            };
            let end = flows.len() + due;
            // Every pair starts at another entry, so that few flows per pair still reach all entries.
            for at in 0..entries.len() {
                let entry = entries[(at + place) % entries.len()];
                let of_entry = &ports[(entry ^ base) as usize];
                // And at another port, for the same reason.
                let begin = place % PORTS_TO_BEGIN_FROM.min(of_entry.len().max(1));
                let few = each.min(end - flows.len());
                let (before, from) = of_entry.split_at(begin);
                if left_out.is_none() && self.used.is_empty() && from.len() >= few {
                    flows.extend(from[..few].iter().map(|port| pair.with_port(*port)));
                } else {
                    let turned = from.iter().chain(before).map(|port| pair.with_port(*port));
                    let free = turned.filter(|flow| Some(flow.port) != left_out && !self.used.contains(flow));
                    flows.extend(free.take(few));
                }
                if flows.len() == end {
                    break;
                }
            }
            wanting |= flows.len() < wanted[bucket];
        }
        wanting
    }
}

/// Sorts ports by their contribution to the entry of any pair of a family, until every entry has enough of them.
fn ports_by_entry(
    steerer: &Steerer,
    range: RangeInclusive<u16>,
    mask: u32,
    v4: bool,
    enough: usize,
) -> PortsByEntry {
    let mut ports = vec![Vec::new(); mask as usize + 1];
    let mut wanting = ports.len();
    for port in range.filter(|port| *port != 0) {
        if wanting == 0 {
            break;
        }
        let added = steerer.of_ports(port, 0, v4) & mask;
        let of_entry: &mut Vec<u16> = &mut ports[added as usize];
        of_entry.push(port);
        wanting -= usize::from(of_entry.len() == enough);
    }
    ports
}

fn check(steering: &Steering, ends: &Ends<'_>, wanted: &[usize]) -> Result<(), FlowsError> {
    let (clients, servers) = (ends.clients.len(), ends.servers.len());
    if clients == 0 || servers == 0 {
        return Err(FlowsError::NoEnds);
    }
    if clients > u32::MAX as usize || servers > usize::from(u16::MAX) {
        return Err(FlowsError::TooMany { clients, servers });
    }
    if ends.ports.clone().all(|port| port == 0) {
        let (start, end) = (*ends.ports.start(), *ends.ports.end());
        return Err(FlowsError::NoPorts { start, end });
    }
    let named = named_buckets(steering.table.entries());
    let unnamed = |bucket: usize| !named.iter().any(|named| named.index() == bucket);
    let wrong = (0..wanted.len()).find(|bucket| wanted[*bucket] > 0 && unnamed(*bucket));
    wrong.map_or(Ok(()), |bucket| Err(FlowsError::Unnamed { bucket }))
}

/// Error of planning flows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlowsError {
    /// No client or no server.
    #[error("no clients or no servers: give at least one of each")]
    NoEnds,
    /// Lists too long to number.
    #[error("{clients} clients and {servers} servers: give at most 2^32 and 65,535")]
    TooMany {
        /// Clients given.
        clients: usize,
        /// Servers given.
        servers: usize,
    },
    /// The size of the table is no power of two.
    #[error(
        "flows are planned by low bits of the hash, and a table of {0} entries is indexed by a remainder"
    )]
    Remainder(usize),
    /// No client has the address family of a server.
    #[error("no client is of a server's address family: give IPv4 clients for IPv4 servers, IPv6 for IPv6")]
    Families,
    /// No port could be planned.
    #[error("no port from {start} to {end} can be bound: give a range within 1 to 65535, lower end first")]
    NoPorts {
        /// Lower end given.
        start: u16,
        /// Upper end given.
        end: u16,
    },
    /// A bucket without an entry.
    #[error("flows are wanted on bucket {bucket}, and the table does not name it")]
    Unnamed {
        /// The bucket.
        bucket: usize,
    },
}
