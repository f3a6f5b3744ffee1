//! `corelane steer --rebalance`: rebalances the group of a running server until interrupted.

use crate::interrupt::Interrupt;
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
const SAME: Duration = Duration::from_secs(2);

/// Rebalances a group that is steered by `steering`, bucket *i* at member `places[i]`. Returns the last steering, and what
/// was moved.
///
/// # Errors
/// The server's sockets changed or are gone, or the loads cannot be measured.
pub fn rebalance(
    (sought, group): (Sought, &Adopted),
    (steering, places): (Steering, &[u16]),
    (policy, duration): (Policy, Option<Duration>),
    mut steered: Steered,
) -> anyhow::Result<(Steering, Rebalanced)> {
    let interrupt = Interrupt::catch()?;
    let mut sampled = SampledLoads::new(group, sought.process, &steering)?;
    let mut live = group.steered(steering, places.to_vec())?;
    steered.begin(Some(live.steering()))?;
    let started = Instant::now();
    let mut rebalancing = Rebalancing::new(policy, live.sockets(), started, EntryLoads::default());
    let mut compared = started;
    while !interrupt.asked() && duration.is_none_or(|duration| started.elapsed() < duration) {
        thread::sleep(LOOK);
        sampled.collect()?;
        rebalancing.look(Instant::now(), &mut live, || sampled.loads());
        steered.look(Some(&mut live))?;
        rebalanced::log(&mut rebalancing);
        if compared.elapsed() >= SAME {
            compared = Instant::now();
            let inodes = |group: &Adopted| {
                group
                    .members
                    .iter()
                    .map(|member| member.inode)
                    .collect::<Vec<_>>()
            };
            if inodes(&Adopted::find(sought)?) != inodes(group) {
                anyhow::bail!("the server's sockets changed: run steer again");
            }
        }
    }
    Ok((live.steering().clone(), rebalancing.done().clone()))
}
