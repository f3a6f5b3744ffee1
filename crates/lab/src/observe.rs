//! What `--profile`, `--locks` and `--softnet` watch while a trial is measured.
//!
//! In: the requested observations, the CPUs of the step, and the processes of its server and generator. Out: an
//! [`Observed`] for the document. An unavailable observation is omitted with its reason, which names the missing
//! permission; it never fails a trial.

use crate::observed::Observed;
use corelane_observe::ObserveError;
use corelane_observe::locks::{LockSite, LockWatch};
use corelane_observe::profile::{Processes, Profiler};
use corelane_observe::softnet::SoftnetWatch;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time between two readings of the backlogs, for their high-water marks: a thousandth of a CPU.
const SOFTNET_INTERVAL: Duration = Duration::from_millis(10);

/// Functions and lock sites kept in the document: three times what the posts show. The tail, hundreds of functions with
/// a sample or two, would make up most of the document and says nothing.
const MOST_ROWS: usize = 40;

/// What is to be observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Observe {
    /// Where the CPUs' time goes.
    pub profile: bool,
    /// Which kernel locks are waited for.
    pub locks: bool,
    /// What each CPU's receive path does.
    pub softnet: bool,
}

/// An observation under way.
pub(crate) struct Observation {
    cpus: Vec<u32>,
    profile: Option<Result<Profiler, ObserveError>>,
    locks: Option<Result<LockWatch, ObserveError>>,
    softnet: Option<Result<SoftnetWatch, ObserveError>>,
}

impl Observation {
    /// Starts the requested observations, the profile last: it looks up what the processes have mapped, and a fresh process has that
    /// only after a moment.
    pub(crate) fn start(requested: Observe, cpus: Vec<u32>, processes: &Processes) -> Self {
        let all = [&processes.server[..], &[processes.generator]].concat();
        let softnet = requested.softnet.then(|| SoftnetWatch::start(SOFTNET_INTERVAL));
        let locks = requested.locks.then(|| LockWatch::start(&cpus, &all));
        let profile = requested.profile.then(|| Profiler::start(&cpus, processes));
        Self {
            cpus,
            profile,
            locks,
            softnet,
        }
    }

    /// Stops, and returns what was seen; `None` when nothing was requested.
    pub(crate) fn finish(self, round: usize) -> Option<Observed> {
        if self.profile.is_none() && self.locks.is_none() && self.softnet.is_none() {
            return None;
        }
        let mut unknown = BTreeMap::new();
        let mut softnet = finished("softnet", self.softnet, SoftnetWatch::finish, &mut unknown);
        let mut locks = finished("locks", self.locks, LockWatch::finish, &mut unknown);
        let mut profile = finished("profile", self.profile, Profiler::finish, &mut unknown);
        if let Some(softnet) = &mut softnet {
            softnet.rows.retain(|row| self.cpus.contains(&row.cpu));
        }
        if let Some(locks) = &mut locks {
            let mut rank = 0..;
            let is_kept = |row: &LockSite| rank.next() < Some(MOST_ROWS) || row.receive_lock;
            locks.rows.retain(is_kept);
        }
        if let Some(profile) = &mut profile {
            for table in [&mut profile.workers, &mut profile.clients, &mut profile.softirq] {
                table.rows.truncate(MOST_ROWS);
            }
        }
        Some(Observed {
            round,
            profile,
            locks,
            softnet,
            unknown,
        })
    }
}

fn finished<Watch, Seen>(
    name: &str,
    watch: Option<Result<Watch, ObserveError>>,
    finish: impl FnOnce(Watch) -> Result<Seen, ObserveError>,
    unknown: &mut BTreeMap<String, String>,
) -> Option<Seen> {
    let seen = watch?.and_then(finish);
    seen.map_err(|error| unknown.insert(name.to_owned(), error.to_string()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_told_by_its_reason_and_the_rest_goes_on() {
        let mut unknown = BTreeMap::new();
        let refused: Option<Result<(), ObserveError>> =
            Some(Err(ObserveError::Refused("name at least one".to_owned())));
        assert_eq!(finished("locks", refused, |()| Ok(()), &mut unknown), None);
        assert_eq!(
            finished("softnet", Some(Ok(())), |()| Ok(7), &mut unknown),
            Some(7)
        );
        assert_eq!(
            finished("profile", None, |()| Ok(7), &mut unknown),
            None,
            "not requested"
        );
        assert_eq!(unknown.keys().collect::<Vec<_>>(), ["locks"]);
        assert!(unknown["locks"].contains("name at least one"), "{unknown:?}");
    }
}
