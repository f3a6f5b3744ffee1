//! `corelane steer --rebalance`: rebalances the group of a running server until interrupted.

use crate::interrupt::Interrupt;
use crate::outcome::Outcome;
use crate::rebalanced;
use crate::serve::steered::Steered;
use corelane_rss::Steering;
use corelane_rss::balance::{EntryLoads, Policy};
use corelane_worker::adopt::{Adopted, SampledLoads, Sought};
use corelane_worker::rebalancing::{Rebalanced, Rebalancing};
use std::thread;
use std::time::{Duration, Instant};

/// How often samples, signals and the deadline are polled.
const LOOK: Duration = Duration::from_millis(20);

/// How often the group is compared with that of the start.
const SAME: Duration = Duration::from_millis(500);

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
/// The loads cannot be measured, or the steering cannot be published: nothing was moved.
pub fn rebalance(
    (sought, group): (Sought, &Adopted),
    (steering, places): (Steering, &[u16]),
    (policy, duration): (Policy, Option<Duration>),
    mut steered: Steered,
) -> anyhow::Result<Ended> {
    let interrupt = Interrupt::catch()?;
    let mut sampled = SampledLoads::new(group, sought.process, &steering)?;
    let mut live = group.steered(steering, places.to_vec())?;
    steered.begin(Some(live.steering()))?;
    let started = Instant::now();
    let mut rebalancing = Rebalancing::new(policy, live.sockets(), started, EntryLoads::default());
    let mut compared = started;
    let mut look = || -> Outcome {
        same(sought, group, &mut compared)?;
        sampled.collect()?;
        rebalancing.look(Instant::now(), &mut live, || sampled.loads());
        rebalanced::log(&mut rebalancing);
        steered.look(Some(&mut live))
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

/// An error if the server has ended, or its group is another: the program is detached then, which would steer a group
/// of other sockets by numbers of these.
fn same(sought: Sought, group: &Adopted, compared: &mut Instant) -> Outcome {
    let changed = if group.has_ended() {
        "the server has ended"
    } else if compared.elapsed() < SAME {
        return Ok(());
    } else {
        *compared = Instant::now();
        match Adopted::find(sought) {
            Ok(found) if found.has_members_of(group) => return Ok(()),
            _ => "the server's sockets changed",
        }
    };
    group.detach()?;
    anyhow::bail!("{changed}: the program was detached; run steer again")
}
