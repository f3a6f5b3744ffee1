//! The experiment, for the runner: a bed, a guest in it for each model, and the traffic.

use super::document::{ModelReport, NicProbed, NicReport, SCHEMA, Verdict};
use super::guest::{MODELS, Model, TAP};
use super::plan::NicPlan;
use super::traffic;
use crate::child;
use crate::document::{Head, RunFacts, TrialStatus, as_json};
use crate::error::LabError;
use crate::experiment::{Experiment, Trying};
use corelane_guest::{GuestParts, GuestPlan, boot};
use corelane_host::bed::{Bed, BedPlan};
use serde_json::Value;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The experiment: each model of device is a step, tried once.
pub struct NicProof {
    /// What is set and sent.
    pub plan: NicPlan,
    /// Where the guest's kernel is looked for.
    pub kernel_directories: Vec<PathBuf>,
    /// This program, which is its own probe in the guest.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: RunFacts,
}

impl Experiment for NicProof {
    type Document = NicReport;
    type Error = LabError;

    fn plan(&self) -> Result<Value, LabError> {
        Ok(as_json(&self.plan))
    }

    fn begin(&mut self) -> Result<NicReport, LabError> {
        GuestParts::find(&self.kernel_directories)?;
        Ok(NicReport {
            head: Head::new(SCHEMA, &self.facts, None),
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

    fn trial(&mut self, trying: &mut Trying<'_>, report: &mut NicReport) -> Result<TrialStatus, LabError> {
        let model = MODELS[trying.turn.step];
        let parts = GuestParts::find(&self.kernel_directories)?;
        report
            .models
            .push(match model.guest(&parts, &self.program, &self.plan)? {
                Ok(guest) => probe_model(model, &guest, &parts, &self.plan)?,
                Err(reason) => ModelReport {
                    model: model.name.to_owned(),
                    skipped: Some(reason),
                    ..ModelReport::default()
                },
            });
        Ok(TrialStatus::Valid)
    }

    fn conclude(&self, report: &mut NicReport) {
        let place = |of: &ModelReport| MODELS.iter().position(|model| model.name == of.model);
        report.models.sort_by_key(place);
        report.verdict = report.judged();
    }
}

fn probe_model(
    model: Model,
    guest: &GuestPlan,
    parts: &GuestParts,
    plan: &NicPlan,
) -> Result<ModelReport, LabError> {
    // Any addresses do: nothing of the bed is used but that its namespaces are its own and silent.
    let mut bed_plan = BedPlan::new(
        [198, 51, 100, 1].into(),
        vec!["198.51.100.0/24".parse().expect("a prefix")],
    );
    bed_plan.loopback_ok = false;
    let bed = Bed::build(&bed_plan)?;
    let over = Arc::new(AtomicBool::new(false));
    let booting = {
        let (guest, own_parts, over) = (guest.clone(), parts.clone(), Arc::clone(&over));
        let run = move || {
            let booted = boot(&guest, &own_parts);
            over.store(true, Ordering::Release);
            booted
        };
        let started = bed.server.spawn(run);
        started.map_err(|error| LabError::Failed(format!("{}: {error}", parts.qemu.display())))?
    };
    let sent = {
        let plan = plan.clone();
        bed.server
            .run(move || traffic::send(&plan, TAP, &|| over.load(Ordering::Acquire)))
    };
    let booted = booting.join().unwrap_or_else(|panic| resume_unwind(panic));
    // What the guest says of itself is nearer to the cause than that nothing more could be sent.
    let booted = booted?;
    let failed = |reason: String| {
        LabError::Failed(format!(
            "the guest's probe failed: {reason}\n{}",
            booted.output.trim()
        ))
    };
    let report = child::last_report(&booted.output).map_err(failed)?;
    let probed = serde_json::from_value(report).map_err(|error| failed(error.to_string()));
    let mut probed: NicProbed = probed?;
    for (round, sent) in probed.rounds.iter_mut().zip(sent?) {
        round.sent = sent;
    }
    Ok(ModelReport {
        model: model.name.to_owned(),
        probed: Some(probed),
        took_seconds: Some(booted.took.as_secs_f64()),
        ..ModelReport::default()
    })
}
