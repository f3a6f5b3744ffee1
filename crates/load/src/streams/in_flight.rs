//! The requests in flight on one connection: made, and not answered. Answers come in their order.

use corelane_worker::Time;
use std::collections::VecDeque;
use std::fmt;

/// Requests in flight, each with the time at which it was due.
pub trait InFlight<Request>: Default + fmt::Debug + Send {
    /// Whether there may be more than one.
    const PIPELINES: bool;

    /// Adds one, and returns it. There is room for it.
    fn push(&mut self, due: Time, request: Request) -> &Request;

    /// The one whose answer is next.
    fn oldest(&self) -> Option<&Request>;

    /// Removes the oldest; returns when it was due.
    fn pop(&mut self) -> Option<Time>;

    /// How many there are.
    fn count(&self) -> usize;
}

/// At most one request.
#[derive(Debug)]
pub struct One<Request> {
    due: Time,
    request: Option<Request>,
}

impl<Request> Default for One<Request> {
    fn default() -> Self {
        Self {
            due: Time::NEVER,
            request: None,
        }
    }
}

impl<Request: fmt::Debug + Send> InFlight<Request> for One<Request> {
    const PIPELINES: bool = false;

    #[inline]
    fn push(&mut self, due: Time, request: Request) -> &Request {
        self.due = due;
        self.request.insert(request)
    }

    #[inline]
    fn oldest(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    #[inline]
    fn pop(&mut self) -> Option<Time> {
        self.request.take().map(|_| self.due)
    }

    #[inline]
    fn count(&self) -> usize {
        usize::from(self.request.is_some())
    }
}

/// Any number of requests; memory is allocated as the number grows, and kept.
#[derive(Debug)]
pub struct Pipeline<Request>(VecDeque<(Time, Request)>);

impl<Request> Default for Pipeline<Request> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Request: fmt::Debug + Send> InFlight<Request> for Pipeline<Request> {
    const PIPELINES: bool = true;

    fn push(&mut self, due: Time, request: Request) -> &Request {
        self.0.push_back((due, request));
        &self.0[self.0.len() - 1].1
    }

    fn oldest(&self) -> Option<&Request> {
        self.0.front().map(|(_, request)| request)
    }

    fn pop(&mut self) -> Option<Time> {
        self.0.pop_front().map(|(due, _)| due)
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}
