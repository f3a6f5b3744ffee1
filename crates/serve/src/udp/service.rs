//! What answers datagrams. The server around it refuses those that must not be answered, checks a sample of all, and sends
//! the answers.

use super::answer::Answering;
use super::cause::DropCause;
use corelane_worker::Time;
use corelane_worker::engine::{Datagram, Id, Ops};

/// A service of datagrams: one value per worker.
pub trait DatagramService: Send + 'static {
    /// Its name in metrics, and between processes.
    const NAME: &'static str;
    /// Name and version of its document.
    const SCHEMA: &'static str;
    /// Whether it answers. If not, datagrams that must not be answered are passed to it, too.
    const ANSWERS: bool;

    /// Serves a batch of datagrams. It takes all of them, and sends any number of answers to each, at once or after it has
    /// looked at the whole batch.
    fn serve<'a>(
        &mut self,
        now: Time,
        requests: impl Iterator<Item = Datagram<'a>>,
        answers: &mut DatagramAnswers<'_>,
    );
}

/// Sends the answers to the datagrams of one batch.
pub struct DatagramAnswers<'a> {
    pub(super) answering: &'a mut Answering,
    pub(super) ops: &'a mut Ops,
    /// The socket that received the batch.
    pub(super) socket: Id,
}

impl DatagramAnswers<'_> {
    /// Queues one datagram of `length` bytes, written by `fill`, as an answer to `request`. If there is no room for it, it
    /// is counted as dropped.
    #[inline]
    pub fn send(&mut self, request: &Datagram<'_>, length: usize, fill: impl FnOnce(&mut [u8])) {
        let (socket, peer) = self.answering.way(self.ops, self.socket, request);
        let source = peer.and(request.destination);
        let queued = self.ops.send_from(socket, source, peer, length, fill);
        let full = &self.answering.counters.dropped[DropCause::QueueFull as usize];
        full.add(u64::from(queued.is_err()));
    }
}

/// Sends datagrams back.
pub struct Echo;

impl DatagramService for Echo {
    const NAME: &'static str = "udp";
    const SCHEMA: &'static str = "corelane/served-udp/1";
    const ANSWERS: bool = true;

    #[inline]
    fn serve<'a>(
        &mut self,
        _now: Time,
        requests: impl Iterator<Item = Datagram<'a>>,
        answers: &mut DatagramAnswers<'_>,
    ) {
        for request in requests {
            answers.send(&request, request.payload.len(), |out| {
                out.copy_from_slice(request.payload);
            });
        }
    }
}

/// Receives datagrams and discards them.
pub struct Sink;

impl DatagramService for Sink {
    const NAME: &'static str = Echo::NAME;
    const SCHEMA: &'static str = Echo::SCHEMA;
    const ANSWERS: bool = false;

    #[inline]
    fn serve<'a>(
        &mut self,
        _now: Time,
        requests: impl Iterator<Item = Datagram<'a>>,
        _answers: &mut DatagramAnswers<'_>,
    ) {
        requests.for_each(drop);
    }
}
