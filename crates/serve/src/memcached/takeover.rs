//! Units that other workers hand over, because this worker owns their keys: executes them and answers.

use super::exchange::{Answer, Asked, Exchange, Place};
use super::observed;
use super::units::{self, Incoming, Unit};
use super::worker::Worker;
use corelane_proto::memcached::request::{Event, Get, Parser, Request};

/// Units of one worker that are executed before clients of this worker are served again.
const MOST: usize = 256;

/// Units whose index lines and items are loaded together.
const TOGETHER: usize = 16;

/// Values that arrive in parts, by the worker that hands them over, and the place of their answer.
#[derive(Default)]
pub(super) struct TakeOver {
    incoming: Vec<(usize, Place, Box<Incoming>)>,
}

impl TakeOver {
    /// Executes what is there, up to [`MOST`] units of each worker; whether that was all.
    pub(super) fn run(&mut self, worker: &mut Worker, exchange: &mut Exchange) -> bool {
        let mut is_done = true;
        for by in exchange.others() {
            let mut left = MOST;
            while left > 0 {
                let units = exchange.look(by, TOGETHER.min(left), |hash| worker.prefetch(hash));
                if units > 1 {
                    exchange.look(by, units, |hash| worker.prefetch_item(hash));
                }
                let taken = (0..units).take_while(|_| self.take(by, worker, exchange)).count();
                left -= taken;
                if units == 0 || taken < units {
                    break;
                }
            }
            is_done &= left > 0;
        }
        is_done
    }

    /// Executes the next unit of a worker; whether there is one that may be taken.
    fn take(&mut self, by: usize, worker: &mut Worker, exchange: &mut Exchange) -> bool {
        let Some((asked, payload, mut answer)) = exchange.asked(by) else {
            return false;
        };
        if let Asked::List(mut listing) = asked {
            listing.list(worker, &mut answer);
            answer.end(Some(listing));
        } else if self.execute(by, asked, payload, worker, &mut answer) {
            answer.end(None);
        }
        true
    }

    /// Executes a unit; whether it is to be answered now.
    fn execute(
        &mut self,
        by: usize,
        asked: Asked,
        payload: &[u8],
        worker: &mut Worker,
        answer: &mut Answer<'_>,
    ) -> bool {
        let place = answer.place();
        match asked {
            Asked::Key {
                hash,
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
                let unit = Unit::of(Event::Request(Request::Get(get)), hash);
                observed::execute(worker, &mut None, &unit, (place.client, by), answer);
            }
            Asked::Request { .. } | Asked::Begin { .. } => {
                return self.request((by, place), payload, worker, answer);
            }
            Asked::Part => self.part((by, place), payload, worker),
            Asked::End(good) => {
                let Some(index) = self.index(by, place) else {
                    return false;
                };
                let (_, _, incoming) = self.incoming.swap_remove(index);
                let end = Unit::of(Event::End(good), 0);
                observed::execute(worker, &mut Some(incoming), &end, (place.client, by), answer);
            }
            // This worker's second may be the one before.
            Asked::Flush {
                moment,
                at_once: true,
            } => worker.flush(moment.min(worker.clock.now.saturating_sub(1))),
            Asked::Flush { moment, .. } => worker.flush(moment),
            Asked::Publish => worker.publish_all(),
            Asked::List(_) => {}
        }
        asked != Asked::Part
    }

    /// Executes a request as it was sent; whether it is to be answered now: its value may follow.
    fn request(
        &mut self,
        from: (usize, Place),
        payload: &[u8],
        worker: &mut Worker,
        answer: &mut Answer<'_>,
    ) -> bool {
        let (mut incoming, mut at) = (None, 0);
        worker.events.taken_over += 1;
        let Some(unit) = units::next(&mut Parser::new(), payload, &mut at, worker) else {
            return true;
        };
        observed::execute(worker, &mut incoming, &unit, (from.1.client, from.0), answer);
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
    use super::super::exchange::{Client, PIECE};
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
            let stalled = asking.ask(1, (place(2 * entry), Asked::Request { hash: 0 }), b"get a\r\n");
            waiting += u64::from(stalled.is_ok());
            let question = (place(2 * entry + 1), Asked::Request { hash: 0 });
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
            let asked = (place(entry), Asked::Request { hash: 0 });
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

    /// Memory for what the mailbox has no room for is that of the answer; the other pieces are copied from item to mailbox.
    #[test]
    fn a_large_answer_is_posted_in_pieces_while_it_is_written() {
        let shared = shared(2);
        let mut exchanges = Exchange::all(&shared);
        let mut worker = Worker::new(1, shared, Arc::default(), Time::now()).unwrap();
        let (length, part) = (900_000, vec![b'v'; 10_000]);
        let begin = format!("set a 0 0 {length}\r\n");
        let [asking, owner] = &mut exchanges[..] else {
            panic!("two workers")
        };
        asking
            .ask(1, (place(0), Asked::Begin { hash: 0 }), begin.as_bytes())
            .unwrap();
        let mut taken_over = TakeOver::default();
        for _ in 0..length / part.len() {
            asking.ask(1, (place(0), Asked::Part), &part).unwrap();
            assert!(taken_over.run(&mut worker, owner));
        }
        asking.ask(1, (place(0), Asked::End(true)), b"").unwrap();
        let get = Asked::Request { hash: 0 };
        asking.ask(1, (place(1), get), b"get a\r\n").unwrap();
        asking.ask(1, (place(2), get), b"get b\r\n").unwrap();
        assert!(taken_over.run(&mut worker, owner) && owner.waits());
        let mut answers = vec![Vec::new(); 3];
        while let Some((answered, part)) = asking.answered(1) {
            assert!(part.len() <= PIECE);
            answers[answered.place.entry as usize].extend_from_slice(part);
            owner.post_waiting();
            taken_over.run(&mut worker, owner);
        }
        let value = "v".repeat(length);
        let expected = [
            "STORED\r\n",
            &format!("VALUE a 0 {length}\r\n{value}\r\nEND\r\n"),
            "END\r\n",
        ];
        assert!(
            answers
                .iter()
                .zip(expected)
                .all(|(answer, expected)| answer == expected.as_bytes())
        );
        assert!(!owner.waits());
    }
}
