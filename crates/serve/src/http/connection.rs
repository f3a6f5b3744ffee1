//! One connection: what arrives goes in, answers go out; between requests it holds no buffer.
//!
//! While an answer waits (for its delay, or for the client to take what is queued) nothing more is received, so that a
//! client that does not read holds a window of answers and one piece of requests, and no one else's share.

use super::context::ConnectionContext;
use super::counters::Fault;
use super::exchange::{Exchange, Terms, begin_answer, begin_file};
use super::object::Object;
use super::output::Output;
use super::plan::milliseconds;
use corelane_proto::http::answer;
use corelane_proto::http::chunked::{Item, LAST_CHUNK};
use corelane_proto::http::request::{Framing, Head, Version, read};
use corelane_worker::Time;
use corelane_worker::engine::Id;
use corelane_worker::timers::Timer;
use std::time::Duration;

/// Bytes of answers queued on a connection before its next request is looked at.
const PAUSE: u64 = 256 << 10;

/// How long a connection that was told to close may go on sending: until the client has seen the answer (RFC 9112 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: Id,
    phase: Phase,
    /// Received and not used yet.
    input: Vec<u8>,
    requests: u32,
    /// The beginning of a head is there, and its deadline set.
    in_head: bool,
    /// The client has ended its side.
    ended: bool,
    /// Queued at the last look at a client that takes nothing.
    last_queued: u64,
    deadline: Time,
    /// When the timer fires, which is not after the deadline.
    armed: Time,
    timer: Option<Timer>,
}

#[derive(Debug)]
enum Phase {
    /// Between requests, or within a head.
    Head,
    /// Within the body of a request.
    Body(Box<Exchange>),
    /// An answer waits until its time has come.
    Delayed(Box<Exchange>),
    /// An answer waits for the client to take what is queued.
    Producing(Box<Exchange>),
    /// The next request does.
    Paused,
    /// The last answer was given; what arrives is dropped until the client has closed.
    Lingering,
}

impl Connection {
    pub(super) fn new(id: Id) -> Self {
        Self {
            id,
            phase: Phase::Head,
            input: Vec::new(),
            requests: 0,
            in_head: false,
            ended: false,
            last_queued: u64::MAX,
            deadline: Time::NEVER,
            armed: Time::NEVER,
            timer: None,
        }
    }

    /// The connection is open.
    pub(super) fn open(&mut self, context: &mut ConnectionContext<'_>) {
        self.wait(context, milliseconds(context.plan.limits.idle_ms));
    }

    /// The connection has ended: what it held is given back.
    pub(super) fn end(&mut self, context: &mut ConnectionContext<'_>) {
        if let Some(timer) = self.timer.take() {
            context.wheel.cancel(timer);
        }
        context.end_line();
        self.input = Vec::new();
        self.phase = Phase::Lingering;
    }

    /// The server ends: says so to a client whose answers are whole. One that ends in the middle is not to look as if it were.
    pub(super) fn shutdown(&self, out: &mut Output<'_>) {
        if !matches!(
            self.phase,
            Phase::Body(_) | Phase::Producing(_) | Phase::Lingering
        ) {
            out.notify_end();
        }
    }

    /// Bytes arrived.
    pub(super) fn receive(&mut self, bytes: &[u8], context: &mut ConnectionContext<'_>) {
        if self.input.is_empty() {
            self.process(bytes, context);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(bytes);
            self.process(&input, context);
        }
    }

    /// The client sends nothing more.
    pub(super) fn peer_closed(&mut self, context: &mut ConnectionContext<'_>) {
        self.ended = true;
        match &self.phase {
            Phase::Head if self.input.is_empty() => context.out.close_at_once(),
            Phase::Head => self.refuse(400, Fault::HeadTooShort, "the head ends too early", context),
            Phase::Body(_) => self.refuse(400, Fault::BodyTooShort, "the body ends too early", context),
            Phase::Lingering => context.out.close_at_once(),
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused => {}
        }
    }

    /// Everything queued was taken.
    pub(super) fn drained(&mut self, context: &mut ConnectionContext<'_>) {
        match std::mem::replace(&mut self.phase, Phase::Head) {
            Phase::Producing(exchange) => self.produce(exchange, context),
            Phase::Paused => self.resume(context),
            Phase::Body(exchange) => {
                self.phase = Phase::Body(exchange);
                self.resume(context);
            }
            phase => self.phase = phase,
        }
    }

    /// The timer has fired.
    pub(super) fn fired(&mut self, context: &mut ConnectionContext<'_>) {
        (self.timer, self.armed) = (None, Time::NEVER);
        if context.now < self.deadline {
            return self.arm(context);
        }
        let queued = context.out.queued();
        match std::mem::replace(&mut self.phase, Phase::Head) {
            Phase::Head if queued == 0 && self.input.is_empty() => {
                context.counters.idle_closed.add(1);
                context.out.close();
            }
            Phase::Head if queued == 0 => {
                self.refuse(408, Fault::HeadTimeout, "the head took too long", context);
            }
            Phase::Delayed(exchange) => {
                self.start(exchange, context);
                self.resume(context);
            }
            Phase::Body(exchange) if queued == 0 => {
                self.phase = Phase::Body(exchange);
                self.refuse(408, Fault::BodyTimeout, "the body stood still", context);
            }
            Phase::Lingering if queued == 0 && self.last_queued == 0 => context.out.abort(),
            phase => {
                self.phase = phase;
                if queued == self.last_queued && queued > 0 {
                    return self.stalled(context);
                }
                self.last_queued = queued;
                let write = milliseconds(context.plan.limits.write_ms);
                let lingers = queued == 0 && matches!(self.phase, Phase::Lingering);
                self.wait(context, if lingers { LINGER } else { write });
            }
        }
    }

    /// The client takes nothing.
    fn stalled(&mut self, context: &mut ConnectionContext<'_>) {
        context.counters.count_fault(Fault::WriteTimeout);
        context.out.abort();
    }

    /// Receives again, and goes on with what was received before.
    fn resume(&mut self, context: &mut ConnectionContext<'_>) {
        if matches!(
            self.phase,
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused
        ) {
            return;
        }
        context.out.receive(true);
        let input = std::mem::take(&mut self.input);
        self.process(&input, context);
        if self.ended && self.input.is_empty() && matches!(self.phase, Phase::Head) {
            context.out.close_at_once();
        }
    }

    /// Takes as many requests off `data` as can be answered now, and keeps the rest.
    fn process(&mut self, data: &[u8], context: &mut ConnectionContext<'_>) {
        let mut used = 0;
        let mut answered = false;
        loop {
            let rest = &data[used..];
            match std::mem::replace(&mut self.phase, Phase::Head) {
                Phase::Head if rest.is_empty() => break,
                Phase::Head if context.out.queued() > PAUSE => {
                    self.hold(Phase::Paused, context);
                    break;
                }
                Phase::Head => match read(rest, &context.head_limits) {
                    Ok(Some(head)) => {
                        used += head.bytes;
                        (answered, self.in_head) = (true, false);
                        self.begin(&head, context);
                    }
                    Ok(None) => {
                        // From its first byte on, however slowly the others follow.
                        if !std::mem::replace(&mut self.in_head, true) {
                            self.wait(context, milliseconds(context.plan.limits.head_ms));
                        }
                        answered = false;
                        break;
                    }
                    Err(error) => self.refuse(error.status(), error.into(), &error.to_string(), context),
                },
                Phase::Body(exchange) => match self.read_body(exchange, rest, context) {
                    0 => break,
                    taken => used += taken,
                },
                Phase::Lingering => {
                    self.phase = Phase::Lingering;
                    used = data.len();
                    break;
                }
                phase => {
                    self.phase = phase;
                    break;
                }
            }
            if context.out.overflowed {
                context.counters.count_fault(Fault::Overflow);
                context.out.abort();
                return;
            }
        }
        self.input = data[used..].to_vec();
        if answered && matches!(self.phase, Phase::Head) {
            self.wait(context, milliseconds(context.plan.limits.idle_ms));
        }
    }

    /// A head was read.
    fn begin(&mut self, head: &Head<'_>, context: &mut ConnectionContext<'_>) {
        context.counters.requests.add(1);
        context.begin_line(head);
        self.requests += 1;
        let limits = &context.plan.limits;
        let terms = Terms {
            version: head.version,
            keep_alive: head.keep_alive && self.requests != limits.requests,
            head_only: head.method == b"HEAD",
        };
        if let Framing::Length(length) = head.framing
            && length > limits.body_bytes
        {
            let text = format!("the body is longer than {} bytes", limits.body_bytes);
            return self.refuse(413, Fault::BodyTooLong, &text, context);
        }
        if context.files.is_some() && matches!(head.method, b"GET" | b"HEAD") {
            return self.begin_file(head, terms, context);
        }
        let object = match head.method {
            b"POST" | b"PUT" if context.files.is_some() => Some(Object::refusal(405)),
            b"GET" | b"HEAD" | b"POST" | b"PUT" => Object::read(head.path_and_query()),
            b"OPTIONS" => Some(Object::options()),
            method => Some(Object::refusal(if is_known(method) { 405 } else { 501 })),
        };
        let object = object.unwrap_or(Object::refusal(404));
        if head.framing == Framing::None && object.delay.is_zero() {
            context.count_status(object.status);
            let stamp = context.stamp.fields(context.now);
            let left = begin_answer(
                &object,
                terms,
                Framing::None,
                context.scratch,
                stamp,
                &mut context.out,
            );
            match left {
                None => self.finish(terms, context),
                Some(producer) => {
                    let mut exchange = Exchange::new(head, terms, object);
                    exchange.producer = Some(producer);
                    self.produce(exchange, context);
                }
            }
            return;
        }
        let delay = object.delay;
        let exchange = Exchange::new(head, terms, object);
        if delay.is_zero() {
            self.start(exchange, context);
        } else {
            self.hold(Phase::Delayed(exchange), context);
            self.wait(context, delay);
        }
    }

    /// A file is asked for.
    fn begin_file(&mut self, head: &Head<'_>, mut terms: Terms, context: &mut ConnectionContext<'_>) {
        // What a body could mean here nobody has said: it is dropped with the connection.
        terms.keep_alive &= head.framing == Framing::None;
        let Some(files) = context.files.as_mut() else {
            return;
        };
        let found = files.find(head.path_and_query(), context.now);
        let stamp = context.stamp.fields(context.now);
        let (status, object, left) = match found {
            Ok(found) => {
                let out = &mut context.out;
                let (status, left) = begin_file(head, &found, terms, context.scratch, stamp, out);
                (status, Object::refusal(status), left)
            }
            Err(status) => {
                let object = Object::refusal(status);
                let left = begin_answer(
                    &object,
                    terms,
                    Framing::None,
                    context.scratch,
                    stamp,
                    &mut context.out,
                );
                (status, object, left)
            }
        };
        context.count_status(status);
        match left {
            None => self.finish(terms, context),
            Some(producer) => {
                let mut exchange = Exchange::new(head, terms, object);
                exchange.producer = Some(producer);
                self.produce(exchange, context);
            }
        }
    }

    /// Its delay is over: reads the body, if there is one, and answers.
    fn start(&mut self, mut exchange: Box<Exchange>, context: &mut ConnectionContext<'_>) {
        if exchange.reader.is_none() {
            return self.answer(exchange, context);
        }
        if std::mem::take(&mut exchange.expects_continue) {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            context.out.write_head(interim, interim.len());
            context.counters.count_status(100);
        }
        if exchange.echoes() {
            // The answer begins with the body, so that neither side has to hold it.
            context.count_status(exchange.object.status);
            let stamp = context.stamp.fields(context.now);
            let (object, terms, framing) = (&exchange.object, exchange.terms, exchange.framing);
            begin_answer(object, terms, framing, context.scratch, stamp, &mut context.out);
        }
        self.phase = Phase::Body(exchange);
        self.wait(context, milliseconds(context.plan.limits.body_ms));
    }

    /// Takes what is there of a body; returns the bytes used, 0 when there is nothing to go on with.
    fn read_body(
        &mut self,
        mut exchange: Box<Exchange>,
        rest: &[u8],
        context: &mut ConnectionContext<'_>,
    ) -> usize {
        if context.out.queued() > PAUSE {
            self.hold(Phase::Body(exchange), context);
            return 0;
        }
        let Some(reader) = exchange.reader.as_mut() else {
            self.phase = Phase::Body(exchange);
            return 0;
        };
        let (used, item) = match reader.feed(rest) {
            Ok(fed) => fed,
            Err(error) => {
                self.phase = Phase::Body(exchange);
                self.refuse(400, Fault::Chunk, &error.to_string(), context);
                return rest.len();
            }
        };
        match item {
            Some(Item::Data(data)) => {
                exchange.take(data, &mut context.out);
                let too_long = exchange.body_bytes > context.plan.limits.body_bytes;
                // With the last byte of a length the body is complete, and no further byte may come to say so.
                let complete = exchange.reader == Some(corelane_proto::http::request::BodyReader::Length(0));
                self.phase = Phase::Body(exchange);
                self.wait(context, milliseconds(context.plan.limits.body_ms));
                if too_long {
                    let text = format!("the body is longer than {} bytes", context.plan.limits.body_bytes);
                    self.refuse(413, Fault::BodyTooLong, &text, context);
                    return rest.len();
                }
                if complete {
                    self.body_complete(context);
                }
                used
            }
            Some(Item::End) => {
                self.phase = Phase::Body(exchange);
                self.body_complete(context);
                used
            }
            None => {
                self.phase = Phase::Body(exchange);
                used
            }
        }
    }

    fn body_complete(&mut self, context: &mut ConnectionContext<'_>) {
        let Phase::Body(exchange) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return;
        };
        context.counters.bodies.add(1);
        context.counters.body_bytes.add(exchange.body_bytes);
        if !exchange.echoes() {
            return self.answer(exchange, context);
        }
        context
            .counters
            .pattern_bodies
            .add(u64::from(exchange.is_pattern));
        if exchange.framing == Framing::Chunked && !exchange.terms.head_only {
            context.out.write(LAST_CHUNK);
        }
        self.finish(exchange.terms, context);
    }

    fn answer(&mut self, mut exchange: Box<Exchange>, context: &mut ConnectionContext<'_>) {
        context.count_status(exchange.object.status);
        let stamp = context.stamp.fields(context.now);
        let (object, terms) = (&exchange.object, exchange.terms);
        match begin_answer(
            object,
            terms,
            Framing::None,
            context.scratch,
            stamp,
            &mut context.out,
        ) {
            None => self.finish(terms, context),
            Some(producer) => {
                exchange.producer = Some(producer);
                self.produce(exchange, context);
            }
        }
    }

    /// Queues the next window of a body.
    fn produce(&mut self, mut exchange: Box<Exchange>, context: &mut ConnectionContext<'_>) {
        let complete = match exchange.producer.as_mut() {
            Some(producer) => producer.produce(&mut context.out),
            None => Ok(true),
        };
        let Ok(complete) = complete else {
            // The rest of the file is gone, and its length was promised.
            context.counters.count_fault(Fault::File);
            context.out.abort();
            return;
        };
        if complete {
            let held = !context.out.is_receiving();
            self.finish(exchange.terms, context);
            if held {
                self.resume(context);
            }
        } else {
            self.hold(Phase::Producing(exchange), context);
        }
    }

    /// Waits for the client to take what is queued, or for a delay, and receives nothing meanwhile.
    fn hold(&mut self, phase: Phase, context: &mut ConnectionContext<'_>) {
        context.out.receive(false);
        if !matches!(phase, Phase::Delayed(_)) {
            context.out.notify_drained();
            self.last_queued = context.out.queued();
            self.wait(context, milliseconds(context.plan.limits.write_ms));
        }
        self.phase = phase;
    }

    /// The answer is queued to its end.
    fn finish(&mut self, terms: Terms, context: &mut ConnectionContext<'_>) {
        context.end_line();
        if terms.keep_alive {
            self.phase = Phase::Head;
        } else {
            self.linger(true, context);
        }
    }

    /// Answers with a status and the reason, and closes: where the next request begins is not known.
    fn refuse(&mut self, status: u16, fault: Fault, text: &str, context: &mut ConnectionContext<'_>) {
        context.counters.count_fault(fault);
        // Within an echo, whose head is out, nothing can be said any more.
        let begun = matches!(&self.phase, Phase::Body(exchange) if exchange.echoes());
        if !begun {
            context.count_status(status);
            let stamp = context.stamp.fields(context.now);
            context.scratch.clear();
            answer::begin(context.scratch, status);
            context.scratch.extend_from_slice(stamp);
            answer::connection(context.scratch, Version::Http11, false);
            answer::field(context.scratch, "Content-Type", b"text/plain");
            answer::number(context.scratch, "Content-Length", text.len() as u64 + 1);
            answer::end(context.scratch);
            let head_bytes = context.scratch.len();
            context.scratch.extend_from_slice(text.as_bytes());
            context.scratch.push(b'\n');
            context.out.write_head(context.scratch, head_bytes);
        }
        context.end_line();
        self.linger(!begun, context);
    }

    /// Ends this side, behind an answer that is whole or not, and waits for the client to end its own.
    fn linger(&mut self, is_whole: bool, context: &mut ConnectionContext<'_>) {
        self.phase = Phase::Lingering;
        if self.ended {
            context.out.close_at_once();
            return;
        }
        context.out.receive(true);
        self.last_queued = context.out.queued();
        context.out.shutdown(is_whole);
        // A client that takes its time for the answer has it, as long as it takes something.
        let write = milliseconds(context.plan.limits.write_ms);
        self.wait(context, if self.last_queued > PAUSE { write } else { LINGER });
    }

    /// Sets the deadline. The timer is only moved when it would fire too late: a request costs no timer.
    fn wait(&mut self, context: &mut ConnectionContext<'_>, duration: Duration) {
        self.deadline = context.now + duration;
        if self.timer.is_none() || self.deadline < self.armed {
            self.arm(context);
        }
    }

    fn arm(&mut self, context: &mut ConnectionContext<'_>) {
        if let Some(timer) = self.timer.take() {
            context.wheel.cancel(timer);
        }
        self.armed = self.deadline;
        self.timer = Some(context.wheel.insert(self.deadline, self.id));
    }
}

/// Methods of RFC 9110 and RFC 5789: not allowed here, but known.
fn is_known(method: &[u8]) -> bool {
    matches!(
        method,
        b"DELETE" | b"CONNECT" | b"TRACE" | b"PATCH" | b"OPTIONS" | b"GET" | b"HEAD" | b"POST" | b"PUT"
    )
}
