//! `corelane steer --rebalance`: rebalances the group of a running server until interrupted.

use crate::interrupt::Interrupt;
use crate::outcome::Outcome;
use crate::rebalanced;
use crate::serve::live_table::LiveTable;
use corelane_rss::Steering;
use corelane_rss::balance::{EntryLoads, Policy};
use corelane_serve::endpoint::Endpoint;
use corelane_serve::metrics::ForeignTable;
use corelane_worker::Time;
use corelane_worker::adopt::{Adopted, SampledLoads, Sought};
use corelane_worker::rebalancing::{Rebalanced, Rebalancing};
use std::thread;
use std::time::{Duration, Instant};

/// How often samples, signals and the deadline are polled.
const LOOK: Duration = Duration::from_millis(20);

/// How often the group is compared with that of the start.
const SAME: Duration = Duration::from_millis(500);

/// What rebalancing needs.
pub struct Means {
    /// A sample of the packets to the group.
    pub sampled: SampledLoads,
    /// Where its table is read from and written to.
    pub table: LiveTable,
    pub metrics: Option<Endpoint>,
}

/// What rebalancing did until it ended.
pub struct Ended {
    /// The last steering.
    pub steering: Steering,
    /// What was moved.
    pub done: Rebalanced,
    /// Why it ended early: the server's sockets changed or are gone, or the loads cannot be measured.
    pub lost: Option<anyhow::Error>,
}

/// Rebalances a group that is steered by `steering`, bucket *i* at member `places[i]`.
///
/// # Errors
/// The steering cannot be published: the program was detached.
pub fn rebalance(
    (sought, group): (Sought, &Adopted),
    (steering, places): (Steering, &[u16]),
    (policy, duration): (Policy, Option<Duration>),
    mut means: Means,
) -> anyhow::Result<Ended> {
    let interrupt = Interrupt::catch()?;
    let mut live = group.steered(steering, places.to_vec())?;
    let begun = means.table.begin(Some(live.steering()));
    begun.inspect_err(|_| drop(group.detach()))?;
    let started = Instant::now();
    let mut rebalancing = Rebalancing::new(policy, live.sockets(), started, EntryLoads::default());
    let mut compared = Compared {
        at: started,
        failures: 0,
    };
    let mut look = || -> Outcome {
        compared.look(sought, group)?;
        means.sampled.collect(Time::now())?;
        rebalancing.look(Instant::now(), &mut live, || means.sampled.loads());
        rebalanced::log(&mut rebalancing);
        if let Some(metrics) = &means.metrics {
            metrics.look(|| {
                Box::new(ForeignTable {
                    steering: live.steering().clone(),
                    rebalanced: rebalancing.done().clone(),
                })
            });
        }
        means.table.look(Some(&mut live))
    };
    let mut lost = None;
    while lost.is_none() && !interrupt.asked() && duration.is_none_or(|duration| started.elapsed() < duration)
    {
        thread::sleep(LOOK);
        lost = look().err();
    }
    Ok(Ended {
        steering: live.steering().clone(),
        done: rebalancing.done().clone(),
        lost,
    })
}

/// Comparisons of the group with that of the start.
struct Compared {
    at: Instant,
    /// Failed ones in a row.
    failures: u32,
}

/// A comparison fails if a process ends while its sockets are listed; that many in a row mean that the group is gone.
const FAILURES: u32 = 4;

impl Compared {
    /// An error if the server has ended, or its group is another: the program is detached then, which would steer a
    /// group of other sockets by numbers of these.
    fn look(&mut self, sought: Sought, group: &Adopted) -> Outcome {
        let changed = if group.has_ended() {
            "the server has ended"
        } else if self.at.elapsed() < SAME {
            return Ok(());
        } else {
            self.at = Instant::now();
            match Adopted::find(sought) {
                Ok(found) if found.has_members_of(group) => self.failures = 0,
                Ok(_) => self.failures = FAILURES,
                Err(_) => self.failures += 1,
            }
            if self.failures < FAILURES {
                return Ok(());
            }
            "the server's sockets changed"
        };
        group.detach()?;
        anyhow::bail!("{changed}: the program was detached; run steer again")
    }
}
