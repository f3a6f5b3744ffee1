//! The experiment, for the runner: a bed, a guest in it for each model, and the traffic.

use super::document::{ModelReport, NicProbed, NicReport, SCHEMA, Verdict};
use super::frames::GUEST;
use super::plan::NicPlan;
use super::traffic;
use crate::child;
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial, joined};
use crate::trial::{RawTrials, Trial as _};
use anyhow::anyhow;
use corelane_guest::{GuestParts, GuestPlan, boot_unless};
use corelane_host::bed::{Bed, BedPlan};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The experiment: each model of device is a step with one trial.
pub struct NicProof {
    /// What is set and sent.
    pub plan: NicPlan,
    /// This program, which is its own probe in the guest.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: Head,
}

impl Experiment for NicProof {
    type Document = NicReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(&self.plan))
    }

    fn begin(&mut self) -> anyhow::Result<NicReport> {
        GuestParts::find()?;
        Ok(NicReport {
            head: self.facts.begun(SCHEMA, None),
            models: Vec::new(),
            verdict: Verdict::default(),
        })
    }

    fn steps(&self) -> usize {
        MODELS.len()
    }

    fn title(&self, step: usize, _: &Self::Document) -> String {
        MODELS[step].name.to_owned()
    }

    fn result(&self, step: usize, report: &NicReport) -> Option<String> {
        let last = report.models.iter().rfind(|model| model.head.step == step)?;
        last.in_words(|model| match &model.skipped {
            Some(reason) => Some(format!("skipped: {reason}")),
            None => Some(Verdict::of(slice::from_ref(model)).counts()),
        })
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut NicReport) -> anyhow::Result<()> {
        let model = MODELS[running.turn.step];
        let parts = GuestParts::find()?;
        let mut found = ModelReport {
            head: running.head(0.0),
            model: model.name.to_owned(),
            ..ModelReport::default()
        };
        let plan = match model.parses_extensions {
            true => self.plan.clone(),
            false => self.plan.clone().without_extensions(),
        };
        match model.guest(&parts, &self.program, &plan)? {
            Ok(guest) => {
                let interrupt = running.watch().interrupt;
                let (probed, took) = probe_model(&guest, &parts, &plan, interrupt)?;
                found.head.duration_s = took.as_secs_f64();
                (found.probed, found.took_seconds) = (Some(probed), Some(took.as_secs_f64()));
            }
            Err(reason) => found.skipped = Some(reason),
        }
        report.models.push(found);
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut NicReport) -> &'a mut dyn RawTrials {
        &mut report.models
    }

    fn conclude(&self, report: &mut NicReport) {
        let place = |of: &ModelReport| MODELS.iter().position(|model| model.name == of.model);
        report.models.sort_by_key(place);
        report.verdict = Verdict::of(&report.models);
    }
}

/// What the guest found, and how long it ran; it is stopped when `interrupt` is set.
fn probe_model(
    guest: &GuestPlan,
    parts: &GuestParts,
    plan: &NicPlan,
    interrupt: &AtomicBool,
) -> anyhow::Result<(NicProbed, Duration)> {
    // Any addresses do: nothing of the bed is used but that its namespaces are its own and silent.
    let mut bed_plan = BedPlan::new(
        [198, 51, 100, 1].into(),
        vec!["198.51.100.0/24".parse().expect("a prefix")],
    );
    bed_plan.loopback_ok = false;
    let bed = Bed::build(&bed_plan)?;
    let (over, stop) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let booting = {
        let (guest, own_parts) = (guest.clone(), parts.clone());
        let (over, stop) = (Arc::clone(&over), Arc::clone(&stop));
        let run = move || {
            let booted = boot_unless(&guest, &own_parts, || stop.load(Ordering::Relaxed));
            over.store(true, Ordering::Release);
            booted
        };
        let started = bed.server.spawn(run);
        started.map_err(|error| anyhow!("{}: {error}", parts.qemu.display()))?
    };
    let sent = {
        let plan = plan.clone();
        let send = move || traffic::send(&plan, TAP, &|| over.load(Ordering::Acquire));
        bed.server.spawn(send)
    };
    while !booting.is_finished() {
        let stops = sent.is_err() || interrupt.load(Ordering::Relaxed);
        stop.store(stops, Ordering::Relaxed);
        thread::sleep(LOOK);
    }
    let booted = joined(booting.join());
    // What the guest says of itself is nearer to the cause than that nothing more could be sent.
    let (sent, booted) = (joined(sent?.join()), booted?);
    let failed = |reason: String| anyhow!("the guest's probe failed: {reason}\n{}", booted.output.trim());
    let report = child::last_report(&booted.output).map_err(failed)?;
    let probed = serde_json::from_value(report).map_err(|error| failed(error.to_string()));
    let mut probed: NicProbed = probed?;
    for (round, sent) in probed.rounds.iter_mut().zip(sent?) {
        round.sent = sent;
    }
    Ok((probed, booted.took))
}

/// Interval between polls of the guest and of the interrupt flag.
const LOOK: Duration = Duration::from_millis(20);

/// The tap that the emulator makes.
pub(super) const TAP: &str = "guest0";

/// Queues of the device, and CPUs of the guest: each queue's interrupt on a CPU of its own.
const QUEUES: u32 = 4;

/// When a guest must have ended, boot included: under a minute alone, but its CPUs share one thread of a busy machine.
const LIMIT: Duration = Duration::from_secs(1_200);

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
    /// Whether it finds the ports behind IPv6 extension headers.
    parses_extensions: bool,
}

/// All of them.
pub(super) const MODELS: [Model; 2] = [
    Model {
        name: "virtio-net",
        device: "virtio-net-pci",
        options: ",mq=on,rss=on,hash=on,vectors=10",
        modules: &["virtio_pci", "virtio_net"],
        since: "5.2",
        parses_extensions: true,
    },
    Model {
        name: "igb",
        device: "igb",
        options: "",
        modules: &["igb"],
        since: "8.0",
        // Its driver turns that off (`E1000_RFCTL_IPV6_EX_DIS`).
        parses_extensions: false,
    },
];

impl Model {
    /// The guest that probes the device by `plan`, or why there can be none of this model.
    pub(super) fn guest(
        &self,
        parts: &GuestParts,
        program: &Path,
        plan: &NicPlan,
    ) -> anyhow::Result<Result<GuestPlan, String>> {
        let known = Command::new(&parts.qemu).args(["-device", "help"]).output();
        let known = known.map_err(|error| anyhow!("{}: {error}", parts.qemu.display()))?;
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
        let order = child::order(super::PROBE, plan);
        let order = order.map_err(|error| anyhow!("the plan cannot be written: {error}"))?;
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
