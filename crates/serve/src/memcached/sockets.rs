//! The sockets of a server besides the listeners at its first address: at further addresses, of UDP, and a Unix socket.

use super::error::MemcachedError;
use super::plan::{MemcachedPlan, UdpSteering, UnixSocket};
use super::shared::Listens;
use crate::local_listener;
use crate::server::ServeError;
use crate::streams::SocketGroup;
use corelane_link::key_steering::KeySteering;
use corelane_rss::Steering;
use corelane_rss::steer::{self, Families};
use corelane_worker::group::{self, GroupError, GroupSettings};
use corelane_worker::program;
use socket2::Socket;
use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

/// The sockets that a plan asks for.
pub(super) struct Sockets {
    pub(super) groups: Vec<SocketGroup>,
    /// Their addresses, with the ports that were chosen.
    pub(super) listens: Vec<Listens>,
    /// The programs that read keys.
    pub(super) keyed: Keyed,
}

/// Programs that steer datagrams by key.
#[derive(Default)]
pub(super) struct Keyed(Vec<(Families, KeySteering)>);

impl Keyed {
    /// Steers datagrams without a readable key as the other sockets. If that is not permitted, because the server has given up its
    /// privileges, they are steered as before, and handed over.
    pub(super) fn follow(&self, steering: &Steering) {
        for (families, keys) in &self.0 {
            if let Ok(program) = steer::program(steering, *families) {
                let _ = keys.change(&program);
            }
        }
    }
}

impl Sockets {
    /// Opens them; `seed` is that of the hash of keys.
    pub(super) fn open(plan: &MemcachedPlan, seed: u64) -> Result<Self, MemcachedError> {
        let mut sockets = Self {
            groups: Vec::new(),
            listens: Vec::new(),
            keyed: Keyed::default(),
        };
        for address in &plan.more_addresses {
            sockets.listen(plan, *address)?;
        }
        for address in &plan.udp {
            sockets.receive(plan, *address, seed)?;
        }
        if let Some(unix) = &plan.unix {
            let listener = unix_listener(unix, plan.listening.backlog);
            let listener = listener.map_err(|error| MemcachedError::Unix {
                path: unix.path.clone(),
                error,
            })?;
            let copy = |_| listener.try_clone().map(OwnedFd::from);
            sockets.listens.push(Listens::Unix(unix.path.clone()));
            let copies: io::Result<_> = (0..plan.workers()).map(copy).collect();
            sockets.groups.push(SocketGroup {
                sockets: copies.map_err(ServeError::socket("duplicate the Unix socket"))?,
                families: None,
            });
        }
        Ok(sockets)
    }

    fn listen(&mut self, plan: &MemcachedPlan, address: SocketAddr) -> Result<(), ServeError> {
        let listening = &plan.listening;
        let families = group::families(address, listening.socket.ipv6_only);
        let program = steer::program(&listening.steered.steering, families)?;
        let settings = listening.socket.settings();
        let listeners = group::tcp(
            address,
            plan.workers(),
            Some(&program),
            listening.backlog,
            &settings,
        )?;
        let at = listeners[0].local_addr().unwrap_or(address);
        self.listens.push(Listens::Tcp(at));
        self.groups.push(SocketGroup {
            sockets: listeners.into_iter().map(OwnedFd::from).collect(),
            families: Some(families),
        });
        Ok(())
    }

    fn receive(
        &mut self,
        plan: &MemcachedPlan,
        address: SocketAddr,
        seed: u64,
    ) -> Result<(), MemcachedError> {
        let listening = &plan.listening;
        let families = group::families(address, listening.socket.ipv6_only);
        let program = steer::program(&listening.steered.steering, families).map_err(ServeError::from)?;
        let settings = GroupSettings {
            gro: plan.merges(),
            destinations: plan.needs_destinations(),
            ..listening.socket.settings()
        };
        let sockets = group::udp(address, plan.workers(), Some(&program), &settings);
        let sockets = sockets.map_err(MemcachedError::Udp)?;
        let by_key = plan.udp_steering() == Some(UdpSteering::Key);
        if by_key {
            let keys = KeySteering::load(seed, plan.workers(), &program)?;
            let attached = program::attach_loaded(&sockets[0], &keys);
            attached.map_err(|error| MemcachedError::Serve(GroupError::Program(error).into()))?;
            self.keyed.0.push((families, keys));
        }
        let at = sockets[0].local_addr().unwrap_or(address);
        self.listens.push(Listens::Udp(at));
        self.groups.push(SocketGroup {
            sockets: sockets.into_iter().map(OwnedFd::from).collect(),
            // A new table is for those that no key steers: [`Keyed::follow`].
            families: (!by_key).then_some(families),
        });
        Ok(())
    }
}

fn unix_listener(unix: &UnixSocket, backlog: u16) -> io::Result<Socket> {
    let socket = local_listener::bound(&unix.path)?;
    // Nothing can connect before it listens.
    fs::set_permissions(&unix.path, Permissions::from_mode(unix.mode))?;
    socket.listen(backlog.into())?;
    Ok(socket)
}
