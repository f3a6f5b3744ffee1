//! What workers hand over to each other: units about keys of another worker, and their answers, by value, through mailboxes.
//!
//! A full mailbox of requests stops the client whose request it is; one of answers stops taking requests of that worker. Answers
//! are always taken, so that no two workers wait for each other.

use super::budget::Budget;
use super::handoffs::Measured;
use super::listing::Listing;
use super::shared::Shared;
use corelane_proto::memcached::commands::Output;
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
    Request { hash: u64 },
    /// A key of a request for several.
    Key {
        hash: u64,
        touch: Option<i32>,
        with_cas: bool,
        last: bool,
    },
    /// The line of a request whose value follows.
    Begin { hash: u64 },
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
        !matches!(self, Self::Begin { .. } | Self::Part | Self::End(_))
    }

    /// The hash of the key that it is about.
    const fn hash(&self) -> Option<u64> {
        match self {
            Self::Request { hash } | Self::Key { hash, .. } | Self::Begin { hash } => Some(*hash),
            _ => None,
        }
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
    questions: Outgoing<Question>,
    questions_in: Inbox<Question>,
    /// While some of them wait, no question is taken.
    answers: Outgoing<Answered>,
    answers_in: Inbox<Answered>,
    /// Bytes of the answer whose parts are arriving.
    arrived: usize,
}

/// A mailbox to another worker.
struct Outgoing<H> {
    mailbox: Outbox<H>,
    /// Messages that may not be refused and found no room.
    waiting: VecDeque<(H, Vec<u8>)>,
    /// Whether its reader has to be woken.
    posted: bool,
}

/// All mailboxes of one worker.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    /// By index of the worker; none for this one.
    peers: Vec<Option<Peer>>,
    any_posted: bool,
    /// Bytes of an answer that are posted together.
    piece: Vec<u8>,
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
            piece: Vec::new(),
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
            Ok(()) if matches!(question.1, Asked::Request { .. } | Asked::Key { .. }) => {
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
        peer.questions.post(question, payload)?;
        if question.1.is_reckoned() {
            self.budget.owe();
        }
        self.any_posted = true;
        Ok(())
    }

    /// Asks a worker, later if there is no room now: for what is rare, or continues an earlier question.
    pub(super) fn ask_later(&mut self, owner: usize, question: Question, payload: &[u8]) {
        if let Some(peer) = &mut self.peers[owner] {
            peer.questions.post_later(question, payload);
            if question.1.is_reckoned() {
                self.budget.owe();
            }
            self.any_posted = true;
        }
    }

    /// Passes the hashes of the keys of a worker's next questions, of at most so many, to `visit`; how many questions these are.
    pub(super) fn look(&mut self, by: usize, most: usize, mut visit: impl FnMut(u64)) -> usize {
        let peer = self.peers[by].as_mut();
        peer.filter(|peer| peer.answers.waiting.is_empty())
            .map_or(0, |peer| {
                peer.questions_in
                    .look(most, |(_, asked)| asked.hash().into_iter().for_each(&mut visit))
            })
    }

    /// The next question of a worker, and its answer.
    pub(super) fn asked(&mut self, by: usize) -> Option<(Asked, &[u8], Answer<'_>)> {
        let peer = self.peers[by].as_mut()?;
        if !peer.answers.waiting.is_empty() {
            return None;
        }
        let ((place, asked), payload) = peer.questions_in.take()?;
        self.piece.clear();
        let answer = Answer {
            answered: Answered {
                place,
                is_last: false,
                is_reckoned: asked.is_reckoned(),
                listing: None,
            },
            piece: &mut self.piece,
            outgoing: &mut peer.answers,
            any_posted: &mut self.any_posted,
        };
        Some((asked, payload, answer))
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
        for peer in self.peers.iter_mut().flatten() {
            let posted = peer.questions.post_waiting() | peer.answers.post_waiting();
            self.any_posted |= posted;
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
                && std::mem::take(&mut peer.questions.posted) | std::mem::take(&mut peer.answers.posted)
                && let Some(waker) = waker.get()
            {
                let percent = peer.questions.mailbox.percent();
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
            questions: Outgoing::new(questions),
            questions_in,
            answers: Outgoing::new(answers),
            answers_in,
            arrived: 0,
        }
    }

    fn waits(&self) -> bool {
        !self.questions.waiting.is_empty() || !self.answers.waiting.is_empty()
    }
}

impl<H: Copy> Outgoing<H> {
    fn new(mailbox: Outbox<H>) -> Self {
        Self {
            mailbox,
            waiting: VecDeque::new(),
            posted: false,
        }
    }

    /// Posts a message behind those that wait: not if there are some, or if there is no room.
    fn post(&mut self, head: H, payload: &[u8]) -> Result<(), Full> {
        if !self.waiting.is_empty() {
            return Err(Full);
        }
        self.mailbox.post(head, payload)?;
        self.posted = true;
        Ok(())
    }

    /// Posts a message, later if there is no room now.
    fn post_later(&mut self, head: H, payload: &[u8]) {
        if self.post(head, payload).is_err() {
            self.waiting.push_back((head, payload.to_vec()));
        }
    }

    /// Posts those that wait, as far as there is room; whether there were some.
    fn post_waiting(&mut self) -> bool {
        let waited = !self.waiting.is_empty();
        while let Some((head, payload)) = self.waiting.front()
            && self.mailbox.post(*head, payload).is_ok()
        {
            self.waiting.pop_front();
        }
        self.posted |= waited;
        waited
    }
}

/// The answer to a question of another worker. It is posted in pieces while it is written.
pub(super) struct Answer<'a> {
    answered: Answered,
    piece: &'a mut Vec<u8>,
    outgoing: &'a mut Outgoing<Answered>,
    any_posted: &'a mut bool,
}

impl Answer<'_> {
    pub(super) fn place(&self) -> Place {
        self.answered.place
    }

    /// Posts the end of it; of a list, with how far that is.
    pub(super) fn end(mut self, listing: Option<Listing>) {
        (self.answered.is_last, self.answered.listing) = (true, listing);
        self.outgoing.post_later(self.answered, self.piece);
        *self.any_posted = true;
    }
}

impl Output for Answer<'_> {
    #[inline]
    fn put(&mut self, mut bytes: &[u8]) {
        while self.piece.len() + bytes.len() > PIECE {
            let (now, later) = bytes.split_at(PIECE - self.piece.len());
            if self.piece.is_empty() {
                self.outgoing.post_later(self.answered, now);
            } else {
                self.piece.extend_from_slice(now);
                self.outgoing.post_later(self.answered, self.piece);
                self.piece.clear();
            }
            bytes = later;
        }
        self.piece.extend_from_slice(bytes);
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
