//! What `--profile`, `--locks` and `--softnet` watch while a trial is measured.
//!
//! In: what is asked, the CPUs of the step, and the processes of its server and generator. Out: an [`Observed`] for the
//! document. What cannot be had is left out with its reason, which says what to allow: no observation is worth a trial.

use super::plan::{PlannedStep, ScalePlan};
use crate::documents::observed::{
    LockComparison, LockRow, Observed, ObservedLocks, ObservedProfile, ObservedSoftnet, ProfileCaller,
    ProfileRow, ProfileTable, SoftnetRow,
};
use crate::scale::ScaleReport;
use crate::scale::Step;
use corelane_host::counters::Softnet;
use corelane_observe::ObserveError;
use corelane_observe::locks::{LockReport, LockSite, LockWatch, compare};
use corelane_observe::profile::{FunctionTable, Profile, Profiler, Settings, Target};
use corelane_observe::softnet::{SoftnetReading, SoftnetReport, SoftnetWatch};
use corelane_serve::udp::{Mode, Model};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

/// The time between two readings of the backlogs, for their high-water marks: a thousandth of a CPU.
const SOFTNET_INTERVAL: Duration = Duration::from_millis(10);

/// Functions and lock sites kept in the document: three times what the posts show. The tail, hundreds of functions with a
/// sample or two, would make up most of the document and says nothing.
const MOST_ROWS: usize = 40;

/// What is to be observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observe {
    /// Where the CPUs' time goes.
    pub profile: bool,
    /// Which kernel locks are waited for.
    pub locks: bool,
    /// What each CPU's receive path does.
    pub softnet: bool,
}

/// The processes of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processes {
    pub(super) server: u32,
    pub(super) generator: u32,
}

/// An observation under way.
pub(super) struct Observation {
    cpus: Vec<u32>,
    processes: Processes,
    profile: Option<Result<Profiler, ObserveError>>,
    locks: Option<Result<LockWatch, ObserveError>>,
    softnet: Option<Result<SoftnetWatch, ObserveError>>,
}

/// What one trial's observation saw.
pub(super) struct Seen {
    observed: Observed,
    locks: Option<LockReport>,
}

impl Observation {
    /// Starts what is asked, the profile last: it looks up what the processes have mapped, and a fresh process has that
    /// only after a moment.
    pub(super) fn start(asked: Observe, cpus: Vec<u32>, processes: Processes) -> Self {
        let both = vec![processes.server, processes.generator];
        let softnet = asked
            .softnet
            .then(|| SoftnetWatch::start(SOFTNET_INTERVAL, read_softnet));
        let locks = asked.locks.then(|| LockWatch::start(&cpus, &both));
        let settings = Settings {
            processes: both,
            ..Settings::default()
        };
        let profile = asked
            .profile
            .then(|| Profiler::start(Target::Cpus(cpus.clone()), settings));
        Self {
            cpus,
            processes,
            profile,
            locks,
            softnet,
        }
    }

    /// Stops and tells; `None` when nothing was asked.
    pub(super) fn finish(self, round: usize) -> Option<Seen> {
        if self.profile.is_none() && self.locks.is_none() && self.softnet.is_none() {
            return None;
        }
        let mut unknown = BTreeMap::new();
        let softnet = finished("softnet", self.softnet, SoftnetWatch::finish, &mut unknown);
        let locks = finished("locks", self.locks, LockWatch::finish, &mut unknown);
        let profile = finished("profile", self.profile, Profiler::finish, &mut unknown);
        let observed = Observed {
            round,
            profile: profile.map(|profile| told_profile(profile, self.processes)),
            locks: locks.as_ref().map(told_locks),
            softnet: softnet.map(|softnet| told_softnet(softnet, &self.cpus)),
            unknown,
        };
        Some(Seen { observed, locks })
    }
}

fn finished<Watch, Told>(
    name: &str,
    watch: Option<Result<Watch, ObserveError>>,
    finish: impl FnOnce(Watch) -> Result<Told, ObserveError>,
    unknown: &mut BTreeMap<String, String>,
) -> Option<Told> {
    let told = watch?.and_then(finish);
    told.map_err(|error| unknown.insert(name.to_owned(), error.to_string()))
        .ok()
}

fn read_softnet() -> Result<Vec<SoftnetReading>, Box<dyn Error + Send + Sync>> {
    let table = Softnet::read()?;
    let readings = table.cpus.iter().map(|line| SoftnetReading {
        cpu: line.cpu,
        processed: line.counters.processed,
        dropped: line.counters.dropped,
        time_squeeze: line.counters.time_squeeze,
        received_rps: line.counters.received_rps,
        flow_limit: line.counters.flow_limit,
        backlog: line.backlog,
    });
    Ok(readings.collect())
}

/// The last lock reports of the steps, for comparing echo beside sink.
#[derive(Default)]
pub(super) struct Kept {
    locks: BTreeMap<usize, LockReport>,
}

impl Kept {
    /// Puts what was seen of step `index` into the report, in place of an earlier round's.
    pub(super) fn keep(&mut self, report: &mut ScaleReport, index: usize, seen: Seen) {
        report.steps[index].observed = Some(seen.observed);
        if let Some(locks) = seen.locks {
            self.locks.insert(index, locks);
            report.lock_comparisons = self.comparisons(&report.steps);
        }
    }

    /// Exact steering's echo beside its sink with all buckets active, for each placement.
    fn comparisons(&self, steps: &[Step]) -> Vec<LockComparison> {
        let watched = |mode: Mode| {
            let of_mode = move |step: &Step| {
                step.variation.is_plain()
                    && (step.mode, step.model) == (mode, Model::Exact)
                    && step.buckets_active == step.buckets_configured
            };
            self.locks
                .iter()
                .map(|(index, locks)| (&steps[*index], locks))
                .filter(move |(step, _)| of_mode(step))
        };
        watched(Mode::Echo)
            .filter_map(|(step, echo)| {
                let (_, sink) = watched(Mode::Sink).find(|(other, _)| other.placement == step.placement)?;
                Some(LockComparison {
                    placement: step.placement,
                    buckets_active: step.buckets_active,
                    sentence: compare(echo, sink),
                })
            })
            .collect()
    }
}

/// The step that shows waits for the receive lock, where clients can be on other CPUs: the receive path then takes the lock
/// of a socket whose reader runs at the same time. On its worker's CPU it never can.
pub(super) fn crossed_sink(plan: &ScalePlan) -> Option<PlannedStep> {
    let echo = plan
        .steps
        .iter()
        .rfind(|step| step.model == Model::Exact && step.placement == crate::scale::Placement::Crossed)?;
    let sink = PlannedStep {
        mode: Mode::Sink,
        ..*echo
    };
    (plan.request.observe.locks && !plan.steps.contains(&sink)).then_some(sink)
}

fn told_profile(profile: Profile, processes: Processes) -> ObservedProfile {
    let of = |process: u32| {
        let found = profile
            .processes
            .iter()
            .find(|profile| profile.process == process);
        found
            .map(|profile| told_functions(&profile.functions))
            .unwrap_or_default()
    };
    ObservedProfile {
        event: profile.event.name().to_owned(),
        frequency_hz: profile.frequency_hz,
        elapsed_ns: profile.elapsed_ns,
        samples: profile.samples,
        lost_samples: profile.lost_samples,
        idle_samples: profile.idle_samples,
        elsewhere_samples: profile.elsewhere_samples,
        workers: of(processes.server),
        clients: of(processes.generator),
        softirq: told_functions(&profile.softirq),
        notes: with_lost(profile.notes, profile.lost_samples, "samples"),
    }
}

fn told_functions(table: &FunctionTable) -> ProfileTable {
    let rows = table.functions.iter().take(MOST_ROWS).map(|function| ProfileRow {
        samples_percent: function.share_percent,
        image: function.image.clone(),
        function: function.function.clone(),
        callers: function
            .callers
            .iter()
            .map(|caller| ProfileCaller {
                function: caller.function.clone(),
                samples_percent: caller.share_percent,
            })
            .collect(),
    });
    ProfileTable {
        samples: table.samples,
        unresolved_samples: table.unresolved_samples,
        functions: table.functions.len(),
        rows: rows.collect(),
    }
}

/// The notes, and a line more where the watch could not keep up.
fn with_lost(mut notes: Vec<String>, lost: u64, what: &str) -> Vec<String> {
    if lost > 0 {
        notes.push(format!("{lost} {what} found no room and are in no table"));
    }
    notes
}

fn told_locks(locks: &LockReport) -> ObservedLocks {
    let receive_lock = |site: &LockSite| {
        locks
            .receive_lock_sites()
            .any(|receive| std::ptr::eq(receive, site))
    };
    let ranked = locks.sites.iter().enumerate();
    let kept = ranked.filter(|(rank, site)| *rank < MOST_ROWS || receive_lock(site));
    let rows = kept.map(|(_, site)| LockRow {
        max_ns: site.max_ns,
        wait_max_ns: site.wait_max_ns,
        total_ns: site.total_ns,
        wait_total_ns: site.wait_total_ns,
        count: site.count,
        count_in_softirq: site.count_in_softirq,
        avg_ns: site.avg_ns,
        wait_avg_ns: site.wait_avg_ns,
        receive_lock: receive_lock(site),
        name: site.name(),
    });
    ObservedLocks {
        cpus: locks.cpus.clone(),
        elapsed_ns: locks.elapsed_ns,
        waits: locks.waits,
        wait_total_ns: locks.wait_total_ns,
        wait_percent: locks.wait_percent(),
        receive_lock_waits: locks.receive_lock_sites().map(|site| site.count).sum(),
        receive_lock_percent: locks.receive_lock_percent(),
        spin_coverage: word(&locks.spin_coverage),
        elsewhere_waits: locks.elsewhere_waits,
        lost_records: locks.lost_records,
        rows: rows.collect(),
        unknown: locks.unknown.clone(),
        notes: with_lost(locks.notes.clone(), locks.lost_records, "records of waits"),
    }
}

/// A unit variant as documents write it.
fn word(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}

fn told_softnet(softnet: SoftnetReport, cpus: &[u32]) -> ObservedSoftnet {
    let own = softnet.cpus.iter().filter(|line| cpus.contains(&line.cpu));
    ObservedSoftnet {
        elapsed_ns: softnet.elapsed_ns,
        readings: softnet.readings,
        rows: own
            .map(|line| SoftnetRow {
                cpu: line.cpu,
                processed: line.processed,
                dropped: line.dropped,
                squeezed: line.time_squeeze,
                received_rps: line.received_rps,
                flow_limit: line.flow_limit,
                backlog: line.backlog,
                backlog_high_water: line.backlog_high_water,
            })
            .collect(),
        unknown: softnet.unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_told_by_its_reason_and_the_rest_goes_on() {
        let mut unknown = BTreeMap::new();
        let refused: Option<Result<(), ObserveError>> = Some(Err(ObserveError::NoTarget));
        assert_eq!(finished("locks", refused, |()| Ok(()), &mut unknown), None);
        assert_eq!(
            finished("softnet", Some(Ok(())), |()| Ok(7), &mut unknown),
            Some(7)
        );
        assert_eq!(
            finished("profile", None, |()| Ok(7), &mut unknown),
            None,
            "not asked for"
        );
        assert_eq!(unknown.keys().collect::<Vec<_>>(), ["locks"]);
        assert!(unknown["locks"].contains("give at least one"), "{unknown:?}");
    }
}
