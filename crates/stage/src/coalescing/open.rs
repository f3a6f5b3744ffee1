//! The frames onto which segments may still be merged.

use super::Push;
use super::aggregate::{Aggregate, Segment};
use super::rules::Rules;
use crate::{Batch, Work};

/// The open frames, oldest first, at most a number of them.
#[derive(Debug)]
pub struct Open {
    list: Vec<Aggregate>,
    most: usize,
    /// Closed ones, for their memory.
    idle: Vec<Aggregate>,
}

/// Counts the frame at a place, which is the only one of its flow.
#[inline]
pub fn pass<B: Batch>(work: &Work<'_, B>, place: usize, rules: &Rules) {
    match Segment::at(work, place, rules) {
        Ok(_) => {
            rules.counts.segments.add(1);
            rules.counts.aggregations.add(1);
        }
        Err(reason) => reason.add(1),
    }
}

impl Open {
    pub fn new(most: usize) -> Open {
        Open {
            list: Vec::new(),
            most,
            idle: Vec::new(),
        }
    }

    /// Merges the frame at a place onto the open one of its flow, or opens it. What cannot be merged closes that of its flow,
    /// so that the frames of a flow keep their order.
    #[inline]
    pub fn offer<B: Batch>(&mut self, work: &mut Work<'_, B>, flow: u64, place: usize, rules: &Rules) {
        let counts = &rules.counts;
        let found = self.list.iter().rposition(|open| open.flow() == flow);
        let segment = match Segment::at(work, place, rules) {
            Ok(segment) => segment,
            Err(reason) => {
                reason.add(1);
                found.into_iter().for_each(|found| self.close(work, found));
                return;
            }
        };
        counts.segments.add(1);
        let is_last = segment.pushes && rules.plan.push == Push::End;
        if let Some(found) = found {
            let appended = self.list[found].append(work, &segment, rules);
            if is_last || appended.is_err() {
                self.close(work, found);
            }
            match appended {
                Ok(()) => return,
                Err(reason) => reason.add(1),
            }
        }
        counts.aggregations.add(1);
        if !is_last {
            if self.list.len() == self.most {
                self.close(work, 0);
            }
            let mut open = self.idle.pop().unwrap_or_default();
            open.begin(flow, &segment);
            self.list.push(open);
        }
    }

    /// Closes all.
    pub fn close_all<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        while !self.list.is_empty() {
            self.close(work, 0);
        }
    }

    fn close<B: Batch>(&mut self, work: &mut Work<'_, B>, number: usize) {
        let closed = self.list.remove(number);
        closed.finish(work);
        self.idle.push(closed);
    }
}
