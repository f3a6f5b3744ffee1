//! What a client's requests have in common, whether they arrive on a connection or in a datagram: those about keys of this worker
//! are executed, others are handed over, and all are answered in order.

use super::answers::PAUSE;
use super::connections::State;
use super::control;
use super::exchange::{Asked, Client, Exchange, PIECE, Place};
use super::listing::{Form, Listing};
use super::observed;
use super::order::Order;
use super::stats;
use super::units::{Incoming, Unit};
use super::watchers::Watcher;
use super::worker::Worker;
use corelane_proto::memcached::commands::{Output, Reading};
use corelane_proto::memcached::control::{Action, Stats, Watched};
use corelane_proto::memcached::items::Key;
use corelane_proto::memcached::listing::DUMP_START;
use corelane_proto::memcached::request::{
    BINARY_REFUSED, Control, Data, Event, LONGEST_KEY, Meta, Reason, Request,
};
use corelane_worker::engine::Id;
use corelane_worker::mailbox::Full;
use std::sync::Arc;

/// Bytes of values that are answered also while clients hold all that they may. As many as are read from other workers' memory at most.
const SMALL: usize = 128 << 10;

/// What requests of a client are executed on.
pub(super) struct Context<'a> {
    pub(super) worker: &'a mut Worker,
    pub(super) exchange: &'a mut Exchange,
    pub(super) client: Client,
}

/// Why a unit is not executed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its client gets answers of other workers first.
    Answers,
    /// The mailbox of the worker that owns its key has no room.
    Mailbox,
    /// Other clients have to take their answers, since its own is large.
    Memory,
}

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self::Mailbox
    }
}

/// The requests of a client.
#[derive(Default)]
pub(super) struct Session {
    /// A value that arrives in parts.
    incoming: Option<Box<Incoming>>,
    /// The same of another worker, and the entry of its answer.
    handed_over: Option<(usize, u32)>,
    order: Option<Box<Order>>,
    /// A list that is not complete.
    listing: Option<Box<Listing>>,
    /// It gets lines about events, and executes nothing more.
    watcher: Option<Arc<Watcher<Id>>>,
    /// Nothing more is executed.
    pub(super) closing: bool,
}

impl Session {
    /// The answers that other workers owe.
    pub(super) fn order(&mut self) -> Option<&mut Order> {
        self.order.as_deref_mut()
    }

    /// Whether a list of keys comes before what follows.
    #[inline]
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// Whether it gets lines about events.
    #[inline]
    pub(super) fn is_watching(&self) -> bool {
        self.watcher.is_some()
    }

    /// Writes the lines about events.
    #[cold]
    pub(super) fn watch(&self, out: &mut impl Output) {
        if let Some(watcher) = self.watcher.as_ref().filter(|_| self.is_answered()) {
            watcher.take(out);
        }
    }

    /// Another worker has written a part of a list.
    pub(super) fn listed(&mut self, listing: Listing) {
        if let Some(present) = &mut self.listing {
            **present = listing;
        }
    }

    /// Writes the next part of a list, if all before it is written.
    #[cold]
    pub(super) fn list(&mut self, context: &mut Context<'_>, out: &mut impl Output) {
        let Some(listing) = self.listing.as_deref().copied().filter(|_| self.is_answered()) else {
            return;
        };
        let mut listing = listing;
        if listing.is_complete(context.worker.shared.plan.workers()) {
            out.put(listing.end().as_bytes());
            self.listing = None;
        } else if listing.partition == context.worker.index {
            listing.list(context.worker, out);
            self.listed(listing);
        } else if let Ok(place) = self.next_place(context) {
            context
                .exchange
                .ask_later(listing.partition, (place, Asked::List(listing)), &[]);
            self.order.get_or_insert_default().wait(listing.partition);
        }
    }

    /// Whether all is answered.
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        self.order.as_ref().is_none_or(|order| order.is_empty())
    }

    /// Bytes of answers that wait for those of other workers.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.order.as_ref().map_or(0, |order| order.waiting())
    }

    /// Whether no further unit can be executed before other workers have answered.
    pub(super) fn is_blocked(&self, exchange: &Exchange) -> bool {
        self.waiting_room().is_err() || self.owing_room(exchange).is_err()
    }

    /// Whether an answer of this worker has room behind those that are owed.
    #[inline]
    fn waiting_room(&self) -> Result<(), Refused> {
        match self.waiting() as u64 > PAUSE {
            true => Err(Refused::Answers),
            false => Ok(()),
        }
    }

    /// Whether one more answer may be owed.
    fn owing_room(&self, exchange: &Exchange) -> Result<(), Refused> {
        match &self.order {
            Some(order) if !order.is_empty() && (order.is_full() || !exchange.budget.admits()) => {
                Err(Refused::Answers)
            }
            _ => Ok(()),
        }
    }

    /// Executes a unit, of which `bytes` are as received.
    ///
    /// # Errors
    /// [`Refused`] if other workers have to act first; nothing was done then.
    #[inline]
    pub(super) fn execute(
        &mut self,
        unit: &Unit<'_>,
        bytes: &[u8],
        context: &mut Context<'_>,
        out: &mut impl Output,
    ) -> Result<(), Refused> {
        match &unit.event {
            Event::Request(request) => {
                let owner = context.worker.owner(unit.hash);
                if owner != context.worker.index {
                    let is_answered = match request {
                        Request::Get(get) => Reading::get(get).is_some_and(|reading| {
                            self.read_directly(owner, &reading, unit.hash, context, out)
                        }),
                        Request::Meta(meta) => self.read_meta_directly(owner, meta, unit.hash, context, out),
                        _ => false,
                    };
                    if is_answered {
                        return Ok(());
                    }
                    return self.hand_over(owner, (request, unit.hash), bytes, context);
                }
                self.waiting_room()?;
                if context.exchange.budget.is_spent() && context.worker.length_for(request, unit.hash) > SMALL
                {
                    return Err(Refused::Memory);
                }
                context.worker.events.local += 1;
                self.execute_here(unit, context, out);
            }
            Event::Part(_) | Event::End(_) => match self.handed_over {
                Some(to) => return self.continue_there(to, &unit.event, context),
                None => self.execute_here(unit, context, out),
            },
            Event::Answer(line) => {
                self.waiting_room()?;
                self.put(line, out);
            }
            Event::Control(control) => {
                self.waiting_room()?;
                return self.control(control, context, out);
            }
            Event::Close(reason) => {
                self.closing = true;
                context.worker.events.closed(*reason);
                if *reason == Reason::Binary {
                    out.put(BINARY_REFUSED.as_bytes());
                }
            }
            Event::Nothing => {}
        }
        Ok(())
    }

    #[inline]
    fn execute_here(&mut self, unit: &Unit<'_>, context: &mut Context<'_>, out: &mut impl Output) {
        let Self { incoming, order, .. } = self;
        let of = (context.client, context.worker.index);
        match order.as_mut().and_then(|order| order.behind()) {
            None => observed::execute(context.worker, incoming, unit, of, out),
            Some(mut behind) => observed::execute(context.worker, incoming, unit, of, &mut behind),
        }
    }

    /// Answers behind what is not answered yet.
    fn put(&mut self, line: &str, out: &mut impl Output) {
        match self.order().and_then(Order::behind) {
            None => out.put(line.as_bytes()),
            Some(mut behind) => behind.put(line.as_bytes()),
        }
    }

    /// Answers a key of another worker from its memory; whether that was possible. What is owed by that worker comes first: it may change
    /// the item, or read another one later.
    fn read_directly(
        &mut self,
        owner: usize,
        reading: &Reading<'_>,
        hash: u64,
        context: &mut Context<'_>,
        out: &mut impl Output,
    ) -> bool {
        let worker = &mut *context.worker;
        if !worker.may_read(owner) || self.waiting_room().is_err() {
            return false;
        }
        let Some(order) = self.order.as_deref_mut() else {
            return worker.read_directly(owner, reading, hash, out);
        };
        if order.is_owed_by(owner) {
            worker.events.not_read_behind += 1;
            return false;
        }
        match order.behind() {
            None => worker.read_directly(owner, reading, hash, out),
            Some(mut behind) => worker.read_directly(owner, reading, hash, &mut behind),
        }
    }

    fn read_meta_directly(
        &mut self,
        owner: usize,
        meta: &Meta<'_>,
        hash: u64,
        context: &mut Context<'_>,
        out: &mut impl Output,
    ) -> bool {
        let mut buffer = [0; LONGEST_KEY];
        let bytes = Request::Meta(*meta).key(&mut buffer);
        let reading = Reading::meta(meta, Key { bytes, hash }, context.worker.clock);
        reading.is_some_and(|reading| self.read_directly(owner, &reading, hash, context, out))
    }

    /// Hands a request over to the worker that owns its key.
    #[cold]
    fn hand_over(
        &mut self,
        owner: usize,
        (request, hash): (&Request<'_>, u64),
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Refused> {
        let place = self.next_place(context)?;
        let mut ask = |asked, payload: &[u8]| context.exchange.ask(owner, (place, asked), payload);
        match request {
            Request::Get(get) => {
                let key = Asked::Key {
                    hash,
                    touch: get.touch,
                    with_cas: get.with_cas,
                    last: get.last,
                };
                ask(key, get.key)?;
            }
            Request::Store(store) if store.data == Data::Later => {
                ask(Asked::Begin { hash }, bytes)?;
                self.handed_over = Some((owner, place.entry));
            }
            Request::Store(store) if bytes.len() > PIECE => {
                let value_and_end = store.length as usize + 2;
                ask(Asked::Begin { hash }, &bytes[..bytes.len() - value_and_end])?;
                let (value, good) = match store.data {
                    Data::Whole(value) => (value, true),
                    _ => (&[][..], false),
                };
                for piece in value.chunks(PIECE) {
                    context.exchange.ask_later(owner, (place, Asked::Part), piece);
                }
                context.exchange.ask_later(owner, (place, Asked::End(good)), &[]);
            }
            _ => ask(Asked::Request { hash }, bytes)?,
        }
        context.worker.events.handed_over += 1;
        self.order.get_or_insert_default().wait(owner);
        Ok(())
    }

    /// Passes on a part of a value, or its end.
    fn continue_there(
        &mut self,
        (owner, entry): (usize, u32),
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Refused> {
        let place = Place {
            client: context.client,
            entry,
        };
        match event {
            Event::Part(part) => {
                let mut pieces = part.chunks(PIECE);
                let first = pieces.next().unwrap_or_default();
                context.exchange.ask(owner, (place, Asked::Part), first)?;
                pieces.for_each(|piece| context.exchange.ask_later(owner, (place, Asked::Part), piece));
            }
            Event::End(good) => {
                context.exchange.ask(owner, (place, Asked::End(*good)), &[])?;
                self.handed_over = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the next answer of other workers goes.
    fn next_place(&self, context: &Context<'_>) -> Result<Place, Refused> {
        // A datagram does not wait for room. Its size and the mailboxes bound its units, and what it is answered is bounded.
        if matches!(context.client, Client::Connection(_)) {
            self.owing_room(context.exchange)?;
        }
        Ok(Place {
            client: context.client,
            entry: self.order.as_deref().map_or(0, Order::next),
        })
    }

    /// Executes a request about the whole server.
    #[cold]
    fn control(
        &mut self,
        control: &Control<'_>,
        context: &mut Context<'_>,
        out: &mut impl Output,
    ) -> Result<(), Refused> {
        let action = control.action(context.worker.shared.allowed(), context.worker.clock);
        let quiet = control.quiet;
        match action {
            Action::FlushAll { moment } => {
                let at_once = moment < context.worker.clock.now;
                self.broadcast(Asked::Flush { moment, at_once }, None, context)?;
                context.worker.events.flushes += 1;
                context.worker.flush(moment);
                self.put(if quiet { "" } else { "OK\r\n" }, out);
            }
            Action::Dump(dump) if self.may_list(context) => {
                self.put(DUMP_START, out);
                self.listing = Some(Box::new(Listing::new(Form::Dump(dump), u32::MAX)));
            }
            Action::Stats(Stats::CacheDump { most, .. }) if self.may_list(context) => {
                let most = if most == 0 { u32::MAX } else { most };
                self.listing = Some(Box::new(Listing::new(Form::Cache, most)));
            }
            Action::Stats(Stats::Connections) if self.may_list(context) => {
                self.listing = Some(Box::new(Listing::new(Form::Connections, u32::MAX)));
            }
            Action::Stats(Stats::DetailDump) if self.may_list(context) => {
                self.listing = Some(Box::new(Listing::of_prefixes(context.worker)));
            }
            Action::Stats(Stats::Detail(on)) => {
                context.worker.shared.watchers.set_detail(on);
                self.put("OK\r\n", out);
            }
            Action::RefreshCertificates => self.refresh_certificates(quiet, context, out),
            Action::Watch(streams) => self.begin_watching(streams, context, out),
            // They are longer than the requests for them: one at a time, as the client takes them.
            Action::Stats(_) if !self.is_answered() && self.may_list(context) => {
                return Err(Refused::Answers);
            }
            Action::Stats(stats) => {
                context.worker.publish_all();
                self.broadcast(Asked::Publish, Some(stats), context)?;
                if self.is_answered() {
                    stats::put(stats, context.worker, out);
                }
            }
            action => {
                let mut text = Vec::new();
                control::answer(action, context.worker, &mut text);
                if !quiet {
                    self.put(&String::from_utf8_lossy(&text), out);
                }
            }
        }
        Ok(())
    }

    /// Errors are answered although no reply is wanted, as memcached does.
    fn refresh_certificates(&mut self, quiet: bool, context: &Context<'_>, out: &mut impl Output) {
        let refreshed = context.worker.shared.refresh_certificates();
        let done = if quiet { "" } else { "OK\r\n" };
        self.put(refreshed.as_ref().err().map_or(done, |line| line), out);
    }

    fn begin_watching(&mut self, streams: Watched, context: &mut Context<'_>, out: &mut impl Output) {
        let Client::Connection(id) = context.client else {
            return self.put("ERROR\r\n", out);
        };
        let worker = &mut *context.worker;
        self.watcher = worker.shared.watchers.add(streams, worker.index, id);
        if self.watcher.is_none() {
            return self.put("WATCHER_TOO_MANY log watcher limit reached\r\n", out);
        }
        if let Some(open) = worker.connections.get(id.slot()) {
            open.state = State::Watches;
        }
        self.put("OK\r\n", out);
    }

    /// Lists are too long for datagrams.
    fn may_list(&self, context: &Context<'_>) -> bool {
        matches!(context.client, Client::Connection(_))
    }

    /// Asks all other workers the same.
    fn broadcast(
        &mut self,
        asked: Asked,
        stats: Option<Stats>,
        context: &mut Context<'_>,
    ) -> Result<(), Refused> {
        let place = self.next_place(context)?;
        let others = context.exchange.others();
        for other in others.clone() {
            context.exchange.ask_later(other, (place, asked), &[]);
        }
        let missing = others.count();
        if missing > 0 {
            self.order.get_or_insert_default().wait_for_all(missing, stats);
        }
        Ok(())
    }

    /// The client has ended: gives up the value that was arriving.
    pub(super) fn end(mut self, context: &mut Context<'_>) {
        self.abandon(context);
        if let Some(watcher) = self.watcher {
            context.worker.shared.watchers.remove(&watcher);
        }
        if let Some(incoming) = self.incoming {
            context
                .worker
                .commands()
                .finish(*incoming, false, &mut Vec::new());
        }
    }

    /// Gives up the value that was arriving at another worker: its answer is not written.
    pub(super) fn abandon(&mut self, context: &mut Context<'_>) {
        let Some((owner, entry)) = self.handed_over.take() else {
            return;
        };
        let place = Place {
            client: context.client,
            entry,
        };
        context.exchange.ask_later(owner, (place, Asked::End(false)), &[]);
        if let Some(order) = self.order() {
            order.discard(entry);
        }
    }
}
