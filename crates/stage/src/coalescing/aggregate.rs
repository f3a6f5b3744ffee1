//! A frame onto which segments are merged, and the rules for what may be.

use super::rules::Rules;
use super::{Acknowledgments, Counts};
use crate::tcp::{ACK, FLAGS, Headers, PSH, TCP_HEADER};
use crate::{Batch, Merged, Work};
use corelane_measure::counter::Counter;
use corelane_packet::checksum::finished;
use std::ops::Range;

/// A segment that may be merged.
pub struct Segment {
    place: usize,
    headers: Headers,
    /// Bytes of payload.
    length: usize,
    pub pushes: bool,
}

impl Segment {
    /// The segment at a place, or the count of those that are not merged for the same reason.
    #[inline(always)]
    pub fn at<'rules, B: Batch>(
        work: &Work<'_, B>,
        place: usize,
        rules: &'rules Rules,
    ) -> Result<Segment, &'rules Counter> {
        let counts = &rules.counts;
        let dissection = work.dissection(place).ok();
        let headers = dissection.and_then(|dissection| Headers::of(&dissection));
        // What came in fragments may be fragmented again, as it came.
        let headers = headers.filter(|_| work.cut_as(place).is_none());
        let headers = headers.ok_or(&counts.headers)?;
        let frame = work.frame(place);
        let tcp = headers.tcp(frame);
        let (reserved, flags, urgent) = (tcp[FLAGS - 1] & 0xf, tcp[FLAGS], &tcp[18..20]);
        check(
            reserved == 0 && flags & !PSH == ACK && urgent == [0; 2],
            &counts.flags,
        )?;
        let length = frame.len() - headers.payload;
        check(
            length > 0 || rules.plan.acks == Acknowledgments::Merge,
            &counts.empty,
        )?;
        Ok(Segment {
            place,
            headers,
            length,
            pushes: flags & PSH != 0,
        })
    }
}

/// Segments of one flow, each the next one of that before it.
#[derive(Debug, Default)]
pub struct Aggregate {
    flow: u64,
    /// Where they are; of acknowledgments without payload only the last.
    places: Vec<usize>,
    headers: Headers,
    /// Bytes of payload of the first, and of all.
    segment_bytes: usize,
    length: usize,
    /// The sum of the payload of all; none while nothing was merged, and the first is unchecked.
    sum: Option<u64>,
    pushes: bool,
    same_identification: bool,
}

impl Aggregate {
    /// Type and hash of the segments.
    pub fn flow(&self) -> u64 {
        self.flow
    }

    /// Begins with one segment.
    #[inline]
    pub fn begin(&mut self, flow: u64, segment: &Segment) {
        self.places.clear();
        self.places.push(segment.place);
        self.flow = flow;
        self.headers = segment.headers;
        self.segment_bytes = segment.length;
        self.length = segment.length;
        self.sum = None;
        self.pushes = segment.pushes;
    }

    /// Appends a segment, or returns the count of those that are not merged for the same reason.
    #[inline]
    pub fn append<'rules, B: Batch>(
        &mut self,
        work: &mut Work<'_, B>,
        segment: &Segment,
        rules: &'rules Rules,
    ) -> Result<(), &'rules Counter> {
        let counts = &rules.counts;
        let (at, to) = (self.places[0], segment.place);
        let (first, next) = (work.frame(at), work.frame(to));
        let (headers, others) = (self.headers, segment.headers);
        let is_same_way =
            work.link(at) == work.link(to) && first[..headers.network] == next[..others.network];
        check(is_same_way, &counts.link)?;
        check(work.tunnel(at) == work.tunnel(to), &counts.tunnel)?;
        check(headers.flow(first) == others.flow(next), &counts.other_flow)?;
        check(!rules.has_fragment_between(work, at, to), &counts.behind_fragment)?;
        // Type of service and time to live of IPv4 (RFC 791); traffic class, flow label and hop limit of IPv6 (RFC 8200).
        let (tos, ttl) = if headers.is_v6() { (0..4, 7) } else { (0..2, 8) };
        let (ip, other) = (headers.ip(first), others.ip(next));
        check(ip[tos.clone()] == other[tos], &counts.tos)?;
        check(ip[ttl] == other[ttl], &counts.ttl)?;
        let (tcp, other) = (headers.tcp(first), others.tcp(next));
        check(tcp[TCP_HEADER..] == other[TCP_HEADER..], &counts.options)?;
        check((self.length == 0) == (segment.length == 0), &counts.one_empty)?;
        let expected = headers.sequence(first).wrapping_add(self.length as u32);
        check(others.sequence(next) == expected, &counts.not_next)?;
        if segment.length == 0 {
            return self.replace(work, segment, counts);
        }
        let (acknowledgment, window) = (8..12, 14..16);
        let is_same = |field: Range<usize>| tcp[field.clone()] == other[field];
        check(is_same(acknowledgment), &counts.acknowledgment)?;
        check(is_same(window), &counts.window)?;
        let fits = headers
            .length(headers.payload + self.length + segment.length)
            .is_some();
        let is_full = self.length.is_multiple_of(self.segment_bytes);
        check(
            fits && is_full && segment.length <= self.segment_bytes,
            &counts.size,
        )?;
        let same_identification = self.identification(first, next);
        let same_identification = same_identification.ok_or(&counts.identification)?;
        let sum = self
            .sum
            .or_else(|| headers.checked(first))
            .zip(others.checked(next));
        let (sum, added) = sum.ok_or(&counts.checksum)?;
        self.sum = Some(sum + behind(self.length, added));
        self.places.push(to);
        self.length += segment.length;
        self.pushes |= segment.pushes;
        self.same_identification = same_identification;
        Ok(())
    }

    /// Lets an acknowledgment without payload that acknowledges more take the place of the last one.
    fn replace<'counts, B: Batch>(
        &mut self,
        work: &mut Work<'_, B>,
        segment: &Segment,
        counts: &'counts Counts,
    ) -> Result<(), &'counts Counter> {
        let (first, next) = (work.frame(self.places[0]), work.frame(segment.place));
        let ahead = segment
            .headers
            .acknowledgment(next)
            .wrapping_sub(self.headers.acknowledgment(first));
        check((ahead as i32) > 0, &counts.acknowledgment)?;
        let are_right = self.headers.checked(first).is_some() && segment.headers.checked(next).is_some();
        check(are_right, &counts.checksum)?;
        work.take(self.places[0]);
        self.places[0] = segment.place;
        Ok(())
    }

    /// Whether the identification of the next segment is that of all others, if it is allowed to be, or else the one after
    /// the last; `None` if it is another, or "don't fragment" differs (RFC 6864: only with that flag it may repeat).
    fn identification(&self, first: &[u8], next: &[u8]) -> Option<bool> {
        const DF: u8 = 1 << 6;
        if self.headers.is_v6() {
            return Some(false);
        }
        let (flags, others) = (self.headers.ip(first)[6], self.headers.ip(next)[6]);
        let ahead = self
            .headers
            .identification(next)
            .wrapping_sub(self.headers.identification(first));
        let count = self.places.len();
        let is_same = ahead == 0 && flags & DF != 0 && (count == 1 || self.same_identification);
        let is_next = usize::from(ahead) == count && (count == 1 || !self.same_identification);
        (flags == others && (is_same || is_next)).then_some(is_same)
    }

    /// Puts the merged frame where the first segment was.
    pub fn finish<B: Batch>(&self, work: &mut Work<'_, B>) {
        let (Some(sum), [first, others @ ..]) = (self.sum, &self.places[..]) else {
            return;
        };
        let headers = self.headers;
        let merged = Merged {
            segment_bytes: self.segment_bytes as u16,
            same_identification: self.same_identification,
        };
        work.replace(*first, headers.payload + self.length, |frames, bytes| {
            let mut at = headers.payload;
            bytes[..at].copy_from_slice(&frames.frame(*first)[..at]);
            for place in &self.places {
                let payload = &frames.frame(*place)[headers.payload..];
                bytes[at..at + payload.len()].copy_from_slice(payload);
                at += payload.len();
            }
            if self.pushes {
                bytes[headers.transport + FLAGS] |= PSH;
            }
            headers.finish(bytes, sum);
        });
        work.set_merged(*first, merged);
        for place in others {
            work.take(*place);
        }
    }
}

/// The sum of bytes behind this many others: behind an odd number, each is the other half of its word (RFC 1071, section 2).
fn behind(length: usize, sum: u64) -> u64 {
    let folded = !finished(sum);
    match length.is_multiple_of(2) {
        true => folded.into(),
        false => folded.swap_bytes().into(),
    }
}

fn check(holds: bool, otherwise: &Counter) -> Result<(), &Counter> {
    if holds { Ok(()) } else { Err(otherwise) }
}
