//! Deferred dispatch: a thread that receives a message either handles it, or puts it into the mailbox of the worker that it
//! is meant for.
//!
//! In: messages, each a head and bytes, with the worker that each is meant for. Out: messages in mailboxes, whose workers
//! are woken once per batch; those that did not fit, counted. Nobody waits.

mod mailbox;

pub use mailbox::{Full, Inbox, Outbox, mailbox};

use crate::crew::ReadyCell;
use crate::{CachePadded, Counter};
use std::sync::Arc;

/// Where messages are handled; the names are those of FreeBSD's netisr(9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// By the thread that receives them.
    Direct,
    /// By the workers that they are meant for.
    Deferred,
    /// By the thread that receives them, if it is the worker that they are meant for, otherwise by that worker. What a
    /// thread has for itself is never queued, so it stays in order.
    Hybrid,
}

/// One thread's mailboxes to the workers.
pub struct Dispatcher<H> {
    dispatch: Dispatch,
    /// The worker that this thread is; `None` for a thread that only passes on.
    own: Option<usize>,
    posts: Vec<Post<H>>,
}

/// The way to one worker.
struct Post<H> {
    outbox: Outbox<H>,
    worker: ReadyCell,
    /// Messages that did not fit.
    full: Arc<CachePadded<Counter>>,
    /// Whether the current batch has messages for the worker.
    posted: bool,
}

impl<H> Dispatcher<H> {
    /// Passes on nothing until it has workers.
    #[must_use]
    pub fn new(dispatch: Dispatch, own: Option<usize>) -> Self {
        Self {
            dispatch,
            own,
            posts: Vec::new(),
        }
    }

    /// Adds the next worker and the mailbox that it takes from; returns the count of messages that do not fit.
    pub fn add(&mut self, outbox: Outbox<H>, worker: ReadyCell) -> Arc<CachePadded<Counter>> {
        let full = Arc::<CachePadded<Counter>>::default();
        self.posts.push(Post {
            outbox,
            worker,
            full: Arc::clone(&full),
            posted: false,
        });
        full
    }

    /// Puts a message into the mailbox of a worker, and returns false; or returns true if the caller is to handle it.
    #[inline]
    pub fn dispatch(&mut self, worker: usize, head: H, payload: &[u8]) -> bool {
        let is_here = match self.dispatch {
            Dispatch::Direct => true,
            Dispatch::Deferred => false,
            Dispatch::Hybrid => self.own == Some(worker),
        };
        if !is_here {
            let post = &mut self.posts[worker];
            match post.outbox.post(head, payload) {
                Ok(()) => post.posted = true,
                Err(Full) => post.full.add(1),
            }
        }
        is_here
    }

    /// Wakes the workers that got messages since the last call: call it after each batch.
    pub fn wake(&mut self) {
        for post in &mut self.posts {
            // A worker that is not ready yet checks its mailbox before it waits.
            if std::mem::take(&mut post.posted)
                && let Some(ready) = post.worker.get()
            {
                ready.waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_decides_who_handles_a_message_and_what_does_not_fit_is_counted() {
        for (dispatch, own, here) in [
            (Dispatch::Direct, Some(0), [true, true]),
            (Dispatch::Deferred, Some(0), [false, false]),
            (Dispatch::Hybrid, Some(0), [true, false]),
            (Dispatch::Hybrid, None, [false, false]),
        ] {
            let mut dispatcher = Dispatcher::new(dispatch, own);
            let [mut first, mut second] = [(); 2].map(|()| {
                let (outbox, inbox) = mailbox(64);
                (dispatcher.add(outbox, ReadyCell::default()), inbox)
            });
            for (worker, (full, inbox)) in [&mut first, &mut second].into_iter().enumerate() {
                for head in 0..2 {
                    assert_eq!(dispatcher.dispatch(worker, head, b"bytes"), here[worker]);
                }
                dispatcher.wake();
                let taken = inbox.take().map(|(head, payload)| (head, payload.to_vec()));
                let expected = (!here[worker]).then(|| (0, b"bytes".to_vec()));
                assert_eq!((taken, full.get()), (expected, u64::from(!here[worker])));
            }
        }
    }
}
