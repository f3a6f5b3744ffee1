//! Forwards bursts: frames received on one link that pass are sent on all others.

use super::counts::WorkerCounts;
use crate::shared::lock;
use corelane_link::{Burst, Link, LinkError, Tally};
use corelane_measure::counters::Counters;
use corelane_worker::CachePadded;
use std::sync::Arc;

/// Decides which frames of a burst pass.
pub trait Classify {
    /// Writes the indices of the frames that pass, in order, into `passing`.
    fn classify(&mut self, burst: &Burst<'_>, passing: &mut Vec<u32>);

    /// Called when idle.
    fn rest(&mut self) {}
}

/// One worker's queues of one link; empty while the link is lost.
#[derive(Debug)]
pub struct Queues<L> {
    queues: Vec<L>,
    /// Counters of queues that were lost.
    before: Tally,
    next: usize,
}

impl<L: Link> Queues<L> {
    /// The queues.
    #[must_use]
    pub fn new(queues: Vec<L>) -> Queues<L> {
        Queues {
            queues,
            before: Tally::default(),
            next: 0,
        }
    }

    fn tally(&self) -> Tally {
        self.before
            .plus(&Counters::sum(self.queues.iter().map(Link::tally)))
    }
}

/// A link that failed.
#[derive(Debug)]
pub struct Failure {
    /// Index of the link in the plan.
    pub link: usize,
    /// The error.
    pub error: LinkError,
}

/// Forwards bursts between the links of one worker.
#[derive(Debug)]
pub struct Forwarder<L, C> {
    links: Vec<Queues<L>>,
    classify: C,
    burst: usize,
    passing: Vec<u32>,
    counts: Arc<CachePadded<WorkerCounts>>,
    failures: Vec<Failure>,
}

impl<L: Link, C: Classify> Forwarder<L, C> {
    /// A forwarder between these links, with bursts of up to `burst` frames.
    #[must_use]
    pub fn new(
        links: Vec<Queues<L>>,
        classify: C,
        burst: usize,
        counts: Arc<CachePadded<WorkerCounts>>,
    ) -> Forwarder<L, C> {
        Forwarder {
            links,
            classify,
            burst: burst.max(1),
            passing: Vec::with_capacity(burst),
            counts,
            failures: Vec::new(),
        }
    }

    /// Receives one burst from a queue of each link and forwards it; returns the number of frames received. Links that
    /// failed are added to [`failures`](Forwarder::failures), and their queues closed.
    #[inline]
    pub fn turn(&mut self) -> usize {
        let mut came = 0;
        for from in 0..self.links.len() {
            came += self.pass_on(from);
        }
        came
    }

    /// The links that failed since the last call.
    pub fn failures(&mut self) -> std::vec::Drain<'_, Failure> {
        self.failures.drain(..)
    }

    /// Called when idle: flushes pending frames, checks the links, and publishes their counters.
    pub fn rest(&mut self) {
        for link in 0..self.links.len() {
            let checked = self.links[link].queues.iter_mut().try_for_each(Link::check);
            if let Err(error) = checked {
                self.fail(link, error);
            }
        }
        self.classify.rest();
        for (link, counts) in self.links.iter().zip(&self.counts.links) {
            *lock(&counts.tally) = link.tally();
        }
    }

    /// Installs the queues of a restored link.
    pub fn restore(&mut self, link: usize, queues: Vec<L>) {
        self.links[link].queues = queues;
        self.links[link].next = 0;
    }

    /// Closes the queues of a link, and keeps their counters.
    pub fn close(&mut self, link: usize) {
        let slot = &mut self.links[link];
        slot.before = slot.tally();
        slot.queues.clear();
    }

    /// All open queues.
    pub fn queues(&self) -> impl Iterator<Item = &L> {
        self.links.iter().flat_map(|link| &link.queues)
    }

    /// Whether all links are up and no more frames can arrive.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.links
            .iter()
            .all(|link| !link.queues.is_empty() && link.queues.iter().all(Link::is_ended))
    }

    /// Closes the queues of a failed link, and keeps their counters.
    fn fail(&mut self, link: usize, error: LinkError) {
        self.close(link);
        self.failures.push(Failure { link, error });
    }

    #[inline]
    fn pass_on(&mut self, from: usize) -> usize {
        let (before, rest) = self.links.split_at_mut(from);
        let Some((source, after)) = rest.split_first_mut() else {
            return 0;
        };
        if source.queues.is_empty() {
            return 0;
        }
        source.next = (source.next + 1) % source.queues.len();
        let burst = match source.queues[source.next].receive(self.burst) {
            Ok(burst) if burst.is_empty() => return 0,
            Ok(burst) => burst,
            Err(error) => {
                self.fail(from, error);
                return 0;
            }
        };
        self.passing.clear();
        self.classify.classify(&burst, &mut self.passing);
        let came = burst.len();
        let mut failed = None;
        let others = before.iter_mut().enumerate().chain((from + 1..).zip(after));
        for (to, link) in others {
            let counts = &self.counts.links[to];
            let passing = &self.passing;
            match link.queues.first_mut() {
                None => counts.link_lost.add(passing.len() as u64),
                Some(queue) => match send(queue, &burst, passing) {
                    Ok(sent) => {
                        counts.full.add(sent.full as u64);
                        counts.oversized.add(sent.oversized as u64);
                    }
                    Err(error) => {
                        counts.link_lost.add(passing.len() as u64);
                        failed = Some((to, error));
                    }
                },
            }
        }
        if let Some((to, error)) = failed {
            self.fail(to, error);
        }
        came
    }
}

/// Sends these frames of a burst, copied into the link's memory.
#[inline]
fn send<L: Link>(link: &mut L, burst: &Burst<'_>, passing: &[u32]) -> Result<corelane_link::Sent, LinkError> {
    let longest = link.longest();
    if passing
        .iter()
        .any(|number| burst.frame(*number as usize).len() > longest)
    {
        return link.send(passing.iter().map(|number| burst.frame(*number as usize)));
    }
    let taken = link.transmit(passing.len(), |number, buffer| {
        let frame = burst.frame(passing[number] as usize);
        copy(&mut buffer[..frame.len()], frame);
        frame.len()
    })?;
    Ok(corelane_link::Sent {
        taken,
        oversized: 0,
        full: passing.len() - taken,
    })
}

/// Copies a frame. The shortest frames, which have the highest rates, are copied as two halves that may overlap, in
/// registers: a call of `memcpy` costs about as much as an address lookup.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 32;
    if (HALF..=2 * HALF).contains(&from.len())
        && let (Some(to_first), Some(first)) = (to.first_chunk_mut::<HALF>(), from.first_chunk::<HALF>())
    {
        *to_first = *first;
        if let (Some(to_last), Some(last)) = (to.last_chunk_mut::<HALF>(), from.last_chunk::<HALF>()) {
            *to_last = *last;
        }
        return;
    }
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_copied_whole() {
        let from: Vec<u8> = (0..200).collect();
        for length in 0..from.len() {
            let mut to = vec![0xff; length];
            copy(&mut to, &from[..length]);
            assert_eq!(to, from[..length], "{length} bytes");
        }
    }
}
