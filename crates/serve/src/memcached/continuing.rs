//! What a bucket does for connections that wait: for other workers, for room at them, or until other clients have taken their answers.

use super::answers::Answers;
use super::bucket::{Bucket, Slot};
use super::connection::Connection;
use super::exchange::Client;
use corelane_worker::Time;
use corelane_worker::engine::Ops;
use std::time::Duration;

/// How soon messages that found no room are posted again. Their reader takes others meanwhile.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

impl Bucket {
    /// Takes what other workers have posted.
    pub(super) fn exchange(&mut self, ops: &mut Ops) {
        let Some(worker) = &mut self.worker else { return };
        // Before questions are taken: those of a worker wait for its answers.
        self.exchange.post_waiting();
        let is_done = self.taken_over.run(worker, &mut self.exchange);
        self.take_answers(ops);
        self.look_again = if is_done { Time::NEVER } else { self.now };
        self.plan_look();
    }

    /// Looks again soon if something waits for room at another worker, which does not say when there is some.
    #[inline]
    pub(super) fn plan_look(&mut self) {
        if self.look_again == Time::NEVER && (self.exchange.waits() || !self.waiting.is_empty()) {
            self.look_again = self.now + LOOK_AGAIN;
        }
    }

    /// Continues clients that wait for others to take their answers, while there is room.
    #[inline]
    pub(super) fn uncrowd(&mut self, ops: &mut Ops) {
        for _ in 0..self.crowded.len() {
            if self.exchange.budget.is_spent() {
                return;
            }
            if let Some(id) = self.crowded.pop_front() {
                self.serve(ops, id, |connection, context, out| {
                    connection.waits_for_room = false;
                    connection.resume(context, out)
                });
            }
        }
    }

    /// Passes the answers of other workers to their clients, and continues those that waited.
    fn take_answers(&mut self, ops: &mut Ops) {
        for other in self.exchange.others() {
            while let Some((answered, part)) = self.exchange.answered(other) {
                let Some(worker) = &mut self.worker else { return };
                match answered.place.client {
                    Client::Datagram(place, used) => {
                        let (entry, part) = (answered.place.entry, (part, answered.is_last));
                        self.datagrams.answered(ops, (place, used), entry, part, worker);
                    }
                    Client::Connection(id) => {
                        let Some((Slot(Some(connection)), channel)) = self.connections.at(ops, id) else {
                            continue;
                        };
                        let out = Answers::new(&mut self.gathered, channel);
                        let (queued, failed) = connection.answered((answered, part), worker, out);
                        let budget = &mut self.exchange.budget;
                        let begins = connection.account(queued, (&mut self.wheel, self.now, id), budget);
                        if failed {
                            ops.abort(id);
                        } else if connection.holds() && budget.is_exceeded() {
                            worker.events.stalled += u64::from(!connection.session.closing);
                            connection.session.closing = true;
                            ops.abort(id);
                        } else if std::mem::take(&mut connection.awaits) | begins {
                            self.waiting.push(id);
                        }
                    }
                }
            }
        }
        self.datagrams.account(&mut self.exchange);
        for id in std::mem::take(&mut self.waiting) {
            self.serve(ops, id, Connection::resume);
        }
    }
}
