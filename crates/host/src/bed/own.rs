//! Changes to the network namespace that a run was started in, if it is the run's own. The changes are reverted.
//!
//! Input: changes. Output: the changed namespace, until the [`OwnNamespace`] is dropped. The machine's first namespace
//! is rejected.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::side::write_setting;
use super::wire::{UP, Wire};
use crate::HostError;
use crate::tree::{Tree, setting_path};

/// A setting that the kernel shows only in the machine's first network namespace (`netdev_max_backlog` in
/// `net/core/sysctl_net_core.c`; `sysctl_core_net_init` leaves it out of all others).
const ONLY_IN_THE_FIRST: &str = "/proc/sys/net/core/netdev_max_backlog";

/// One change of a network namespace. `Display` prints the equivalent command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Sets a setting to this value.
    Setting {
        /// The setting's dotted name.
        name: String,
        /// The value.
        value: String,
    },
    /// Makes every address of the prefix local (AnyIP).
    Local(IpNet),
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, value } => write!(out, "sysctl -w {name}='{value}'"),
            Self::Local(prefix) => write!(out, "ip route add local {prefix} dev lo"),
        }
    }
}

/// Why a namespace was not changed.
#[derive(Debug, Error)]
pub enum OwnError {
    /// It is the machine's first one. With the commands that make the changes.
    #[error(
        "this is the machine's first network namespace, not one of the run's own: start it in `unshare -n`, or by hand: \
         {0}"
    )]
    First(String),
    /// The kernel rejected a change.
    #[error("{0}: {1}")]
    Rejected(Change, HostError),
}

/// A changed namespace. Dropping it reverts all changes.
#[derive(Debug)]
pub struct OwnNamespace {
    /// What was changed, in order; settings with their previous value.
    changed: Vec<Change>,
    /// Whether the loopback device was brought up.
    switched_on: bool,
}

/// Whether the calling thread's network namespace is the machine's first one.
#[must_use]
pub fn in_first_namespace() -> bool {
    Path::new(ONLY_IN_THE_FIRST).exists()
}

/// The addresses that are not local in the calling thread's network namespace; empty if the kernel does not report it.
#[must_use]
pub fn foreign(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    match Wire::open() {
        Ok(mut wire) => addresses.retain(|address| !wire.is_local(*address)),
        Err(_) => addresses.clear(),
    }
    addresses
}

impl OwnNamespace {
    /// Makes the changes in the calling thread's network namespace. If a prefix becomes local, the loopback device is
    /// brought up, because packets to it pass through there.
    ///
    /// # Errors
    /// See [`OwnError`]; nothing is changed in that case.
    pub fn change(changes: &[Change]) -> Result<Self, OwnError> {
        if !changes.is_empty() && in_first_namespace() {
            let commands: Vec<String> = changes.iter().map(Change::to_string).collect();
            let commands = commands.join("; ");
            return Err(OwnError::First(commands));
        }
        let mut own = Self {
            changed: Vec::new(),
            switched_on: false,
        };
        for change in changes {
            own.make(change)
                .map_err(|cause| OwnError::Rejected(change.clone(), cause))?;
        }
        Ok(own)
    }

    fn make(&mut self, change: &Change) -> Result<(), HostError> {
        let prefix = match change {
            Change::Setting { name, value } => return self.set(name, value),
            Change::Local(prefix) => *prefix,
        };
        let mut wire = Wire::open()?;
        let loopback = wire.link("lo")?;
        if !loopback.up {
            wire.switch(loopback.index, UP)?;
            self.switched_on = true;
        }
        if prefix.addr().is_ipv6() {
            // By default IPv6 binds only addresses that are on a device (`ip_nonlocal_bind`).
            self.set("net.ipv6.ip_nonlocal_bind", "1")?;
        }
        // The loopback device configures its own addresses.
        if !wire.is_local(prefix.addr()) {
            wire.add_local_route(loopback.index, prefix)?;
            self.changed.push(change.clone());
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), HostError> {
        let (name, before) = (name.to_owned(), Tree::machine().text(&setting_path(name))?);
        write_setting(&name, value)?;
        self.changed.push(Change::Setting { name, value: before });
        Ok(())
    }
}

impl Drop for OwnNamespace {
    fn drop(&mut self) {
        // A device or route that no longer exists needs no revert.
        let Ok(mut wire) = Wire::open() else { return };
        let loopback = wire.link("lo").map_or(0, |link| link.index);
        for change in self.changed.drain(..).rev() {
            let _ = match change {
                Change::Setting { name, value } => write_setting(&name, &value),
                Change::Local(prefix) => wire.remove_local_route(loopback, prefix),
            };
        }
        if self.switched_on {
            let _ = wire.switch(loopback, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::side::Keeper;
    use nix::sched::{CloneFlags, unshare};

    const RANGE: &str = "net.ipv4.ip_local_port_range";

    fn range() -> String {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_a_run_changes_of_its_own_namespace_is_put_back() {
        let keeper = Keeper::start("own").unwrap();
        let entered = keeper.run(|| unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| errno.to_string()));
        if let Err(reason) = entered {
            eprintln!("skipped: cannot make a network namespace: {reason}");
            return;
        }
        keeper.run(|| {
            assert!(!in_first_namespace());
            let before = range();
            let addresses: [IpAddr; 2] = ["10.9.200.1".parse().unwrap(), "fd09::5".parse().unwrap()];
            let prefixes = ["10.9.0.0/16", "fd09::/64"].map(|prefix| Change::Local(prefix.parse().unwrap()));
            let setting = Change::Setting {
                name: RANGE.to_owned(),
                value: "2000 3000".to_owned(),
            };
            let own = OwnNamespace::change(&[&prefixes[..], &[setting]].concat()).unwrap();
            assert_eq!(range(), "2000 3000");
            assert_eq!(foreign(addresses.to_vec()), [] as [IpAddr; 0]);
            for address in addresses {
                std::net::UdpSocket::bind((address, 0)).unwrap();
            }
            drop(own);
            assert_eq!(range(), before);
            assert_eq!(foreign(addresses.to_vec()), addresses);
            let unknown = Change::Setting {
                name: "net.ipv4.no_such_setting".to_owned(),
                value: "1".to_owned(),
            };
            let wrong = OwnNamespace::change(&[prefixes[0].clone(), unknown]).unwrap_err();
            assert!(
                wrong
                    .to_string()
                    .starts_with("sysctl -w net.ipv4.no_such_setting='1': "),
                "{wrong}"
            );
            assert_eq!(
                foreign(addresses.to_vec()),
                addresses,
                "the first of them is put back"
            );
        });
    }

    #[test]
    fn the_machines_first_namespace_is_left_alone() {
        if !in_first_namespace() {
            eprintln!("skipped: the test runs in a network namespace of its own");
            return;
        }
        let change = Change::Local("10.9.0.0/16".parse().unwrap());
        let refused = OwnNamespace::change(&[change]).unwrap_err().to_string();
        assert!(
            refused.contains("ip route add local 10.9.0.0/16 dev lo"),
            "{refused}"
        );
    }
}
