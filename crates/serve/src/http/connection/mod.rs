//! One HTTP connection: takes received bytes, sends responses; holds no buffer between requests.
//!
//! While a response waits (for its delay, or for the client to read), receiving is paused. A client that does not read
//! therefore holds one window of responses and one piece of requests, and cannot affect others.

mod ending;
mod state;

pub(super) use state::{Connection, PAUSE};

use super::context::ConnectionContext;
use super::exchange::{Exchange, Terms, begin_answer, begin_file};
use super::object::Object;
use super::output::Output;
use super::producer::Producer;
use corelane_proto::http::chunked::{Item, LAST_CHUNK};
use corelane_proto::http::request::{BodyReader, Framing, Head, empty_lines, read};
use corelane_worker::Time;
use state::{LINGER, Phase};
use std::mem;
use std::time::Duration;

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Head,
            input: Vec::new(),
            requests: 0,
            in_head: false,
            to_head: false,
            ended: false,
            last_queued: u64::MAX,
            deadline: Time::NEVER,
            armed: Time::NEVER,
            timer: None,
        }
    }

    /// The connection is open, or its TLS handshake is complete.
    pub(super) fn open(&mut self, context: &mut ConnectionContext<'_>) {
        let limits = &context.parts.plan.limits;
        let limit = if context.out.is_handshaking() {
            limits.head_ms
        } else {
            limits.idle_ms
        };
        self.wait(limit, context);
    }

    /// Bytes of requests that wait.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.input.capacity()
    }

    /// The connection has ended: releases its resources.
    pub(super) fn end(&mut self, context: &mut ConnectionContext<'_>) {
        if let Some(timer) = self.timer.take() {
            context.parts.wheel.cancel(timer);
        }
        context.end_line();
        self.input = Vec::new();
        self.phase = Phase::Lingering;
    }

    /// The server is stopping: sends close_notify if all responses are complete. A truncated response must not look
    /// complete.
    pub(super) fn shutdown(&self, mut out: Output<'_>) {
        if !matches!(
            self.phase,
            Phase::Body(_) | Phase::Producing(_) | Phase::Lingering
        ) {
            out.notify_end();
        }
    }

    /// Handles received bytes.
    pub(super) fn receive(&mut self, bytes: &[u8], context: &mut ConnectionContext<'_>) {
        if self.input.is_empty() {
            self.process(bytes, context);
        } else {
            let mut input = mem::take(&mut self.input);
            input.extend_from_slice(bytes);
            self.process(&input, context);
        }
    }

    /// The client has closed its side.
    pub(super) fn peer_closed(&mut self, context: &mut ConnectionContext<'_>) {
        self.ended = true;
        match &self.phase {
            Phase::Head if !self.in_head => context.out.close_at_once(),
            Phase::Head => self.refuse(400, "head_too_short", "the head ends too early", context),
            Phase::Body(_) => self.refuse(400, "body_too_short", "the body ends too early", context),
            Phase::Lingering => context.out.close_at_once(),
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused => {}
        }
    }

    /// All queued bytes were accepted.
    pub(super) fn drained(&mut self, context: &mut ConnectionContext<'_>) {
        match &self.phase {
            Phase::Producing(_) => self.produce(context),
            Phase::Paused => {
                self.phase = Phase::Head;
                self.resume(context);
            }
            Phase::Body(_) => self.resume(context),
            Phase::Head | Phase::Delayed(_) | Phase::Lingering => {}
        }
    }

    /// The timer has fired.
    pub(super) fn fired(&mut self, context: &mut ConnectionContext<'_>) {
        (self.timer, self.armed) = (None, Time::NEVER);
        if context.now < self.deadline {
            return self.arm(context);
        }
        let queued = context.out.queued();
        match &self.phase {
            Phase::Head if queued == 0 && context.out.is_handshaking() => {
                context.parts.counters.count_fault("handshake_timeout");
                context.out.close_at_once();
            }
            Phase::Head if queued == 0 && !self.in_head => {
                context.parts.counters.idle_closed.add(1);
                context.out.close();
            }
            Phase::Head if queued == 0 => {
                self.refuse(408, "head_timeout", "the head took too long", context);
            }
            Phase::Delayed(_) => {
                if let Phase::Delayed(exchange) = mem::replace(&mut self.phase, Phase::Head) {
                    self.start(exchange, context);
                }
                self.resume(context);
            }
            Phase::Body(_) if queued == 0 => {
                self.refuse(408, "body_timeout", "the body stood still", context);
            }
            Phase::Lingering if queued == 0 && self.last_queued == 0 => context.out.abort(),
            // The client does not read.
            _ if queued == self.last_queued && queued > 0 => {
                context.parts.counters.count_fault("write_timeout");
                context.out.abort();
            }
            phase => {
                self.last_queued = queued;
                if queued == 0 && matches!(phase, Phase::Lingering) {
                    self.wait_for(LINGER, context);
                } else {
                    self.wait(context.parts.plan.limits.write_ms, context);
                }
            }
        }
    }

    /// Resumes receiving, and continues with bytes received before.
    fn resume(&mut self, context: &mut ConnectionContext<'_>) {
        if matches!(
            self.phase,
            Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused
        ) {
            return;
        }
        context.out.receive(true);
        let input = mem::take(&mut self.input);
        self.process(&input, context);
        if self.ended && !self.in_head && matches!(self.phase, Phase::Head) {
            context.out.close_at_once();
        }
    }

    /// Parses as many requests from `data` as can be answered now, and keeps the rest.
    fn process(&mut self, data: &[u8], context: &mut ConnectionContext<'_>) {
        let mut used = 0;
        let mut answered = false;
        loop {
            let rest = &data[used..];
            match &self.phase {
                Phase::Head if rest.is_empty() => break,
                Phase::Head if context.out.queued() > PAUSE => {
                    self.phase = Phase::Paused;
                    self.hold(context);
                    break;
                }
                // The beginning of an empty line, which may follow a request.
                Phase::Head if rest == b"\r" => break,
                Phase::Head if rest.starts_with(b"\r\n") => used += empty_lines(rest),
                Phase::Head => match self.read_head(rest, context) {
                    0 => {
                        answered = false;
                        break;
                    }
                    taken => {
                        used += taken;
                        answered = true;
                    }
                },
                Phase::Body(_) => match self.read_body(rest, context) {
                    0 => break,
                    taken => used += taken,
                },
                Phase::Lingering => {
                    used = data.len();
                    break;
                }
                Phase::Delayed(_) | Phase::Producing(_) | Phase::Paused => break,
            }
            if context.out.overflowed {
                context.parts.counters.count_fault("overflow");
                context.out.abort();
                return;
            }
        }
        self.input = data[used..].to_vec();
        if answered && matches!(self.phase, Phase::Head) {
            self.wait(context.parts.plan.limits.idle_ms, context);
        }
    }

    /// Parses a head and begins the response, or rejects it; returns the bytes used, 0 if it is incomplete.
    fn read_head(&mut self, rest: &[u8], context: &mut ConnectionContext<'_>) -> usize {
        self.to_head = rest.starts_with(b"HEAD ");
        match read(rest, &context.parts.head_limits) {
            Ok(Some(head)) => {
                self.in_head = false;
                self.begin(&head, context);
                head.bytes
            }
            Ok(None) => {
                // The deadline starts at the first byte, however slowly the others follow.
                if !mem::replace(&mut self.in_head, true) {
                    self.wait(context.parts.plan.limits.head_ms, context);
                }
                0
            }
            Err(error) => {
                self.refuse(error.status(), error.name(), &error.to_string(), context);
                rest.len()
            }
        }
    }

    /// A head was parsed.
    fn begin(&mut self, head: &Head<'_>, context: &mut ConnectionContext<'_>) {
        context.parts.counters.requests.add(1);
        context.begin_line(head);
        self.requests += 1;
        let limits = &context.parts.plan.limits;
        let mut terms = Terms {
            version: head.version,
            keep_alive: head.keep_alive && self.requests != limits.requests,
            head_only: head.method == b"HEAD",
        };
        if let Framing::Length(length) = head.framing
            && length > limits.body_bytes
        {
            return self.refuse_body(context);
        }
        let object = match (head.method, &mut context.parts.files) {
            (b"GET" | b"HEAD", Some(files)) => {
                // The meaning of a body is undefined here: it is discarded with the connection.
                terms.keep_alive &= head.framing == Framing::None;
                let date = context.parts.stamp.date(context.now);
                let left = match files.find(head.path_and_query(), context.now, date) {
                    Ok(found) => begin_file(context, head, &found, terms),
                    Err(status) => begin_answer(context, &Object::plain(status), terms, Framing::None),
                };
                return self.send(left, terms, context);
            }
            (b"POST" | b"PUT", Some(_)) => Some(Object::plain(405)),
            (b"GET" | b"HEAD" | b"POST" | b"PUT", None) => Object::read(head.path_and_query()),
            (b"OPTIONS", _) => Some(Object::plain(204)),
            // Methods of RFC 9110 and RFC 5789: known, but not allowed here.
            (b"DELETE" | b"CONNECT" | b"TRACE" | b"PATCH", _) => Some(Object::plain(405)),
            _ => Some(Object::plain(501)),
        };
        let object = object.unwrap_or(Object::plain(404));
        let delay = object.delay;
        if head.framing == Framing::None && delay.is_zero() {
            let left = begin_answer(context, &object, terms, Framing::None);
            return self.send(left, terms, context);
        }
        let exchange = Exchange::new(head, terms, object);
        if delay.is_zero() {
            self.start(exchange, context);
        } else {
            context.out.receive(false);
            self.phase = Phase::Delayed(exchange);
            self.wait_for(delay, context);
        }
    }

    /// The delay is over: reads the body, if any, and responds.
    fn start(&mut self, mut exchange: Box<Exchange>, context: &mut ConnectionContext<'_>) {
        if exchange.reader.is_none() {
            return self.answer(&exchange, context);
        }
        if exchange.expects_continue && exchange.object.status >= 400 {
            // Refused whatever the body is; the client may send it or not (RFC 9110 10.1.1).
            exchange.terms.keep_alive = false;
            return self.answer(&exchange, context);
        }
        if mem::take(&mut exchange.expects_continue) {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            context.out.write_head(interim, interim.len());
            context.parts.counters.count_status(100);
        }
        if exchange.echoes() {
            // The response begins with the body, so that neither side must buffer it.
            begin_answer(context, &exchange.object, exchange.terms, exchange.framing);
        }
        self.phase = Phase::Body(exchange);
        self.wait(context.parts.plan.limits.body_ms, context);
    }

    /// Reads the available part of a body; returns the bytes used, 0 if nothing can be processed.
    fn read_body(&mut self, rest: &[u8], context: &mut ConnectionContext<'_>) -> usize {
        let Phase::Body(exchange) = &mut self.phase else {
            return 0;
        };
        if context.out.queued() > PAUSE {
            self.hold(context);
            return 0;
        }
        let Some(reader) = exchange.reader.as_mut() else {
            return 0;
        };
        match reader.feed(rest) {
            Ok((used, None)) => used,
            Ok((used, Some(Item::End))) => {
                self.body_complete(context);
                used
            }
            Ok((used, Some(Item::Data(data)))) => {
                exchange.take(data, &mut context.out);
                let too_long = exchange.body_bytes > context.parts.plan.limits.body_bytes;
                // A body with a length is complete with its last byte; no further byte may arrive to trigger it.
                let complete = exchange.reader == Some(BodyReader::Length(0));
                self.wait(context.parts.plan.limits.body_ms, context);
                if too_long {
                    self.refuse_body(context);
                    return rest.len();
                }
                if complete {
                    self.body_complete(context);
                }
                used
            }
            Err(error) => {
                self.refuse(400, "chunk", &error.to_string(), context);
                rest.len()
            }
        }
    }

    fn body_complete(&mut self, context: &mut ConnectionContext<'_>) {
        let Phase::Body(exchange) = mem::replace(&mut self.phase, Phase::Head) else {
            return;
        };
        let counters = &context.parts.counters;
        counters.bodies.add(1);
        counters.body_bytes.add(exchange.body_bytes);
        if !exchange.echoes() {
            return self.answer(&exchange, context);
        }
        counters.pattern_bodies.add(u64::from(exchange.is_pattern));
        if exchange.framing == Framing::Chunked && exchange.has_content() {
            context.out.write(LAST_CHUNK);
        }
        self.finish(exchange.terms, context);
    }

    fn answer(&mut self, exchange: &Exchange, context: &mut ConnectionContext<'_>) {
        let left = begin_answer(context, &exchange.object, exchange.terms, Framing::None);
        self.send(left, exchange.terms, context);
    }

    /// The head of a response is queued: continues with the remaining body.
    fn send(&mut self, left: Option<Producer>, terms: Terms, context: &mut ConnectionContext<'_>) {
        match left {
            None => self.finish(terms, context),
            Some(producer) => {
                self.phase = Phase::Producing(Box::new((producer, terms)));
                self.produce(context);
            }
        }
    }

    /// Queues the next window of a body.
    fn produce(&mut self, context: &mut ConnectionContext<'_>) {
        let Phase::Producing(producing) = &mut self.phase else {
            return;
        };
        let (producer, terms) = &mut **producing;
        match producer.produce(&mut context.out, &mut context.parts.scratch) {
            Ok(false) => self.hold(context),
            Ok(true) => {
                let (terms, held) = (*terms, !context.out.is_receiving());
                self.finish(terms, context);
                if held {
                    self.resume(context);
                }
            }
            Err(_) => {
                // The file has changed after its length was sent. What is queued is of the announced version.
                context.parts.counters.count_fault("file");
                context.out.close_at_once();
            }
        }
    }

    /// Waits for the client to read, and pauses receiving.
    fn hold(&mut self, context: &mut ConnectionContext<'_>) {
        context.out.receive(false);
        context.out.notify_drained();
        self.last_queued = context.out.queued();
        self.wait(context.parts.plan.limits.write_ms, context);
    }

    fn wait(&mut self, milliseconds: u64, context: &mut ConnectionContext<'_>) {
        self.wait_for(Duration::from_millis(milliseconds), context);
    }

    /// Sets the deadline. The timer is only moved if it would fire too late, so that a request needs no timer
    /// operation.
    fn wait_for(&mut self, duration: Duration, context: &mut ConnectionContext<'_>) {
        self.deadline = context.now + duration;
        if self.timer.is_none() || self.deadline < self.armed {
            self.arm(context);
        }
    }

    fn arm(&mut self, context: &mut ConnectionContext<'_>) {
        let (wheel, (_, id)) = (&mut context.parts.wheel, context.out.engine());
        if let Some(timer) = self.timer.take() {
            wheel.cancel(timer);
        }
        self.armed = self.deadline;
        self.timer = Some(wheel.insert(self.deadline, id));
    }
}
