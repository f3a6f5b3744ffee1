//! Requests and answers on a connection.

use super::counts::MemcachedCounts;
use super::judge::{Judge, Progress, Verdict};
use super::plan::Memcached;
use super::prepared::{Requests, Shared};
use super::reader::Reader;
use super::request::Request;
use crate::failure::Failure;
use crate::streams::{
    Answered, Ask, ConnectionOutput, Part, Pipeline, Step, StreamLoad, StreamLoadError, StreamPlan,
    StreamProtocol, StreamStart, Timeouts, Turn,
};
use std::convert::Infallible;
use std::io;

/// What was received on a connection of the oldest request's answer.
#[derive(Debug, Default)]
pub struct Exchange {
    reader: Reader,
    progress: Progress,
}

impl StreamStart for Memcached {
    #[inline(never)]
    fn start(plan: StreamPlan<Self>) -> Result<StreamLoad<Self>, StreamLoadError> {
        StreamLoad::of_plan(plan)
    }
}

impl StreamProtocol for Memcached {
    const NAME: &'static str = "memcached";
    const SCHEMA: &'static str = "corelane/loaded-memcached/1";
    type Traffic = Answered;
    type Requests = Requests;
    type Request = Request;
    type InFlight = Pipeline<Request>;
    type Exchange = Exchange;
    type Shared = Shared;
    type Counts = MemcachedCounts;
    type Error = Infallible;

    fn depth(&self) -> usize {
        self.pipeline
    }

    /// In a pipeline, every request is queued as a whole.
    fn queued_bytes(&self) -> usize {
        self.pipeline.saturating_mul(self.request_bytes())
    }

    fn state_bytes(&self) -> u64 {
        self.known_bytes()
    }

    fn counts_bytes(&self) -> u64 {
        self.times_bytes()
    }

    fn prepare(&self, _: &Timeouts) -> Result<Requests, Infallible> {
        Ok(Requests::prepare(self))
    }

    fn share(requests: &Requests, part: Part) -> Shared {
        Shared::new(requests, part)
    }

    fn choose(requests: &Requests, shared: &mut Shared, random: &mut fastrand::Rng) -> Request {
        shared.choose(requests, random)
    }

    fn begin(turn: &mut Turn<'_, Self, impl ConnectionOutput>, _: Ask) -> Step {
        let (shared, request) = (&mut *turn.shared, turn.request);
        shared.since.get_or_insert(turn.now);
        let mut scratch = std::mem::take(&mut shared.scratch);
        scratch.clear();
        shared
            .writing(&turn.terms.requests, request.verb, request.first.index)
            .write(request, &mut scratch);
        let written = turn.out.write(&scratch);
        turn.counts.requests.sent += 1;
        turn.counts.bytes.sent += scratch.len() as u64;
        shared.scratch = scratch;
        *turn.deadline = (*turn.deadline).min(turn.now + turn.terms.request_timeout);
        match written {
            Ok(()) => Step::Wait,
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Step::Failed(Failure::NoMemory),
            Err(_) => Step::Failed(Failure::Tls),
        }
    }

    fn receive(turn: &mut Turn<'_, Self, impl ConnectionOutput>, bytes: &mut &[u8]) -> Step {
        let Exchange { reader, progress } = &mut *turn.exchange;
        let own = &mut turn.counts.requests.own;
        loop {
            let answer = match reader.next(bytes) {
                Ok(Some(answer)) => answer,
                Ok(None) => return Step::Wait,
                Err(_) => {
                    own.wrong.malformed += 1;
                    return Step::Failed(Failure::Malformed);
                }
            };
            let mut judge = Judge {
                requests: &turn.terms.requests,
                shared: turn.shared,
                own,
                progress,
                request: turn.request,
                due: turn.due,
                now: turn.now,
            };
            match judge.take(answer) {
                Verdict::More => {}
                Verdict::Done => break,
                Verdict::Broken => return Step::Failed(Failure::Malformed),
            }
        }
        let Progress { wrong, body, .. } = std::mem::take(progress);
        if wrong.is_none() {
            let took = turn.now.since(turn.due).as_nanos() as u64;
            own.operations.record(turn.request.verb.operation(), took);
        }
        turn.counts.bytes.body += body;
        *turn.deadline = turn.now + turn.terms.request_timeout;
        Step::Complete { wrong, stays: true }
    }

    fn expired(turn: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step {
        let has_begun = turn.exchange.progress.has_value();
        turn.counts.requests.own.wrong.no_end += u64::from(has_begun);
        Step::Failed(Failure::RequestTimeout)
    }
}
