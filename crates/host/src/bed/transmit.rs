//! Which transmit queue of a side's device a CPU sends on (XPS): the CPUs of each queue in, a setting of the namespace out.

use super::side::Side;
use crate::HostError;
use crate::cpus::list;
use crate::mounts;

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
