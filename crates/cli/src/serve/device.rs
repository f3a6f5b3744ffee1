//! `--dev DEVICE`: a server that uses the steering of a device and follows its changes.
//!
//! Input: a device's name and the flow types served. Output: its steering document, and later a changed table. A changed
//! table can be followed; a changed key, field or CPU cannot and is reported as an error.

use crate::outcome::usage;
use crate::steering::refused_device;
use corelane_host::ethtool::FlowType;
use corelane_host::inventory::{Inventory, inventory, mismatch, steering};
use corelane_rss::{IndirectionTable, Steering};
use std::time::{Duration, Instant};

/// Poll interval of the device. Each poll costs a few milliseconds of CPU time.
const INTERVAL: Duration = Duration::from_secs(2);

/// A device whose steering is followed.
pub struct Followed {
    device: String,
    /// One per protocol and address family.
    flow_types: Vec<FlowType>,
    steering: Steering,
    asked: Instant,
}

impl Followed {
    /// Reads the steering document of `device` for flows of these types, which it must be the same for. `given`, if present, must match it.
    ///
    /// # Errors
    /// A usage error that names the missing part or the difference.
    pub fn new(device: &str, flow_types: Vec<FlowType>, given: Option<&Steering>) -> anyhow::Result<Self> {
        let own = common(&inventory(), device, &flow_types)?;
        if let Some(difference) = given.and_then(|given| mismatch(&own, given)) {
            return Err(usage("--steering and --dev", format!("{device}: {difference}")));
        }
        Ok(Self {
            device: device.to_owned(),
            flow_types,
            steering: own,
            asked: Instant::now(),
        })
    }

    /// The steering document as of the last poll.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// What to report once the device's table was applied.
    pub fn applied(&self, moved: usize) -> String {
        let (device, entries) = (&self.device, self.steering.table.size());
        format!("the table of {device} changed and was applied: {moved} of {entries} entries moved")
    }

    /// The new table, if the device's table has changed.
    ///
    /// # Errors
    /// Anything other than the table's entries changed. Sockets cannot follow that.
    pub fn changed(&mut self) -> anyhow::Result<Option<IndirectionTable>> {
        if self.asked.elapsed() < INTERVAL {
            return Ok(None);
        }
        self.asked = Instant::now();
        let own = common(&inventory(), &self.device, &self.flow_types)?;
        let with_table = Steering {
            table: own.table.clone(),
            cpus: own.cpus.clone(),
            ..self.steering.clone()
        };
        let (queues, buckets) = (own.table.buckets(), self.steering.table.buckets());
        let without_worker = (queues > buckets)
            .then(|| format!("its table uses {queues} queues, but only {buckets} have workers"));
        let mut cpus = own.cpus.iter().zip(&self.steering.cpus).enumerate();
        let moved = cpus.find(|(_, (now, before))| now != before);
        let moved = moved.map(|(queue, (now, before))| {
            format!("queue {queue} is served by CPU {now}, but its worker runs on CPU {before}")
        });
        if let Some(difference) = mismatch(&own, &with_table).or(without_worker).or(moved) {
            anyhow::bail!("{} changed while it was followed: {difference}", self.device);
        }
        if own.table == self.steering.table {
            return Ok(None);
        }
        self.steering.table = own.table.clone();
        Ok(Some(own.table))
    }
}

/// The steering of a device that is the same for all these flow types.
fn common(inventory: &Inventory, device: &str, flow_types: &[FlowType]) -> anyhow::Result<Steering> {
    let of = |flow_type| steering(inventory, device, flow_type).map_err(|error| refused_device(&error));
    let own = of(flow_types[0])?;
    for flow_type in &flow_types[1..] {
        if let Some(difference) = mismatch(&own, &of(*flow_type)?) {
            let is_tcp = |flow_type| matches!(flow_type, FlowType::Tcp4 | FlowType::Tcp6);
            let one = match is_tcp(flow_types[0]) == is_tcp(*flow_type) {
                true => "one family (--ipv6-only)",
                false => "TCP or UDP alone (-U 0, -p 0), or steer datagrams by key (--steer-keys)",
            };
            let [first, other] = [flow_types[0], *flow_type].map(FlowType::name);
            let what = format!("{device} steers {first} and {other} differently: serve {one}; {difference}");
            return Err(usage("--dev", what));
        }
    }
    Ok(own)
}
