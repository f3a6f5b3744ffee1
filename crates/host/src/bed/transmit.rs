//! Which transmit queue of a side's device a CPU sends on (XPS): the CPUs of each queue in, a setting of the namespace out.
//!
//! sysfs shows the devices of the namespace that it was mounted from, and the machine's own instance shows the machine's. So
//! a thread mounts one of its own, where nobody else sees it, and both go when it has written.

use super::side::Side;
use crate::HostError;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::io;

/// Where sysfs is found, and where the thread mounts its own.
const SYSFS: &str = "/sys";

impl Side {
    /// Gives transmit queue *i* of this side's device to the CPUs of `cpus[i]`; a queue without CPUs is chosen by none, and
    /// where no queue has a CPU the kernel chooses by a hash of the frame (`Documentation/networking/scaling.rst`, XPS).
    ///
    /// # Errors
    ///
    /// [`HostError::Setting`] on loopback, where the setting would be the machine's; where the kernel permits no mount; and
    /// where the device has fewer queues.
    pub fn give_transmit_queues(&self, cpus: &[Vec<u32>]) -> Result<(), HostError> {
        let device = self.device().to_owned();
        let setting = move |queue: usize| format!("{SYSFS}/class/net/{device}/queues/tx-{queue}/xps_cpus");
        let failed = |name: String, value: &str, cause: io::Error| HostError::Setting {
            name,
            value: value.to_owned(),
            cause,
        };
        if !self.has_own_namespace() {
            let why = "on the loopback bed it would change the machine; use a bed of namespaces";
            let cause = io::Error::new(io::ErrorKind::PermissionDenied, why);
            return Err(failed(setting(0), "", cause));
        }
        let masks: Vec<String> = cpus.iter().map(|cpus| mask(cpus)).collect();
        let first = setting(0);
        let write = move || -> Result<(), HostError> {
            own_sysfs().map_err(|cause| failed(SYSFS.to_owned(), "a mount of its own", cause))?;
            for (queue, mask) in masks.iter().enumerate() {
                let path = setting(queue);
                fs::write(&path, mask).map_err(|cause| failed(path, mask, cause))?;
            }
            Ok(())
        };
        let thread = self.spawn(write).map_err(|cause| HostError::Setting {
            name: first,
            value: "from a thread of its own".to_owned(),
            cause,
        })?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Gives the calling thread a mount namespace in which `/sys` shows its network namespace.
fn own_sysfs() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let (none, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    mount(none, "/", none, private, none)?;
    mount(Some("sysfs"), SYSFS, Some("sysfs"), MsFlags::empty(), none)?;
    Ok(())
}

/// CPUs as the kernel reads them: groups of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let group = |index: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == index);
        format!("{:08x}", bits.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32)))
    };
    let groups: Vec<String> = (0..groups).rev().map(group).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_groups_of_32_cpus_the_highest_first() {
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[0, 5]), "00000021");
        assert_eq!(mask(&[1, 32, 63]), "80000001,00000002");
    }
}
