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

    /// The one whose answer is next, and when it was due.
    fn oldest(&self) -> Option<(Time, &Request)>;

    /// Removes the oldest; returns when it was due.
    fn pop(&mut self) -> Option<Time>;

    /// How many there are.
    fn count(&self) -> usize;
}

/// At most one request.
#[derive(Debug)]
pub struct One<Request>(Time, Option<Request>);

impl<Request> Default for One<Request> {
    fn default() -> Self {
        Self(Time::NEVER, None)
    }
}

impl<Request: fmt::Debug + Send> InFlight<Request> for One<Request> {
    const PIPELINES: bool = false;

    fn push(&mut self, due: Time, request: Request) -> &Request {
        self.0 = due;
        self.1.insert(request)
    }

    fn oldest(&self) -> Option<(Time, &Request)> {
        self.1.as_ref().map(|request| (self.0, request))
    }

    fn pop(&mut self) -> Option<Time> {
        self.1.take().map(|_| self.0)
    }

    fn count(&self) -> usize {
        usize::from(self.1.is_some())
    }
}

/// Any number of requests; memory is allocated as the number grows, and kept.
pub type Pipeline<Request> = VecDeque<(Time, Request)>;

impl<Request: fmt::Debug + Send> InFlight<Request> for Pipeline<Request> {
    const PIPELINES: bool = true;

    fn push(&mut self, due: Time, request: Request) -> &Request {
        self.push_back((due, request));
        &self[self.len() - 1].1
    }

    fn oldest(&self) -> Option<(Time, &Request)> {
        self.front().map(|(due, request)| (*due, request))
    }

    fn pop(&mut self) -> Option<Time> {
        self.pop_front().map(|(due, _)| due)
    }

    fn count(&self) -> usize {
        self.len()
    }
}
