//! Units that other workers hand over, because this worker owns their keys: executes them and answers.

use super::exchange::{Asked, Exchange, Place};
use super::observed;
use super::units::{self, Incoming, Unit};
use super::worker::Worker;
use corelane_proto::memcached::request::{Event, Get, Parser, Request};

/// Units of one worker that are executed before clients of this worker are served again.
const MOST: usize = 256;

/// Bytes of memory for an answer that are kept for the next one.
const KEPT: usize = 64 << 10;

/// Values that arrive in parts, by the worker that hands them over, and the place of their answer.
#[derive(Default)]
pub(super) struct TakeOver {
    incoming: Vec<(usize, Place, Box<Incoming>)>,
    answer: Vec<u8>,
}

impl TakeOver {
    /// Executes what is there, up to [`MOST`] units of each worker; whether that was all.
    pub(super) fn run(&mut self, worker: &mut Worker, exchange: &mut Exchange) -> bool {
        let mut is_done = true;
        for by in exchange.others() {
            let mut left = MOST;
            while left > 0
                && let Some(((place, asked), payload)) = exchange.asked(by)
            {
                left -= 1;
                self.answer.clear();
                if let Asked::List(mut listing) = asked {
                    listing.list(worker, &mut self.answer);
                    exchange.answer(by, (place, Asked::List(listing)), &self.answer);
                } else if self.execute((by, place), asked, payload, worker) {
                    exchange.answer(by, (place, asked), &self.answer);
                }
            }
            is_done &= left > 0;
            if self.answer.capacity() > KEPT {
                self.answer = Vec::new();
            }
        }
        is_done
    }

    /// Executes a unit; whether it is to be answered now.
    fn execute(
        &mut self,
        (by, place): (usize, Place),
        asked: Asked,
        payload: &[u8],
        worker: &mut Worker,
    ) -> bool {
        match asked {
            Asked::Key {
                touch,
                with_cas,
                last,
            } => {
                let get = Get {
                    key: payload,
                    touch,
                    with_cas,
                    last,
                };
                worker.events.taken_over += 1;
                let unit = Unit::of(Event::Request(Request::Get(get)), worker);
                observed::execute(worker, &mut None, &unit, (place.client, by), &mut self.answer);
            }
            Asked::Request | Asked::Begin => return self.request((by, place), payload, worker),
            Asked::Part => self.part((by, place), payload, worker),
            Asked::End(good) => {
                let Some(index) = self.index(by, place) else {
                    return false;
                };
                let (_, _, incoming) = self.incoming.swap_remove(index);
                let end = Unit::of(Event::End(good), worker);
                observed::execute(
                    worker,
                    &mut Some(incoming),
                    &end,
                    (place.client, by),
                    &mut self.answer,
                );
            }
            // This worker's second may be the one before.
            Asked::Flush {
                moment,
                at_once: true,
            } => worker.flush(moment.min(worker.clock.now.saturating_sub(1))),
            Asked::Flush { moment, .. } => worker.flush(moment),
            Asked::Publish => worker.publish(),
            Asked::List(_) => {}
        }
        asked != Asked::Part
    }

    /// Executes a request as it was sent; whether it is to be answered now: its value may follow.
    fn request(&mut self, from: (usize, Place), payload: &[u8], worker: &mut Worker) -> bool {
        let (mut incoming, mut at) = (None, 0);
        worker.events.taken_over += 1;
        let Some(unit) = units::next(&mut Parser::new(), payload, &mut at, worker) else {
            return true;
        };
        observed::execute(
            worker,
            &mut incoming,
            &unit,
            (from.1.client, from.0),
            &mut self.answer,
        );
        let Some(incoming) = incoming else { return true };
        self.incoming.push((from.0, from.1, incoming));
        false
    }

    fn part(&mut self, (by, place): (usize, Place), part: &[u8], worker: &mut Worker) {
        if let Some(index) = self.index(by, place) {
            worker.commands().continue_with(&mut self.incoming[index].2, part);
        }
    }

    fn index(&self, by: usize, place: Place) -> Option<usize> {
        let is = |(from, at, _): &(usize, Place, _)| (*from, *at) == (by, place);
        self.incoming.iter().position(is)
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::Client;
    use super::super::plan::MemcachedPlan;
    use super::super::shared::Shared;
    use super::*;
    use corelane_worker::Time;
    use std::sync::Arc;

    /// The state of a server with so many workers.
    fn shared(workers: usize) -> Arc<Shared> {
        Arc::new(Shared::new(&MemcachedPlan::of_workers(workers)))
    }

    fn place(entry: u32) -> Place {
        Place {
            client: Client::Datagram(0, 0),
            entry,
        }
    }

    /// Worker 1 takes nothing out of its mailboxes.
    #[test]
    fn a_stalled_worker_costs_the_others_a_bounded_number_of_handoffs_to_it_and_no_others() {
        let shared = shared(3);
        let mut exchanges = Exchange::all(&shared);
        let [asking, _, owner] = &mut exchanges[..] else {
            panic!("three workers")
        };
        let mut worker = Worker::new(2, shared, Arc::default(), Time::now()).unwrap();
        let mut taken_over = TakeOver::default();
        let (mut waiting, mut answered) = (0, 0);
        for entry in 0..20_000 {
            let stalled = asking.ask(1, (place(2 * entry), Asked::Request), b"get a\r\n");
            waiting += u64::from(stalled.is_ok());
            let question = (place(2 * entry + 1), Asked::Request);
            asking.ask(2, question, b"get a\r\n").unwrap();
            taken_over.run(&mut worker, owner);
            while let Some((answer, part)) = asking.answered(2) {
                assert_eq!((answer.place, part), (place(2 * entry + 1), &b"END\r\n"[..]));
                answered += 1;
            }
            assert!(asking.answered(1).is_none());
        }
        // A message per 64 bytes of the mailbox.
        assert_eq!((answered, waiting), (20_000, (256 << 10) / 64));
        assert_eq!(asking.measured.handoffs.handoffs_refused, 20_000 - waiting);
    }

    #[test]
    fn a_bounded_number_of_units_is_executed_before_clients_are_served() {
        let shared = shared(2);
        let mut exchanges = Exchange::all(&shared);
        let mut worker = Worker::new(1, shared, Arc::default(), Time::now()).unwrap();
        for entry in 0..MOST as u32 + 1 {
            let asked = (place(entry), Asked::Request);
            exchanges[0].ask(1, asked, b"get a\r\n").unwrap();
        }
        let mut taken_over = TakeOver::default();
        let mut answered = |is_done| {
            assert_eq!(taken_over.run(&mut worker, &mut exchanges[1]), is_done);
            let count = std::iter::from_fn(|| {
                let (answered, part) = exchanges[0].answered(1)?;
                assert_eq!(part, b"END\r\n");
                Some(answered)
            });
            count.count()
        };
        assert_eq!((answered(false), answered(true)), (MOST, 1));
    }

    #[test]
    fn the_memory_of_a_large_answer_is_not_kept() {
        let plan = MemcachedPlan::of_workers(2);
        let shared = Arc::new(Shared::new(&plan));
        let mut exchanges = Exchange::all(&shared);
        let mut worker = Worker::new(1, shared, Arc::default(), Time::now()).unwrap();
        let place = Place {
            client: Client::Datagram(0, 0),
            entry: 0,
        };
        let (length, part) = (200_000, vec![b'v'; 10_000]);
        let begin = format!("set a 0 0 {length}\r\n");
        exchanges[0]
            .ask(1, (place, Asked::Begin), begin.as_bytes())
            .unwrap();
        for _ in 0..length / part.len() {
            exchanges[0].ask(1, (place, Asked::Part), &part).unwrap();
        }
        exchanges[0].ask(1, (place, Asked::End(true)), b"").unwrap();
        exchanges[0]
            .ask(1, (place, Asked::Request), b"get a\r\n")
            .unwrap();
        let mut taken_over = TakeOver::default();
        assert!(taken_over.run(&mut worker, &mut exchanges[1]));
        let mut answered = 0;
        while let Some((_, part)) = exchanges[0].answered(1) {
            answered += part.len();
            exchanges[1].post_waiting();
        }
        let expected = "STORED\r\nVALUE a 0 200000\r\n\r\nEND\r\n".len() + length;
        assert!(
            answered == expected && taken_over.answer.capacity() <= KEPT,
            "{answered}"
        );
    }
}
