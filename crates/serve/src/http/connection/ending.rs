//! How a request and its connection end: complete, or refused.

use super::state::{Connection, LINGER, PAUSE, Phase};
use crate::http::context::ConnectionContext;
use crate::http::exchange::Terms;
use corelane_proto::http::answer;
use corelane_proto::http::request::Version;

impl Connection {
    /// The response is queued completely.
    pub(super) fn finish(&mut self, terms: Terms, context: &mut ConnectionContext<'_>) {
        context.end_line();
        if terms.keep_alive {
            self.phase = Phase::Head;
        } else {
            self.linger(true, context);
        }
    }

    pub(super) fn refuse_body(&mut self, context: &mut ConnectionContext<'_>) {
        let limit = context.parts.plan.limits.body_bytes;
        let text = format!("the body is longer than {limit} bytes");
        self.refuse(413, "body_too_long", &text, context);
    }

    /// Responds with a status and the reason, and closes, because the start of the next request is unknown.
    pub(super) fn refuse(
        &mut self,
        status: u16,
        fault: &'static str,
        text: &str,
        context: &mut ConnectionContext<'_>,
    ) {
        context.parts.counters.count_fault(fault);
        // In an echo, the head has been sent, and no other status is possible.
        let begun = matches!(&self.phase, Phase::Body(exchange) if exchange.echoes());
        if !begun {
            context.begin_head(status, Version::Http11, false);
            let head = &mut context.parts.scratch;
            answer::field(head, "Content-Type", b"text/plain");
            answer::number(head, "Content-Length", text.len() as u64 + 1);
            context.end_head(|out| {
                if !self.to_head {
                    out.extend_from_slice(text.as_bytes());
                    out.push(b'\n');
                }
            });
        }
        context.end_line();
        self.linger(!begun, context);
    }

    /// Closes this side after a complete or truncated response, and waits for the client to close.
    pub(super) fn linger(&mut self, is_whole: bool, context: &mut ConnectionContext<'_>) {
        self.phase = Phase::Lingering;
        if self.ended {
            context.out.close_at_once();
            return;
        }
        context.out.receive(true);
        self.last_queued = context.out.queued();
        context.out.shutdown(is_whole);
        // A slow client is given time as long as it reads something.
        if self.last_queued > PAUSE {
            self.wait(context.parts.plan.limits.write_ms, context);
        } else {
            self.wait_for(LINGER, context);
        }
    }
}
