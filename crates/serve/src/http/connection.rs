//! One connection: what arrives goes in, answers go out; between requests it holds no buffer.
//!
//! While an answer waits (for its delay, or for the client to take what is queued) nothing more is received, so that a
//! client that does not read holds a window of answers and one piece of requests, and no one else's share.

use super::bucket::Room;
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
    pub(super) fn open(&mut self, room: &mut Room<'_>) {
        self.wait(room, milliseconds(room.plan.limits.idle_ms));
    }

    /// The connection has ended: what it held is given back.
    pub(super) fn end(&mut self, room: &mut Room<'_>) {
        if let Some(timer) = self.timer.take() {
            room.wheel.cancel(timer);
        }
        room.end_line();
        self.input = Vec::new();
        self.phase = Phase::Lingering;
    }

    /// The server ends: says so to a client whose answers are whole. One that ends in the middle is not to look as if it were.
    pub(super) fn take_leave(&self, out: &mut Output<'_>) {
        if !matches!(
            self.phase,
            Phase::Body(_) | Phase::Producing(_) | Phase::Lingering
        ) {
            out.notify_end();
        }
    }

    /// Bytes arrived.
    pub(super) fn receive(&mut self, bytes: &[u8], room: &mut Room<'_>) {
        if self.input.is_empty() {
            self.process(bytes, room);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(bytes);
            self.process(&input, room);
        }
    }

    /// The client sends nothing more.
    pub(super) fn peer_closed(&mut self, room: &mut Room<'_>) {
        self.ended = true;
        match &self.phase {
            Phase::Head if self.input.is_empty() => room.out.ops.close(self.id),
            Phase::Head => self.refuse(400, Fault::HeadTooShort, "the head ends too early", room),
            Phase::Body(_) => self.refuse(400, Fault::BodyTooShort, "the body ends too early", room),
            Phase::Lingering => room.out.ops.close(self.id),
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused => {}
        }
    }

    /// Everything queued was taken.
    pub(super) fn drained(&mut self, room: &mut Room<'_>) {
        match std::mem::replace(&mut self.phase, Phase::Head) {
            Phase::Producing(exchange) => self.produce(exchange, room),
            Phase::Paused => self.resume(room),
            Phase::Body(exchange) => {
                self.phase = Phase::Body(exchange);
                self.resume(room);
            }
            phase => self.phase = phase,
        }
    }

    /// The timer has fired.
    pub(super) fn fired(&mut self, room: &mut Room<'_>) {
        (self.timer, self.armed) = (None, Time::NEVER);
        if room.now < self.deadline {
            return self.arm(room);
        }
        let queued = room.out.queued();
        match std::mem::replace(&mut self.phase, Phase::Head) {
            Phase::Head if queued == 0 && self.input.is_empty() => {
                room.counters.idle_closed.add(1);
                room.out.close();
            }
            Phase::Head if queued == 0 => {
                self.refuse(408, Fault::HeadTimeout, "the head took too long", room);
            }
            Phase::Delayed(exchange) => {
                self.start(exchange, room);
                self.resume(room);
            }
            Phase::Body(exchange) if queued == 0 => {
                self.phase = Phase::Body(exchange);
                self.refuse(408, Fault::BodyTimeout, "the body stood still", room);
            }
            Phase::Lingering if queued == 0 && self.last_queued == 0 => room.out.ops.abort(self.id),
            phase => {
                self.phase = phase;
                if queued == self.last_queued && queued > 0 {
                    return self.stalled(room);
                }
                self.last_queued = queued;
                let write = milliseconds(room.plan.limits.write_ms);
                let lingers = queued == 0 && matches!(self.phase, Phase::Lingering);
                self.wait(room, if lingers { LINGER } else { write });
            }
        }
    }

    /// The client takes nothing.
    fn stalled(&mut self, room: &mut Room<'_>) {
        room.counters.count_fault(Fault::WriteTimeout);
        room.out.ops.abort(self.id);
    }

    /// Receives again, and goes on with what was received before.
    fn resume(&mut self, room: &mut Room<'_>) {
        if matches!(
            self.phase,
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused
        ) {
            return;
        }
        room.out.ops.receive(self.id, true);
        let input = std::mem::take(&mut self.input);
        self.process(&input, room);
        if self.ended && self.input.is_empty() && matches!(self.phase, Phase::Head) {
            room.out.ops.close(self.id);
        }
    }

    /// Takes as many requests off `data` as can be answered now, and keeps the rest.
    fn process(&mut self, data: &[u8], room: &mut Room<'_>) {
        let mut used = 0;
        let mut answered = false;
        loop {
            let rest = &data[used..];
            match std::mem::replace(&mut self.phase, Phase::Head) {
                Phase::Head if rest.is_empty() => break,
                Phase::Head if room.out.queued() > PAUSE => {
                    self.hold(Phase::Paused, room);
                    break;
                }
                Phase::Head => match read(rest, &room.head_limits) {
                    Ok(Some(head)) => {
                        used += head.bytes;
                        (answered, self.in_head) = (true, false);
                        self.begin(&head, room);
                    }
                    Ok(None) => {
                        // From its first byte on, however slowly the others follow.
                        if !std::mem::replace(&mut self.in_head, true) {
                            self.wait(room, milliseconds(room.plan.limits.head_ms));
                        }
                        answered = false;
                        break;
                    }
                    Err(error) => self.refuse(error.status(), error.into(), &error.to_string(), room),
                },
                Phase::Body(exchange) => match self.read_body(exchange, rest, room) {
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
            if room.out.overflowed {
                room.counters.count_fault(Fault::Overflow);
                room.out.ops.abort(self.id);
                return;
            }
        }
        self.input = data[used..].to_vec();
        if answered && matches!(self.phase, Phase::Head) {
            self.wait(room, milliseconds(room.plan.limits.idle_ms));
        }
    }

    /// A head was read.
    fn begin(&mut self, head: &Head<'_>, room: &mut Room<'_>) {
        room.counters.requests.add(1);
        room.begin_line(head);
        self.requests += 1;
        let limits = &room.plan.limits;
        let terms = Terms {
            version: head.version,
            keep_alive: head.keep_alive && self.requests != limits.requests,
            head_only: head.method == b"HEAD",
        };
        if let Framing::Length(length) = head.framing
            && length > limits.body_bytes
        {
            let text = format!("the body is longer than {} bytes", limits.body_bytes);
            return self.refuse(413, Fault::BodyTooLong, &text, room);
        }
        if room.files.is_some() && matches!(head.method, b"GET" | b"HEAD") {
            return self.begin_file(head, terms, room);
        }
        let object = match head.method {
            b"POST" | b"PUT" if room.files.is_some() => Some(Object::refusal(405)),
            b"GET" | b"HEAD" | b"POST" | b"PUT" => Object::read(head.path_and_query()),
            b"OPTIONS" => Some(Object::options()),
            method => Some(Object::refusal(if is_known(method) { 405 } else { 501 })),
        };
        let object = object.unwrap_or(Object::refusal(404));
        if head.framing == Framing::None && object.delay.is_zero() {
            room.count_status(object.status);
            let stamp = room.stamp.fields(room.now);
            let left = begin_answer(&object, terms, Framing::None, room.scratch, stamp, &mut room.out);
            match left {
                None => self.finish(terms, room),
                Some(producer) => {
                    let mut exchange = Exchange::new(head, terms, object);
                    exchange.producer = Some(producer);
                    self.produce(exchange, room);
                }
            }
            return;
        }
        let delay = object.delay;
        let exchange = Exchange::new(head, terms, object);
        if delay.is_zero() {
            self.start(exchange, room);
        } else {
            self.hold(Phase::Delayed(exchange), room);
            self.wait(room, delay);
        }
    }

    /// A file is asked for.
    fn begin_file(&mut self, head: &Head<'_>, mut terms: Terms, room: &mut Room<'_>) {
        // What a body could mean here nobody has said: it is dropped with the connection.
        terms.keep_alive &= head.framing == Framing::None;
        let Some(files) = room.files.as_mut() else { return };
        let found = files.find(head.path_and_query(), room.now);
        let stamp = room.stamp.fields(room.now);
        let (status, object, left) = match found {
            Ok(found) => {
                let out = &mut room.out;
                let (status, left) = begin_file(head, &found, terms, room.scratch, stamp, out);
                (status, Object::refusal(status), left)
            }
            Err(status) => {
                let object = Object::refusal(status);
                let left = begin_answer(&object, terms, Framing::None, room.scratch, stamp, &mut room.out);
                (status, object, left)
            }
        };
        room.count_status(status);
        match left {
            None => self.finish(terms, room),
            Some(producer) => {
                let mut exchange = Exchange::new(head, terms, object);
                exchange.producer = Some(producer);
                self.produce(exchange, room);
            }
        }
    }

    /// Its delay is over: reads the body, if there is one, and answers.
    fn start(&mut self, mut exchange: Box<Exchange>, room: &mut Room<'_>) {
        if exchange.reader.is_none() {
            return self.answer(exchange, room);
        }
        if std::mem::take(&mut exchange.expects_continue) {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            room.out.write_head(interim, interim.len());
            room.counters.count_status(100);
        }
        if exchange.echoes() {
            // The answer begins with the body, so that neither side has to hold it.
            room.count_status(exchange.object.status);
            let stamp = room.stamp.fields(room.now);
            let (object, terms, framing) = (&exchange.object, exchange.terms, exchange.framing);
            begin_answer(object, terms, framing, room.scratch, stamp, &mut room.out);
        }
        self.phase = Phase::Body(exchange);
        self.wait(room, milliseconds(room.plan.limits.body_ms));
    }

    /// Takes what is there of a body; returns the bytes used, 0 when there is nothing to go on with.
    fn read_body(&mut self, mut exchange: Box<Exchange>, rest: &[u8], room: &mut Room<'_>) -> usize {
        if room.out.queued() > PAUSE {
            self.hold(Phase::Body(exchange), room);
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
                self.refuse(400, Fault::Chunk, &error.to_string(), room);
                return rest.len();
            }
        };
        match item {
            Some(Item::Data(data)) => {
                exchange.take(data, &mut room.out);
                let too_long = exchange.body_bytes > room.plan.limits.body_bytes;
                // With the last byte of a length the body is complete, and no further byte may come to say so.
                let complete = exchange.reader == Some(corelane_proto::http::request::BodyReader::Length(0));
                self.phase = Phase::Body(exchange);
                self.wait(room, milliseconds(room.plan.limits.body_ms));
                if too_long {
                    let text = format!("the body is longer than {} bytes", room.plan.limits.body_bytes);
                    self.refuse(413, Fault::BodyTooLong, &text, room);
                    return rest.len();
                }
                if complete {
                    self.body_complete(room);
                }
                used
            }
            Some(Item::End) => {
                self.phase = Phase::Body(exchange);
                self.body_complete(room);
                used
            }
            None => {
                self.phase = Phase::Body(exchange);
                used
            }
        }
    }

    fn body_complete(&mut self, room: &mut Room<'_>) {
        let Phase::Body(exchange) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return;
        };
        room.counters.bodies.add(1);
        room.counters.body_bytes.add(exchange.body_bytes);
        if !exchange.echoes() {
            return self.answer(exchange, room);
        }
        room.counters.pattern_bodies.add(u64::from(exchange.is_pattern));
        if exchange.framing == Framing::Chunked && !exchange.terms.head_only {
            room.out.write(LAST_CHUNK);
        }
        self.finish(exchange.terms, room);
    }

    fn answer(&mut self, mut exchange: Box<Exchange>, room: &mut Room<'_>) {
        room.count_status(exchange.object.status);
        let stamp = room.stamp.fields(room.now);
        let (object, terms) = (&exchange.object, exchange.terms);
        match begin_answer(object, terms, Framing::None, room.scratch, stamp, &mut room.out) {
            None => self.finish(terms, room),
            Some(producer) => {
                exchange.producer = Some(producer);
                self.produce(exchange, room);
            }
        }
    }

    /// Queues the next window of a body.
    fn produce(&mut self, mut exchange: Box<Exchange>, room: &mut Room<'_>) {
        let complete = match exchange.producer.as_mut() {
            Some(producer) => producer.produce(&mut room.out),
            None => Ok(true),
        };
        let Ok(complete) = complete else {
            // The rest of the file is gone, and its length was promised.
            room.counters.count_fault(Fault::File);
            room.out.ops.abort(self.id);
            return;
        };
        if complete {
            let held = !room.out.ops.is_receiving(self.id);
            self.finish(exchange.terms, room);
            if held {
                self.resume(room);
            }
        } else {
            self.hold(Phase::Producing(exchange), room);
        }
    }

    /// Waits for the client to take what is queued, or for a delay, and receives nothing meanwhile.
    fn hold(&mut self, phase: Phase, room: &mut Room<'_>) {
        room.out.ops.receive(self.id, false);
        if !matches!(phase, Phase::Delayed(_)) {
            room.out.ops.tell_drained(self.id);
            self.last_queued = room.out.queued();
            self.wait(room, milliseconds(room.plan.limits.write_ms));
        }
        self.phase = phase;
    }

    /// The answer is queued to its end.
    fn finish(&mut self, terms: Terms, room: &mut Room<'_>) {
        room.end_line();
        if terms.keep_alive {
            self.phase = Phase::Head;
        } else {
            self.linger(true, room);
        }
    }

    /// Answers with a status and the reason, and closes: where the next request begins is not known.
    fn refuse(&mut self, status: u16, fault: Fault, text: &str, room: &mut Room<'_>) {
        room.counters.count_fault(fault);
        // Within an echo, whose head is out, nothing can be said any more.
        let begun = matches!(&self.phase, Phase::Body(exchange) if exchange.echoes());
        if !begun {
            room.count_status(status);
            let stamp = room.stamp.fields(room.now);
            room.scratch.clear();
            answer::begin(room.scratch, status);
            room.scratch.extend_from_slice(stamp);
            answer::connection(room.scratch, Version::Http11, false);
            answer::field(room.scratch, "Content-Type", b"text/plain");
            answer::number(room.scratch, "Content-Length", text.len() as u64 + 1);
            answer::end(room.scratch);
            let head_bytes = room.scratch.len();
            room.scratch.extend_from_slice(text.as_bytes());
            room.scratch.push(b'\n');
            room.out.write_head(room.scratch, head_bytes);
        }
        room.end_line();
        self.linger(!begun, room);
    }

    /// Ends this side, behind an answer that is whole or not, and waits for the client to end its own.
    fn linger(&mut self, is_whole: bool, room: &mut Room<'_>) {
        self.phase = Phase::Lingering;
        if self.ended {
            room.out.ops.close(self.id);
            return;
        }
        room.out.ops.receive(self.id, true);
        self.last_queued = room.out.queued();
        room.out.shutdown(is_whole);
        // A client that takes its time for the answer has it, as long as it takes something.
        let write = milliseconds(room.plan.limits.write_ms);
        self.wait(room, if self.last_queued > PAUSE { write } else { LINGER });
    }

    /// Sets the deadline. The timer is only moved when it would fire too late: a request costs no timer.
    fn wait(&mut self, room: &mut Room<'_>, duration: Duration) {
        self.deadline = room.now + duration;
        if self.timer.is_none() || self.deadline < self.armed {
            self.arm(room);
        }
    }

    fn arm(&mut self, room: &mut Room<'_>) {
        if let Some(timer) = self.timer.take() {
            room.wheel.cancel(timer);
        }
        self.armed = self.deadline;
        self.timer = Some(room.wheel.insert(self.deadline, self.id));
    }
}

/// Methods of RFC 9110 and RFC 5789: not allowed here, but known.
fn is_known(method: &[u8]) -> bool {
    matches!(
        method,
        b"DELETE" | b"CONNECT" | b"TRACE" | b"PATCH" | b"OPTIONS" | b"GET" | b"HEAD" | b"POST" | b"PUT"
    )
}
