//! Lists of keys, connections and prefixes: of one partition after another, a part at a time, so that no other request waits for long.

use super::items::attributes_of;
use super::worker::Worker;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Dump;
use corelane_proto::memcached::listing::{END, Listed, MGDUMP_END};

/// Buckets of the index that one part of a list covers: some hundred items.
const PART: usize = 64;

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `stats cachedump`.
    Cache,
    /// `lru_crawler metadump` and `mgdump`.
    Dump(Dump),
    /// `stats conns`.
    Connections,
    /// `stats detail dump`, which is one list for all partitions.
    Prefixes,
}

/// How far a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) form: Form,
    /// The partition, and the place in its index.
    pub(super) partition: usize,
    pub(super) cursor: u64,
    /// Items that may follow.
    pub(super) left: u32,
}

impl Listing {
    /// At the start of a list of at most so many items.
    pub(super) const fn new(form: Form, most: u32) -> Self {
        Self {
            form,
            partition: 0,
            cursor: 0,
            left: most,
        }
    }

    /// At the start of the list of prefixes, which this worker writes.
    pub(super) const fn of_prefixes(worker: &Worker) -> Self {
        Self {
            partition: worker.index,
            ..Self::new(Form::Prefixes, u32::MAX)
        }
    }

    /// Writes the next part, of the items of this worker.
    pub(super) fn list(&mut self, worker: &Worker, out: &mut impl Output) {
        match self.form {
            Form::Connections => return self.list_connections(worker, out),
            Form::Prefixes => return self.list_prefixes(worker, out),
            Form::Cache | Form::Dump(_) => {}
        }
        for _ in 0..PART {
            let next = worker.scan(self.cursor, |item| {
                if self.left == 0 {
                    return;
                }
                self.left -= 1;
                let listed = Listed {
                    key: item.key,
                    attributes: attributes_of(item.attributes),
                    length: item.value.len(),
                };
                match self.form {
                    Form::Cache => listed.cachedump(worker.clock, out),
                    Form::Dump(Dump::Items) => listed.metadump(worker.clock, out),
                    Form::Dump(Dump::Requests) => listed.mgdump(out),
                    Form::Connections | Form::Prefixes => {}
                }
            });
            match next {
                Some(cursor) if self.left > 0 => self.cursor = cursor,
                _ => {
                    (self.partition, self.cursor) = (self.partition + 1, 0);
                    return;
                }
            }
        }
    }

    fn list_connections(&mut self, worker: &Worker, out: &mut impl Output) {
        for _ in 0..PART {
            let slot = self.cursor as usize;
            let number = slot * worker.shared.plan.workers() + worker.index;
            let has_more = worker.connections.list(slot, (number, worker.clock.now), out);
            self.cursor += 1;
            if !has_more {
                (self.partition, self.cursor) = (self.partition + 1, 0);
                return;
            }
        }
    }

    fn list_prefixes(&mut self, worker: &Worker, out: &mut impl Output) {
        let has_more = worker.shared.prefixes.list(self.cursor as usize, PART, out);
        self.cursor += PART as u64;
        self.partition = if has_more { worker.index } else { usize::MAX };
    }

    /// Whether all is listed, of so many partitions.
    pub(super) const fn is_complete(&self, partitions: usize) -> bool {
        self.partition >= partitions || self.left == 0
    }

    /// The end of the list.
    pub(super) const fn end(&self) -> &'static str {
        match self.form {
            Form::Dump(Dump::Requests) => MGDUMP_END,
            _ => END,
        }
    }
}
