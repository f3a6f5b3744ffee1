//! The guest of one model of device: what it is made of, and what it runs.

use super::frames::GUEST;
use super::plan::NicPlan;
use crate::child;
use crate::error::LabError;
use corelane_guest::{GuestParts, GuestPlan};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The tap that the emulator makes.
pub(super) const TAP: &str = "guest0";

/// Queues of the device, and CPUs of the guest: each queue's interrupt on a CPU of its own.
const QUEUES: u32 = 4;

/// When a guest must have ended, boot included: under a minute alone, more when others use all CPUs.
const LIMIT: Duration = Duration::from_secs(150);

/// A model of device that really does RSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// Its name in the report.
    pub(super) name: &'static str,
    /// Its name in the emulator, and its options besides its link address, each after a comma.
    device: &'static str,
    options: &'static str,
    /// The modules of its driver.
    modules: &'static [&'static str],
    /// The first emulator that has it.
    since: &'static str,
}

/// All of them.
pub(super) const MODELS: [Model; 2] = [
    Model {
        name: "virtio-net",
        device: "virtio-net-pci",
        options: ",mq=on,rss=on,hash=on,vectors=10",
        modules: &["virtio_pci", "virtio_net"],
        since: "5.2",
    },
    Model {
        name: "igb",
        device: "igb",
        options: "",
        modules: &["igb"],
        since: "8.0",
    },
];

impl Model {
    /// The guest that probes the device by `plan`, or why there can be none of this model.
    pub(super) fn guest(
        &self,
        parts: &GuestParts,
        program: &Path,
        plan: &NicPlan,
    ) -> Result<Result<GuestPlan, String>, LabError> {
        let known = Command::new(&parts.qemu).args(["-device", "help"]).output();
        let known = known.map_err(|error| LabError::Failed(format!("{}: {error}", parts.qemu.display())))?;
        let name = format!("\"{}\"", self.device);
        if !String::from_utf8_lossy(&known.stdout).contains(&name) {
            let (device, since) = (self.device, self.since);
            let lacks = format!("this QEMU has no device {device}");
            return Ok(Err(format!("{lacks}: {since} is the first with it")));
        }
        let modules = match parts.modules(self.modules) {
            Ok(modules) => modules,
            Err(error) if self.name == MODELS[0].name => return Err(error.into()),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let address: Vec<String> = GUEST.iter().map(|byte| format!("{byte:02x}")).collect();
        let order = child::order(child::PROBE, plan);
        let order =
            order.map_err(|error| LabError::Failed(format!("the plan cannot be written: {error}")))?;
        let program_name = program.file_name().unwrap_or_default().to_string_lossy();
        let child = child::CHILD_ARGUMENT;
        Ok(Ok(GuestPlan {
            cpus: QUEUES,
            modules,
            programs: vec![program.to_owned()],
            devices: vec![
                "-netdev".to_owned(),
                format!("tap,id=n0,ifname={TAP},queues={QUEUES},script=no,downscript=no,vhost=off"),
                "-device".to_owned(),
                format!(
                    "{},netdev=n0,mac={}{}",
                    self.device,
                    address.join(":"),
                    self.options
                ),
            ],
            limit: LIMIT,
            ..GuestPlan::new(format!("{program_name} {child} <<'ORDER'\n{order}\nORDER\n"))
        }))
    }
}
