//! Assigns CPUs to the transmit queues of a side's device (XPS).

use super::side::Side;
use crate::HostError;
use crate::cpus::list;
use crate::mounts;

impl Side {
    /// Assigns the CPUs `cpus[i]` to transmit queue *i* of this side's device. A queue without CPUs is never chosen; if
    /// no queue has a CPU, the kernel chooses by a hash of the frame (`Documentation/networking/scaling.rst`, XPS).
    ///
    /// # Errors
    ///
    /// [`HostError::Setting`] on loopback, where the setting would change the machine; if the kernel does not permit a
    /// mount; and if the device has fewer queues.
    pub fn give_transmit_queues(&self, cpus: &[Vec<u32>]) -> Result<(), HostError> {
        let device = self.device().to_owned();
        let setting = move |queue: usize| format!("/sys/class/net/{device}/queues/tx-{queue}/xps_cpus");
        self.own_namespace(&setting(0), "")?;
        let masks: Vec<String> = cpus.iter().map(|cpus| list::format_mask(cpus)).collect();
        self.run(move || {
            mounts::with_own("sysfs", "/sys", false, |mounted| {
                mounted.map_err(HostError::setting("/sys", "a mount of its own"))?;
                for (queue, mask) in masks.iter().enumerate() {
                    let path = setting(queue);
                    std::fs::write(&path, mask).map_err(HostError::setting(&path, mask))?;
                }
                Ok(())
            })
        })
    }
}
