//! Sources chosen by the hash of their packets, of the replies to them, or of both, so that every bucket gets its share,
//! or so that each worker's sockets land on the buckets of that worker.
//!
//! If ports are hashed, the ports of an address are taken in order, each by a worker that wants more sockets on its
//! landing. If only addresses are hashed, matching addresses are chosen, each with all of its ports.

use super::request::{FlowDirection, SourceError, SourceRequest};
use super::shared::{SOCKETS_AN_ADDRESS, Shared, shares};
use super::workers::Workers;
use corelane_rss::plan::{Landing, Landings};
use corelane_rss::{Bucket, Tuple, same_address};
use corelane_worker::group::Transport;
use corelane_worker::outgoing::{FIRST_PORT, LAST_PORT, Lease, Ports};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Leases for every worker.
pub(super) fn plan(
    (request, target): (&SourceRequest, SocketAddr),
    workers: &Workers<'_>,
    transport: Transport,
    addresses: &[IpAddr],
) -> Result<Vec<Vec<Lease>>, SourceError> {
    let (mut steerings, mut aims) = ([None; 2], [None, None]);
    for direction in request.by.directions() {
        steerings[*direction as usize] = Some(workers.steering(*direction)?);
        aims[*direction as usize] = Some(workers.aims(request.align, request.by, *direction)?);
    }
    let planner = Planner {
        request,
        target,
        addresses,
        landings: Landings::new(steerings[0], steerings[1]),
        workers: workers.count(),
        aims,
        transport,
    };
    match workers.hash_addresses_alone(request.by)? {
        true => planner.by_address(),
        false => planner.by_port(),
    }
}

struct Planner<'a> {
    request: &'a SourceRequest,
    target: SocketAddr,
    addresses: &'a [IpAddr],
    landings: Landings,
    workers: usize,
    /// By direction, the buckets of each worker; `None` if the direction is not aligned.
    aims: [Option<Vec<Vec<u16>>>; 2],
    transport: Transport,
}

/// Sockets that there is room for, by direction and bucket.
#[derive(Clone, Default)]
struct Capacity([Vec<usize>; 2]);

impl Capacity {
    fn of(&mut self, direction: FlowDirection, bucket: u16) -> &mut usize {
        let (rooms, bucket) = (&mut self.0[direction as usize], usize::from(bucket));
        rooms.resize(rooms.len().max(bucket + 1), 0);
        &mut rooms[bucket]
    }

    /// Whether there is room in every direction that the landing names.
    fn has(&self, landing: Landing) -> bool {
        let [forward, reply] = &self.0;
        let has = |rooms: &[usize], bucket: Bucket| rooms.get(bucket.index()).is_some_and(|room| *room > 0);
        landing.forward.is_none_or(|bucket| has(forward, bucket))
            && landing.reply.is_none_or(|bucket| has(reply, bucket))
    }

    fn take(&mut self, landing: Landing) {
        let places = self.0.iter_mut().zip([landing.forward, landing.reply]);
        for (rooms, bucket) in places.filter_map(|(rooms, bucket)| Some((rooms, bucket?.index()))) {
            rooms[bucket] -= 1;
        }
    }

    /// The buckets of a direction that have room; `None` alone if it has no buckets.
    fn open(&self, direction: FlowDirection) -> Vec<Option<Bucket>> {
        let rooms = &self.0[direction as usize];
        if rooms.is_empty() {
            return vec![None];
        }
        let open = (0..).zip(rooms).filter(|(_, room)| **room > 0);
        open.map(|(bucket, _)| Some(Bucket::new(bucket))).collect()
    }
}

/// The ports of one address for one worker on one landing, and the number of its connections.
type Found = BTreeMap<(Landing, usize), (Vec<u16>, usize)>;

/// What is left to be planned.
struct Unplanned {
    /// By worker.
    wanted: Vec<Capacity>,
    sockets: usize,
}

/// Addresses whose ports are tried to name the landings that none reaches. As many in turn that contribute nothing end
/// the search: all ports of an address reach a landing or hardly any of another address does.
const ADDRESSES_TRIED: usize = 64;

/// Ports tried per socket of an address's share; what it then lacks, the second round finds. If a wanted landing is out
/// of reach, trying all ports of every address of a wide pool takes minutes.
const PORTS_TRIED_PER_SOCKET: usize = 64;

impl Planner<'_> {
    /// The landings of a worker: every bucket of one direction with every bucket of the other; the first ones name each
    /// bucket once.
    fn landings_of(&self, worker: usize) -> Vec<Landing> {
        let [forward, reply] = self.aims.each_ref().map(|aims| match aims {
            Some(aims) => aims[worker].iter().copied().map(Bucket::new).map(Some).collect(),
            None => vec![None],
        });
        let turn = |turn: usize| {
            let forward = forward.iter().enumerate();
            forward.map({
                let reply = &reply;
                move |(place, forward)| Landing {
                    forward: *forward,
                    reply: reply[(place + turn) % reply.len()],
                }
            })
        };
        (0..reply.len()).flat_map(turn).collect()
    }

    /// Each worker's share of the sockets, spread over its buckets.
    fn wanted(&self) -> Vec<Capacity> {
        let mut wanted = vec![Capacity::default(); self.workers];
        // The buckets that get one more follow those of the worker before, so that the remainders are spread evenly.
        let mut first = 0;
        for (worker, sockets) in shares(self.request.sockets, self.workers).enumerate() {
            for direction in self.request.by.directions() {
                let aims = self.aims[*direction as usize].as_ref().map(|aims| &aims[worker]);
                let aims = aims.into_iter().flatten().collect::<Vec<_>>();
                for (place, part) in shares(sockets, aims.len()).enumerate() {
                    *wanted[worker].of(*direction, *aims[(place + first) % aims.len()]) += part;
                }
            }
            first += sockets;
        }
        wanted
    }

    /// Capacity for this many sockets on each bucket that any worker aims at.
    fn room(&self, sockets: impl Fn(usize) -> usize) -> Capacity {
        let mut room = Capacity::default();
        for direction in self.request.by.directions() {
            let aims = self.aims[*direction as usize].iter().flatten().flatten();
            let aims: BTreeSet<u16> = aims.copied().collect();
            for bucket in &aims {
                *room.of(*direction, *bucket) = sockets(aims.len());
            }
        }
        room
    }

    /// Leases of ports. Every address contributes its share, and then what others cannot contribute.
    fn by_port(&self) -> Result<Vec<Vec<Lease>>, SourceError> {
        // A reopened connection needs a port that is not in TIME_WAIT.
        let ports_per_socket = match self.transport {
            Transport::Udp => 1,
            Transport::Tcp => 2,
        };
        let mut rest = Unplanned {
            wanted: self.wanted(),
            sockets: self.request.sockets,
        };
        let share = self.request.sockets.div_ceil(self.addresses.len());
        let fair = self.room(|buckets| share.div_ceil(buckets).max(1));
        let mut leases: Vec<Vec<Lease>> = vec![Vec::new(); self.workers];
        let mut used = HashMap::<IpAddr, HashSet<u16>>::new();
        for (most, room) in [(share, fair), (usize::MAX, self.room(|_| usize::MAX))] {
            let mut without = 0;
            for address in self.addresses {
                if rest.sockets == 0 {
                    return Ok(leases);
                }
                let used = used.entry(*address).or_default();
                let found =
                    self.of_address((*address, used, most, room.clone()), ports_per_socket, &mut rest);
                without = if found.is_empty() { without + 1 } else { 0 };
                if most == usize::MAX && without == ADDRESSES_TRIED {
                    break;
                }
                for ((landing, worker), (ports, connections)) in found {
                    used.extend(&ports);
                    leases[worker].push(Lease {
                        address: *address,
                        ports: Ports::Listed(ports),
                        connections,
                        landing,
                    });
                }
            }
        }
        rest.use_spares(&mut leases);
        match rest.sockets {
            0 => Ok(leases),
            missing => {
                let tried = self.addresses.iter().take(ADDRESSES_TRIED);
                let tried = tried.flat_map(|address| self.ports(*address));
                let seen = tried.map(|(_, landing)| landing).collect();
                Err(self.too_few(missing, rest.unreached(&seen)))
            }
        }
    }

    /// The ports of an address, with their landings.
    fn ports(&self, address: IpAddr) -> impl Iterator<Item = (u16, Landing)> {
        let target = self.target;
        // Both ends of a connection from the target's own address and port would be the same, and UDP servers may refuse
        // their own port from any address.
        let excludes_target_port = self.transport == Transport::Udp || same_address(address, target.ip());
        let ports =
            (FIRST_PORT..=LAST_PORT).filter(move |port| !excludes_target_port || *port != target.port());
        ports.filter_map(move |port| {
            let tuple = Tuple::new(SocketAddr::new(address, port), target).ok()?;
            Some((port, self.landings.of(&tuple)))
        })
    }

    /// The ports of an address that were not `used`, for at most `most` sockets, as far as it has room.
    fn of_address(
        &self,
        (address, used, most, mut room): (IpAddr, &HashSet<u16>, usize, Capacity),
        ports_per_socket: usize,
        rest: &mut Unplanned,
    ) -> Found {
        let (mut found, mut left) = (Found::new(), Vec::new());
        let mut ports = self.ports(address).filter(|(port, _)| !used.contains(port));
        let (mut sockets, mut untried) = (0, most.saturating_mul(PORTS_TRIED_PER_SOCKET));
        while sockets < most
            && rest.sockets > 0
            && untried > 0
            && let Some((port, landing)) = ports.next()
        {
            untried -= 1;
            let mut wanting = rest.wanted.iter_mut().enumerate();
            let has_room = room.has(landing);
            let wanting = wanting.find(|(_, wanted)| has_room && wanted.has(landing));
            let Some((worker, wanted)) = wanting else {
                left.push((port, landing));
                continue;
            };
            wanted.take(landing);
            room.take(landing);
            let (ports, connections) = found.entry((landing, worker)).or_default();
            ports.push(port);
            *connections += 1;
            (sockets, rest.sockets) = (sockets + 1, rest.sockets - 1);
        }
        let mut spare = sockets * (ports_per_socket - 1);
        for (port, landing) in left.into_iter().chain(ports) {
            if spare == 0 {
                break;
            }
            let of_landing = found.range_mut((landing, 0)..=(landing, usize::MAX));
            let mut needing =
                of_landing.filter(|(_, (ports, connections))| ports.len() < *connections * ports_per_socket);
            if let Some((_, (ports, _))) = needing.next() {
                ports.push(port);
                spare -= 1;
            }
        }
        found
    }

    /// Leases of addresses that land on each bucket regardless of port. Connections have ports of their own, so the plan
    /// records the landing of each.
    fn by_address(&self) -> Result<Vec<Vec<Lease>>, SourceError> {
        let aimed: BTreeSet<Landing> = (0..self.workers)
            .flat_map(|worker| self.landings_of(worker))
            .collect();
        let reached = self.reached(&aimed);
        let (mut wanted, mut unreached) = (BTreeMap::new(), BTreeSet::new());
        let mut first = 0;
        for (worker, sockets) in shares(self.request.sockets, self.workers).enumerate() {
            let (landings, others): (Vec<_>, Vec<_>) =
                (self.landings_of(worker).into_iter()).partition(|landing| reached.contains_key(landing));
            for (place, part) in shares(sockets, landings.len()).enumerate() {
                let of_landing = wanted.entry(landings[(place + first) % landings.len()]);
                of_landing.or_insert_with(|| vec![0; self.workers])[worker] += part;
            }
            // A bucket is reached if any landing with it is.
            let missed = |landing: &Landing| {
                let forward = landings.iter().all(|reached| reached.forward != landing.forward);
                forward || landings.iter().all(|reached| reached.reply != landing.reply)
            };
            unreached.extend(others.into_iter().filter(missed));
            first += sockets;
        }
        let (mut leases, mut missing) = (vec![Vec::new(); self.workers], 0);
        for (landing, wanted) in wanted {
            let (addresses, total) = (&reached[&landing], wanted.iter().sum::<usize>());
            let room = addresses.len() * SOCKETS_AN_ADDRESS;
            missing += total.saturating_sub(room);
            if total > 0 && total <= room {
                let mut shared = Shared::new(addresses, total, self.transport == Transport::Udp, landing);
                for (leases, wanted) in leases.iter_mut().zip(wanted) {
                    leases.extend(shared.take(wanted));
                }
            }
        }
        match missing == 0 && unreached.is_empty() {
            true => Ok(leases),
            false => Err(self.too_few(missing, unreached.into_iter().collect())),
        }
    }

    /// Addresses by landing, until those aimed at have as many as they may need.
    fn reached(&self, aimed: &BTreeSet<Landing>) -> BTreeMap<Landing, Vec<IpAddr>> {
        let (target, most) = (self.target, self.request.sockets.div_ceil(aimed.len()));
        let (mut reached, mut wanting) = (BTreeMap::<_, Vec<IpAddr>>::new(), aimed.len());
        for address in self.addresses {
            let Ok(tuple) = Tuple::new(SocketAddr::new(*address, 0), target) else {
                continue;
            };
            let landing = self.landings.of(&tuple);
            let own = same_address(*address, target.ip());
            if own || !aimed.contains(&landing) {
                continue;
            }
            let found = reached.entry(landing).or_default();
            if found.len() < most {
                found.push(*address);
                wanting -= usize::from(found.len() == most);
            }
            if wanting == 0 {
                break;
            }
        }
        reached
    }

    fn too_few(&self, missing: usize, landings: Vec<Landing>) -> SourceError {
        if !landings.is_empty() {
            let pool = self.request.pool_text();
            return SourceError::Unreached { pool, landings };
        }
        let (sockets, addresses) = (self.request.sockets, self.addresses.len());
        let needed = (addresses * sockets).div_ceil((sockets - missing).max(1));
        self.request.too_many(needed.max(addresses + 1), addresses)
    }
}

impl Unplanned {
    /// Opens connections from ports that were meant for reopening others.
    fn use_spares(&mut self, leases: &mut [Vec<Lease>]) {
        for (wanted, leases) in self.wanted.iter_mut().zip(leases) {
            for lease in leases {
                while self.sockets > 0 && lease.has_spare_ports() && wanted.has(lease.landing) {
                    wanted.take(lease.landing);
                    (lease.connections, self.sockets) = (lease.connections + 1, self.sockets - 1);
                }
            }
        }
    }

    /// Landings that are wanted and that no port reaches.
    fn unreached(&self, seen: &HashSet<Landing>) -> Vec<Landing> {
        let mut unreached = BTreeSet::new();
        for wanted in &self.wanted {
            for forward in wanted.open(FlowDirection::Forward) {
                let replies = wanted.open(FlowDirection::Reply);
                let landings = replies.into_iter().map(|reply| Landing { forward, reply });
                let landings: Vec<Landing> = landings.collect();
                // In two directions a port of any of these would do; in one there is a landing for each bucket.
                let unseen = |landing: &Landing| !seen.contains(landing);
                if forward.is_none() || landings.iter().all(unseen) {
                    unreached.extend(landings.into_iter().filter(unseen));
                }
            }
        }
        unreached.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
