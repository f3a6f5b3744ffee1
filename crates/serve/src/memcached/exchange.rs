//! What workers hand over to each other: units about keys of another worker, and their answers, by value, through mailboxes.
//!
//! A full mailbox of requests stops the client whose request it is; one of answers stops taking requests of that worker. Answers
//! are always taken, so that no two workers wait for each other.

use super::budget::Budget;
use super::handoffs::Measured;
use super::listing::Listing;
use super::shared::Shared;
use corelane_worker::engine::Id;
use corelane_worker::mailbox::{Full, Inbox, Outbox, mailbox};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a mailbox: some hundred requests.
const BYTES: usize = 256 << 10;

/// Bytes of all mailboxes of a server, unless that is less than two messages each.
const ALL: usize = 32 << 20;

/// Most bytes of one message: longer answers and values are several.
pub(super) const PIECE: usize = 16 << 10;

/// A client of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Connection(Id),
    /// A datagram that is not answered yet: its place, and how often that was used before.
    Datagram(u32, u32),
}

impl Client {
    /// The number of a connection of the worker `of` among those of all `workers`.
    pub(super) fn number(self, of: usize, workers: usize) -> usize {
        match self {
            Self::Connection(id) => id.slot() * workers + of,
            Self::Datagram(..) => of,
        }
    }
}

/// Where an answer goes: the entry of a client's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) entry: u32,
}

/// What a worker asks another one. The payload of the message has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A whole request, as it was sent.
    Request,
    /// A key of a request for several.
    Key {
        touch: Option<i32>,
        with_cas: bool,
        last: bool,
    },
    /// The line of a request whose value follows.
    Begin,
    /// Bytes of that value.
    Part,
    /// The end of that value, and whether it is good.
    End(bool),
    /// A flush of everything at that moment.
    Flush {
        /// The second.
        moment: u32,
        /// It is over, whatever the owner's clock says.
        at_once: bool,
    },
    /// Counts are to be published.
    Publish,
    /// A part of a list is to be written.
    List(Listing),
}

/// What is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) place: Place,
    pub(super) is_last: bool,
    is_reckoned: bool,
    /// How far a list is now.
    pub(super) listing: Option<Listing>,
}

impl Asked {
    /// Whether the answer is reckoned in the budget: not that to a value, which is one line, however long the value takes.
    const fn is_reckoned(&self) -> bool {
        !matches!(self, Self::Begin | Self::Part | Self::End(_))
    }
}

/// Bytes of each mailbox of so many workers. Every two have four.
fn mailbox_bytes(workers: usize) -> usize {
    let mailboxes = 2 * workers * workers.saturating_sub(1);
    (ALL / mailboxes.max(1)).clamp(2 * PIECE, BYTES)
}

type Question = (Place, Asked);

/// The mailboxes between one worker and another, at the one's side.
struct Peer {
    questions: Outbox<Question>,
    questions_in: Inbox<Question>,
    answers: Outbox<Answered>,
    answers_in: Inbox<Answered>,
    /// Questions that may not be refused and found no room.
    questions_waiting: VecDeque<(Question, Vec<u8>)>,
    /// Parts of an answer that found no room. No question is taken meanwhile.
    answers_waiting: VecDeque<(Answered, Vec<u8>)>,
    /// Bytes of the answer whose parts are arriving.
    arrived: usize,
    /// Whether it has to be woken.
    posted: bool,
}

/// All mailboxes of one worker.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    /// By index of the worker; none for this one.
    peers: Vec<Option<Peer>>,
    any_posted: bool,
    pub(super) measured: Measured<Place>,
    /// What other workers owe, and what clients have not taken of it.
    pub(super) budget: Budget,
}

impl Exchange {
    /// Those of all workers, in their order.
    pub(super) fn all(shared: &Arc<Shared>) -> Vec<Self> {
        let workers = shared.plan.workers();
        let none = || (0..workers).map(|_| None).collect();
        let mut all: Vec<Vec<Option<Peer>>> = (0..workers).map(|_| none()).collect();
        let bytes = mailbox_bytes(workers);
        for (one, other) in (0..workers).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let (questions, asked) = mailbox(bytes);
            let (questions_back, asked_back) = mailbox(bytes);
            let (answers, answered) = mailbox(bytes);
            let (answers_back, answered_back) = mailbox(bytes);
            all[one][other] = Some(Peer::new((questions, asked_back), (answers, answered_back)));
            all[other][one] = Some(Peer::new((questions_back, asked), (answers_back, answered)));
        }
        let exchange = |peers| Self {
            shared: Arc::clone(shared),
            peers,
            any_posted: false,
            measured: Measured::default(),
            budget: Budget::new(shared.plan.largest_item as usize),
        };
        all.into_iter().map(exchange).collect()
    }

    /// The other workers.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let this = self.peers.iter().position(Option::is_none);
        (0..self.peers.len()).filter(move |peer| Some(*peer) != this)
    }

    /// Asks a worker.
    ///
    /// # Errors
    /// If its mailbox is full, which is counted.
    pub(super) fn ask(&mut self, owner: usize, question: Question, payload: &[u8]) -> Result<(), Full> {
        let asked = self.try_ask(owner, question, payload);
        match asked {
            // The answer to a value that arrives in parts waits for its client.
            Ok(()) if matches!(question.1, Asked::Request | Asked::Key { .. }) => {
                self.measured.asked(question.0);
            }
            Ok(()) => {}
            Err(Full) => self.measured.handoffs.handoffs_refused += 1,
        }
        asked
    }

    fn try_ask(&mut self, owner: usize, question: Question, payload: &[u8]) -> Result<(), Full> {
        let Some(peer) = &mut self.peers[owner] else {
            return Err(Full);
        };
        if !peer.questions_waiting.is_empty() {
            return Err(Full);
        }
        peer.questions.post(question, payload)?;
        if question.1.is_reckoned() {
            self.budget.owe();
        }
        (peer.posted, self.any_posted) = (true, true);
        Ok(())
    }

    /// Asks a worker, later if there is no room now: for what is rare, or continues an earlier question.
    pub(super) fn ask_later(&mut self, owner: usize, question: Question, payload: &[u8]) {
        if self.try_ask(owner, question, payload).is_err()
            && let Some(peer) = &mut self.peers[owner]
        {
            peer.questions_waiting.push_back((question, payload.to_vec()));
            if question.1.is_reckoned() {
                self.budget.owe();
            }
        }
    }

    /// Answers a worker.
    pub(super) fn answer(&mut self, owner: usize, (place, asked): Question, answer: &[u8]) {
        let listing = match asked {
            Asked::List(listing) => Some(listing),
            _ => None,
        };
        let Some(peer) = &mut self.peers[owner] else {
            return;
        };
        let mut pieces = answer.chunks(PIECE).peekable();
        let mut piece: &[u8] = pieces.next().unwrap_or_default();
        loop {
            let next = pieces.next();
            let answered = Answered {
                place,
                is_last: next.is_none(),
                is_reckoned: asked.is_reckoned(),
                listing,
            };
            peer.answer(answered, piece);
            match next {
                Some(next) => piece = next,
                None => break,
            }
        }
        (peer.posted, self.any_posted) = (true, true);
    }

    /// The next question of a worker.
    pub(super) fn asked(&mut self, by: usize) -> Option<(Question, &[u8])> {
        let peer = self.peers[by].as_mut()?;
        if !peer.answers_waiting.is_empty() {
            return None;
        }
        peer.questions_in.take()
    }

    /// The next answer of a worker.
    pub(super) fn answered(&mut self, by: usize) -> Option<(Answered, &[u8])> {
        let peer = self.peers[by].as_mut()?;
        let (answered, part) = peer.answers_in.take()?;
        peer.arrived += part.len();
        if answered.is_last {
            self.measured.answered(answered.place);
            let bytes = std::mem::take(&mut peer.arrived);
            if answered.is_reckoned {
                self.budget.arrived(bytes);
            }
        }
        Some((answered, part))
    }

    /// Posts what found no room before.
    pub(super) fn post_waiting(&mut self) {
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.waits()) {
            peer.post_waiting();
            (peer.posted, self.any_posted) = (true, true);
        }
    }

    /// Whether some messages have found no room yet.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.peers.iter().flatten().any(Peer::waits)
    }

    /// Wakes the workers for which something was posted.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.any_posted {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&mut self) {
        self.any_posted = false;
        for (peer, waker) in self.peers.iter_mut().zip(&self.shared.wakers) {
            if let Some(peer) = peer
                && std::mem::take(&mut peer.posted)
                && let Some(waker) = waker.get()
            {
                let percent = peer.questions.percent();
                self.measured.queue_percent = self.measured.queue_percent.max(percent);
                waker.wake();
            }
        }
    }
}

impl Peer {
    fn new(
        (questions, questions_in): (Outbox<Question>, Inbox<Question>),
        (answers, answers_in): (Outbox<Answered>, Inbox<Answered>),
    ) -> Self {
        Self {
            questions,
            questions_in,
            answers,
            answers_in,
            questions_waiting: VecDeque::new(),
            answers_waiting: VecDeque::new(),
            arrived: 0,
            posted: false,
        }
    }

    fn waits(&self) -> bool {
        !self.questions_waiting.is_empty() || !self.answers_waiting.is_empty()
    }

    fn answer(&mut self, answered: Answered, piece: &[u8]) {
        if !self.answers_waiting.is_empty() || self.answers.post(answered, piece).is_err() {
            self.answers_waiting.push_back((answered, piece.to_vec()));
        }
    }

    fn post_waiting(&mut self) {
        while let Some((question, payload)) = self.questions_waiting.front()
            && self.questions.post(*question, payload).is_ok()
        {
            self.questions_waiting.pop_front();
        }
        while let Some((answered, piece)) = self.answers_waiting.front()
            && self.answers.post(*answered, piece).is_ok()
        {
            self.answers_waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailboxes_of_many_workers_are_smaller() {
        let sizes = [1, 2, 8, 16, 64].map(mailbox_bytes);
        assert_eq!(sizes, [BYTES, BYTES, BYTES, ALL / 480, 2 * PIECE]);
    }
}
