//! `--dev DEVICE`: a server that steers by what a device does, and follows it while it serves.
//!
//! What enters: a device's name and the type of flow that is served. What leaves: its steering document, and later what of it
//! changed. A changed table can be followed; a changed key, field or CPU cannot, and is named.

use crate::outcome::usage;
use corelane_host::ethtool::FlowType;
use corelane_host::inventory::{inventory, mismatch, steering};
use corelane_rss::{IndirectionTable, Steering};
use std::time::{Duration, Instant};

/// How often the device is asked whether it changed: each time costs some milliseconds of one CPU.
const INTERVAL: Duration = Duration::from_secs(2);

/// A device that is followed.
pub struct Followed {
    device: String,
    flow_type: FlowType,
    steering: Steering,
    asked: Instant,
}

impl Followed {
    /// Takes the document of `device` for flows of that type. One that was given besides has to be the same.
    ///
    /// # Errors
    /// A usage error that names what is in the way, or what differs.
    pub fn new(device: &str, flow_type: FlowType, given: Option<&Steering>) -> anyhow::Result<Self> {
        let own = steering(&inventory(), device, flow_type).map_err(|error| usage("--dev", error))?;
        if let Some(difference) = given.and_then(|given| mismatch(&own, given)) {
            return Err(usage("--steering and --dev", format!("{device}: {difference}")));
        }
        Ok(Self {
            device: device.to_owned(),
            flow_type,
            steering: own,
            asked: Instant::now(),
        })
    }

    /// Its document as it was last seen.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Says on standard error that the device's table changed and is followed.
    pub fn announce(&self, moved: usize) {
        let (device, entries) = (&self.device, self.steering.table.size());
        eprintln!(
            "corelane: the table of {device} changed, and is followed: {moved} of {entries} entries moved"
        );
    }

    /// The table to steer by from now on, where the device has another.
    ///
    /// # Errors
    /// When anything but the table's entries changed: sockets cannot follow that.
    pub fn changed(&mut self) -> anyhow::Result<Option<IndirectionTable>> {
        if self.asked.elapsed() < INTERVAL {
            return Ok(None);
        }
        self.asked = Instant::now();
        let own = steering(&inventory(), &self.device, self.flow_type)?;
        let with_table = Steering {
            table: own.table.clone(),
            cpus: own.cpus.clone(),
            ..self.steering.clone()
        };
        let buckets = self.steering.table.buckets();
        if let Some(difference) = mismatch(&own, &with_table) {
            anyhow::bail!("{} changed while it was followed: {difference}", self.device);
        }
        if own.table.buckets() > buckets {
            anyhow::bail!(
                "{} changed while it was followed: its table names {} queues, and {buckets} have workers",
                self.device,
                own.table.buckets()
            );
        }
        let moved = own
            .cpus
            .iter()
            .zip(&self.steering.cpus)
            .position(|(now, before)| now != before);
        if let Some(queue) = moved {
            anyhow::bail!(
                "{} changed while it was followed: queue {queue} is worked on by CPU {}, and its worker runs on CPU {}",
                self.device,
                own.cpus[queue],
                self.steering.cpus[queue]
            );
        }
        if own.table == self.steering.table {
            return Ok(None);
        }
        self.steering.table = own.table.clone();
        Ok(Some(own.table))
    }
}
