//! One worker of the generator: sends according to its pace, receives answers, and counts the outcome of each request.
//!
//! In: a lease of sources, a start time, events of its engine. Out: protocol requests through the engine; at the end an
//! [`Outcome`].

mod mix;
mod open;
mod state;

pub(super) use state::{Generator, Shared, Tally};

use super::protocol::DatagramProtocol;
use crate::pace::{Pace, Schedule};
use crate::silence::Silence;
use corelane_worker::crew::Job;
use corelane_worker::engine::Engine;
use corelane_worker::{Time, group};
use mix::Mix;
use open::open_sockets;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

/// Datagrams sent by one socket before the next one's turn if nothing else paces it: one `sendmmsg`, and at most one
/// `UDP_SEGMENT` send (`UDP_MAX_SEGMENTS` is 64 in older kernels).
const BURST: u32 = 64;

/// Wait of a turn while the kernel does not accept queued datagrams.
const QUEUE_LOOK: Duration = Duration::from_millis(1);

impl<P: DatagramProtocol> Generator<P> {
    /// Sends from `start` until the plan's end or a stop, waits for the last answers, and returns the results.
    fn send_all<E: Engine>(&mut self, engine: &mut E, start: Time) -> io::Result<()> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, self)?;
        }
        self.standstill.begin(engine.now());
        let duration = self.shared.plan.until.duration_s.map(Duration::from_secs_f64);
        let end = duration.map_or(Time::NEVER, |duration| start + duration);
        let mix = Mix::new(&self.shared.plan, self.place, &self.shared.live);
        match (self.shared.plan.pace, mix) {
            (Pace::Rate { per_second }, mix) => {
                self.follow_schedule(engine, mix, (start, end), per_second)?;
            }
            (Pace::Flood, None) => self.flood(engine, end)?,
            (Pace::Flood, Some(mut mix)) => self.keep_mix(engine, &mut mix, end, None)?,
            (Pace::Window { datagrams }, None) => self.keep_window(engine, end, datagrams)?,
            (Pace::Window { datagrams }, Some(mut mix)) => {
                self.keep_mix(engine, &mut mix, end, Some(datagrams))?;
            }
        }
        let ended = engine.now();
        self.tally.sending = ended.since(start);
        self.tally.stood_still = self.standstill.lost();
        self.budget = 0;
        self.empty_queues(engine)?;
        self.shared.live[self.place].draining.set(1);
        if self.shared.plan.answers {
            self.drain(engine)?;
        }
        self.tally.lost = self.contact.lost(start, ended);
        self.take_stock(engine.ops());
        self.publish(engine.ops());
        self.shared.live[self.place]
            .snapshot
            .close(self.snapshot(engine.ops()));
        Ok(())
    }

    fn flood<E: Engine>(&mut self, engine: &mut E, end: Time) -> io::Result<()> {
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            for _ in 0..self.flows.len() {
                let flow = self.cursor;
                self.advance_cursor();
                if (0..BURST).any(|_| !self.send(engine.ops(), flow, now)) {
                    break;
                }
            }
            self.turn(engine, now)?;
            self.publish(engine.ops());
        }
        Ok(())
    }

    fn keep_window<E: Engine>(&mut self, engine: &mut E, end: Time, window: u32) -> io::Result<()> {
        let mut next_look = engine.now() + self.shared.plan.loss_timeout();
        for flow in 0..self.flows.len() {
            let now = engine.now();
            self.fill_window(engine.ops(), flow, window, now);
        }
        while self.goes_on(engine.now(), end) {
            let until = if self.starved.is_empty() {
                end.min(next_look)
            } else {
                engine.now()
            };
            self.turn(engine, until)?;
            self.publish(engine.ops());
            let now = engine.now();
            for flow in std::mem::take(&mut self.starved) {
                self.fill_window(engine.ops(), flow as usize, window, now);
            }
            if now >= next_look {
                next_look = now + self.shared.plan.loss_timeout();
                for flow in 0..self.flows.len() {
                    self.give_up_if_stalled(flow);
                    self.fill_window(engine.ops(), flow, window, now);
                }
            }
        }
        Ok(())
    }

    fn follow_schedule<E: Engine>(
        &mut self,
        engine: &mut E,
        mut mix: Option<Mix>,
        (start, end): (Time, Time),
        per_second: f64,
    ) -> io::Result<()> {
        let (place, workers) = (self.place, self.shared.plan.workers.len());
        // Under skew each worker is evenly spaced by itself; its place prevents all from starting in one burst.
        let own = mix.as_ref().map_or(1.0, |mix| mix.share() * workers as f64);
        let mut schedule = Schedule::new(start, per_second * own, place, workers);
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            for _ in 0..BURST {
                let due = schedule.due();
                if due > now {
                    break;
                }
                let flow = mix.as_ref().map_or(self.cursor, |mix| mix.turns.current());
                if !self.send(engine.ops(), flow, due) {
                    break;
                }
                match &mut mix {
                    Some(mix) => mix.turns.advance(),
                    None => self.advance_cursor(),
                }
                self.tally.schedule_lag.record(now.since(due).as_nanos() as u64);
                schedule.advance();
            }
            self.turn(engine, end.min(schedule.due()))?;
            self.publish(engine.ops());
        }
        let ended = end.min(engine.now());
        self.tally.counts.unsent = schedule.unissued_before(ended).min(self.budget);
        Ok(())
    }

    /// Flushes the queues until the kernel has accepted everything or the loss timeout expires.
    fn empty_queues<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let give_up = engine.now() + self.shared.plan.loss_timeout();
        while self.queued(engine.ops()) > 0 && engine.now() < give_up {
            engine.turn(engine.now() + QUEUE_LOOK, self)?;
        }
        self.tally.counts.unsent += self.queued(engine.ops());
        Ok(())
    }

    /// Waits until all answers have arrived, or none has for the drain timeout.
    fn drain<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let mut returned = self.tally.counts.returned;
        let mut silence = Silence::new(self.shared.plan.drain_timeout());
        let sent = engine.ops().counters().sent;
        while self.tally.counts.returned < sent {
            // After the deadline, poll once more, in case the thread was off its CPU until then.
            let (is_last, began) = (silence.is_over(), engine.now());
            let due = began + silence.look();
            engine.turn(due, self)?;
            self.publish(engine.ops());
            let now = engine.now();
            silence.looked(now.since(began));
            self.listen(engine.ops(), (began, due), now);
            if self.tally.counts.returned > returned {
                returned = self.tally.counts.returned;
                silence.broken();
            } else if is_last {
                break;
            }
        }
        Ok(())
    }
}

impl<P: DatagramProtocol> Job for Generator<P> {
    type Outcome = Tally<P::Counts>;

    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let plan = Arc::clone(&self.shared.plan);
        let buffer = self.receive_buffer();
        for (index, lease) in plan.workers[self.place].leases.iter().enumerate() {
            let take = |socket: UdpSocket| {
                if let Some(bytes) = buffer {
                    group::set_receive_buffer(&socket, bytes)?;
                }
                let id = engine.ops().datagrams(socket)?;
                self.add(id, index);
                Ok(())
            };
            open_sockets(lease, plan.target, take).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Tally<P::Counts>> {
        let sent = self.send_all(engine, start);
        // Set even on failure, because other workers may wait for it.
        self.shared.live[self.place].draining.set(1);
        sent.map(|()| self.tally)
    }
}
