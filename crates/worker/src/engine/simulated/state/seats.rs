//! The scheduler of a simulated network: which engine continues, and when the clock advances.

use super::State;
use crate::engine::wake::Waker;
use crate::time::Time;
use std::collections::VecDeque;
use std::thread::ThreadId;

/// One engine, or a reserved slot for one.
#[derive(Default)]
pub(in crate::engine::simulated) struct Seat {
    pub(in crate::engine::simulated) thread: Option<ThreadId>,
    pub(in crate::engine::simulated) waker: Option<Waker>,
    pub(in crate::engine::simulated) started: bool,
    /// The end of its wait; none while it runs.
    pub(in crate::engine::simulated) parked: Option<Time>,
    /// Datagram sockets and streams with events for it, in order of arrival.
    pub(super) ready: [VecDeque<usize>; 2],
    gone: bool,
}

impl State {
    pub(in crate::engine::simulated) fn add_seat(&mut self) -> usize {
        self.seats.push(Seat::default());
        self.seats.len() - 1
    }

    pub(in crate::engine::simulated) fn seat(&mut self, place: usize) -> &mut Seat {
        &mut self.seats[place]
    }

    pub(in crate::engine::simulated) fn remove_seat(&mut self, place: usize) {
        self.seats[place].gone = true;
        self.seats[place].ready = Default::default();
    }

    /// Whether a seat has events or a wake to handle before its deadline.
    pub(in crate::engine::simulated) fn has_something(&self, place: usize) -> bool {
        let seat = &self.seats[place];
        seat.ready.iter().any(|ready| !ready.is_empty()) || seat.waker.as_ref().is_some_and(Waker::is_woken)
    }

    pub(in crate::engine::simulated) fn all_parked(&self) -> bool {
        self.present().all(|seat| seat.parked.is_some())
    }

    /// Whether an engine of a thread runs.
    pub(in crate::engine::simulated) fn runs_on(&self, thread: ThreadId) -> bool {
        self.present()
            .any(|seat| seat.thread == Some(thread) && seat.parked.is_none())
    }

    /// Resumes one engine while all are parked: the next in turn that has work, after advancing the clock to when one
    /// has. If nothing will ever happen, the seat `caller` resumes, so that its owner can decide.
    pub(in crate::engine::simulated) fn schedule(&mut self, caller: usize) {
        loop {
            self.settle();
            let due = |place: &usize| {
                let seat = &self.seats[*place];
                let deadline = seat.parked.is_some_and(|until| until <= self.now);
                !seat.gone && (deadline || self.has_something(*place))
            };
            let after = (self.last + 1..self.seats.len()).chain(0..=self.last);
            if let Some(place) = after.filter(|place| *place < self.seats.len()).find(due) {
                self.seats[place].parked = None;
                self.last = place;
                return;
            }
            let deadlines = self.present().filter_map(|seat| seat.parked);
            let arrivals = self.travelling.keys().next().map(|(due, _)| *due);
            match deadlines.chain(arrivals).min() {
                Some(next) if next != Time::NEVER => self.now = next,
                _ => {
                    self.seats[caller].parked = None;
                    return;
                }
            }
        }
    }

    fn present(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| !seat.gone)
    }
}
