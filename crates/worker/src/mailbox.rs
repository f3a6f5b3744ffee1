//! The mailbox from one thread to one worker: messages by value, in order, in bounded lock-free rings. A message that does
//! not fit is refused.
//!
//! In: [`Outbox::post`]. Out: [`Inbox::take`], or [`Inbox::look`] at what will be taken.

use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of payload per message, on average, below which the number of messages fills a mailbox.
const FEWEST_BYTES: usize = 64;

/// A message without its payload, which is in the other ring.
struct Header<H> {
    head: H,
    length: usize,
}

/// The sender's end.
pub struct Outbox<H> {
    headers: Producer<Header<H>>,
    payloads: Producer<u8>,
}

/// The worker's end.
pub struct Inbox<H> {
    headers: Consumer<Header<H>>,
    payloads: Consumer<u8>,
    /// The current payload, made contiguous: in the ring it may wrap.
    payload: Vec<u8>,
}

/// The mailbox has no room for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// An empty mailbox with room for so many bytes of payload, and for a message per 64 of them, however short they are.
#[must_use]
pub fn mailbox<H>(bytes: usize) -> (Outbox<H>, Inbox<H>) {
    let (headers, taken_headers) = RingBuffer::new(bytes / FEWEST_BYTES);
    let (payloads, taken_payloads) = RingBuffer::new(bytes);
    let inbox = Inbox {
        headers: taken_headers,
        payloads: taken_payloads,
        payload: Vec::new(),
    };
    (Outbox { headers, payloads }, inbox)
}

impl<H> Outbox<H> {
    /// Copies a message into the mailbox.
    ///
    /// # Errors
    /// [`Full`]; the mailbox keeps what it has.
    #[inline]
    pub fn post(&mut self, head: H, payload: &[u8]) -> Result<(), Full> {
        if self.headers.is_full() {
            return Err(Full);
        }
        self.payloads.push_entire_slice(payload).map_err(|_| Full)?;
        // Pushed after its payload: a visible header implies a visible payload.
        let length = payload.len();
        self.headers.push(Header { head, length }).map_err(|_| Full)
    }
}

impl<H> Outbox<H> {
    /// How full it is, in whole percent: of messages, or of bytes, whichever is more.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = |room: usize, all: usize| ((all - room) * 100 / all.max(1)) as u64;
        let headers = percent(self.headers.slots(), self.headers.buffer().capacity());
        headers.max(percent(self.payloads.slots(), self.payloads.buffer().capacity()))
    }
}

impl<H> Inbox<H> {
    /// Removes and returns the oldest message, if any.
    #[inline]
    pub fn take(&mut self) -> Option<(H, &[u8])> {
        let Header { head, length } = self.headers.pop().ok()?;
        self.payload.resize(length, 0);
        self.payloads
            .pop_entire_slice(&mut self.payload)
            .expect("a payload is there before its header");
        Some((head, &self.payload))
    }

    /// Passes the heads of the next messages, at most so many, to `visit`; how many these are.
    #[inline]
    pub fn look(&mut self, most: usize, mut visit: impl FnMut(&H)) -> usize {
        let count = self.headers.slots().min(most);
        if let Ok(chunk) = self.headers.read_chunk(count) {
            let (first, second) = chunk.as_slices();
            first.iter().chain(second).for_each(|header| visit(&header.head));
        }
        count
    }

    /// Whether there is no message now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Whether the sender has ended and the mailbox is empty.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // In this order, so that messages posted before the sender ended are seen.
        self.headers.is_abandoned() && self.headers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    #[test]
    fn messages_come_out_in_order_and_whole_wherever_the_ring_wraps() {
        let (mut outbox, mut inbox) = mailbox(BYTES);
        let (mut posted, mut taken) = (0_usize, 0_usize);
        let size = |index: usize| index * 977 % 65_536;
        while taken < 2_000 {
            let payload: Vec<u8> = (0..size(posted)).map(|at| (at + posted) as u8).collect();
            if outbox.post(posted, &payload) == Ok(()) {
                posted += 1;
                continue;
            }
            let (head, payload) = inbox.take().unwrap();
            assert_eq!((head, payload.len()), (taken, size(taken)));
            let mut bytes = payload.iter().enumerate();
            assert!(bytes.all(|(at, byte)| *byte == (at + taken) as u8));
            taken += 1;
        }
    }

    #[test]
    fn a_look_at_messages_leaves_them_where_they_are() {
        let (mut outbox, mut inbox) = mailbox(8 * FEWEST_BYTES);
        for round in 0..20 {
            for head in round..round + 5 {
                outbox.post(head, &[1, 2]).unwrap();
            }
            for (most, expected) in [(3, 3), (9, 5)] {
                let mut heads = Vec::new();
                assert_eq!(inbox.look(most, |head| heads.push(*head)), expected);
                assert_eq!(heads, (round..round + expected as i32).collect::<Vec<_>>());
            }
            for head in round..round + 5 {
                assert_eq!(inbox.take().unwrap(), (head, &[1, 2][..]));
            }
            assert_eq!(inbox.look(1, |_| {}), 0);
        }
    }

    #[test]
    fn a_full_mailbox_refuses_and_keeps_what_it_has() {
        let (mut outbox, mut inbox) = mailbox(BYTES);
        let held = (0..)
            .take_while(|head| outbox.post(*head, &[7; 510]).is_ok())
            .count();
        assert_eq!((held, outbox.percent()), (BYTES / 510, 99));
        drop(outbox);
        for head in 0..held {
            assert!(!inbox.is_finished());
            assert_eq!(inbox.take().unwrap(), (head, &[7; 510][..]));
        }
        assert!(inbox.take().is_none() && inbox.is_finished());
    }

    #[test]
    fn empty_messages_fill_a_mailbox_too() {
        let (mut outbox, mut inbox) = mailbox(BYTES);
        let held = (0..).take_while(|head| outbox.post(*head, &[]).is_ok()).count();
        assert_eq!(held, BYTES / FEWEST_BYTES);
        assert_eq!(inbox.take().unwrap(), (0, &[][..]));
        assert_eq!(outbox.post(held, &[]), Ok(()));
    }
}
