//! The layout of a line: encodes entries into slots and back.
//!
//! Every slot has a control: two bits of state, the remainder, the payload, from the lowest bit up. IPv4 keys fit into
//! controls of 32 bits, sixteen per line. IPv6 keys have a control of 64 bits and 64 more bits, the rest, in a second
//! word: four per line, controls first. Flow keys are stored elsewhere: eight controls of 64 bits, whose payload is the
//! number of the record.

use super::bounds::Place;
use crate::memory::{Lanes, Line, WORDS_PER_LINE, Word};
use crate::value::Value;

/// The line of an entry (home or partner): the state of its control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The line where every lookup begins.
    Home = 1,
    /// The line where a lookup continues if home has no vacant slot.
    Partner = 2,
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which of the key's lines this is.
    pub side: Side,
    /// As in [`Place`].
    pub remainder: u64,
    /// As in [`Place`].
    pub rest: u64,
    /// The value of the key.
    pub payload: u32,
}

impl Place {
    /// The key's entry in one of its lines.
    pub fn entry(&self, side: Side, payload: u32) -> Entry {
        Entry {
            side,
            remainder: self.remainder,
            rest: self.rest,
            payload,
        }
    }
}

/// Bits of the state.
const STATE_BITS: u32 = 2;
const STATE: u64 = (1 << STATE_BITS) - 1;
/// Vacant: lookups end here. The whole control is zero.
const VACANT: u64 = 0;
/// Free, but lookups must continue in the partner line. Its other bits are all ones, so that no half of it is zero; no
/// lookup matches this state.
const BURIED: u64 = 3;

/// Result of reading one line.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// One bit per slot: an entry with this key's remainder and rest.
    pub matching: u32,
    /// A slot is vacant, so that the key is in no other line.
    pub vacant: bool,
}

/// The division of a line into slots.
pub trait Layout {
    /// Slots of a line.
    const SLOTS: usize;
    /// Bits of the remainder that a control keeps.
    const REMAINDER_BITS: u32;

    /// Compares every slot with the key.
    fn scan<V: Lanes>(lanes: V, place: &Place, side: Side) -> Scan;

    /// The control of the first slot of a scan that matched; any when none did.
    #[inline(always)]
    fn matched<V: Lanes>(lanes: V, matching: u32) -> u64 {
        lanes.word_at(matching)
    }

    /// The control of a slot, in the low bits: by default a word, controls first.
    #[inline(always)]
    fn control(words: &[u64; WORDS_PER_LINE], slot: usize) -> u64 {
        words[slot % Self::SLOTS]
    }

    /// The rest of a slot; zero where there is none.
    fn rest(_words: &[u64; WORDS_PER_LINE], _slot: usize) -> u64 {
        0
    }

    /// Stores the control of a slot, atomically.
    fn store_control<W: Word>(line: &Line<W>, slot: usize, control: u64) {
        line.0[slot].set(control);
    }

    /// Stores an entry into a free or outdated slot so that a reader sees what was there or the entry, provided that it
    /// checks the count that `announce` increments: a reader that mixed the two sees the count changed.
    fn store<W: Word>(line: &Line<W>, slot: usize, entry: &Entry, _announce: impl FnOnce()) {
        Self::store_control(line, slot, Self::encode(entry));
    }

    /// Stores the value of an entry, atomically.
    fn store_payload<W: Word>(line: &Line<W>, slot: usize, entry: &Entry, payload: u32) {
        Self::store_control(line, slot, Self::encode(&Entry { payload, ..*entry }));
    }

    /// Frees a slot; lookups that find no key here go on if it is `buried`.
    fn free<W: Word>(line: &Line<W>, slot: usize, buried: bool) {
        let control = if buried { BURIED | !STATE } else { VACANT };
        Self::store_control(line, slot, control);
    }

    /// Whether the slot is free, and then whether it is buried.
    fn is_free(words: &[u64; WORDS_PER_LINE], slot: usize) -> Option<bool> {
        match Self::control(words, slot) & STATE {
            VACANT => Some(false),
            BURIED => Some(true),
            _ => None,
        }
    }

    /// What a control that matched maps to.
    #[inline(always)]
    fn payload(control: u64) -> u32 {
        (control >> (STATE_BITS + Self::REMAINDER_BITS)) as u32
    }

    /// The entry in a slot that is not free.
    fn entry(words: &[u64; WORDS_PER_LINE], slot: usize) -> Option<Entry> {
        let control = Self::control(words, slot);
        let sides = [Side::Home, Side::Partner];
        Some(Entry {
            side: sides.into_iter().find(|side| control & STATE == *side as u64)?,
            remainder: control >> STATE_BITS & ((1 << Self::REMAINDER_BITS) - 1),
            rest: Self::rest(words, slot),
            payload: Self::payload(control),
        })
    }

    /// The control of an entry.
    fn encode(entry: &Entry) -> u64 {
        let payload = u64::from(entry.payload) << (STATE_BITS + Self::REMAINDER_BITS);
        wanted(entry.remainder, entry.side) | payload
    }
}

/// The control without its payload.
#[inline(always)]
fn wanted(remainder: u64, side: Side) -> u64 {
    remainder << STATE_BITS | side as u64
}

/// Sixteen slots of 32 bits: the address is the line's number and an 18-bit remainder.
pub struct V4Slots;

impl Layout for V4Slots {
    const SLOTS: usize = 16;
    const REMAINDER_BITS: u32 = u32::BITS - Value::BITS - STATE_BITS;

    #[inline(always)]
    fn scan<V: Lanes>(lanes: V, place: &Place, side: Side) -> Scan {
        let mask = (1 << (Self::REMAINDER_BITS + STATE_BITS)) - 1;
        Scan {
            matching: lanes.halves_equal(mask, wanted(place.remainder, side) as u32),
            vacant: lanes.any_half_zero(),
        }
    }

    #[inline(always)]
    fn matched<V: Lanes>(lanes: V, matching: u32) -> u64 {
        u64::from(lanes.half_at(matching))
    }

    #[inline(always)]
    fn control(words: &[u64; WORDS_PER_LINE], slot: usize) -> u64 {
        u64::from((words[slot / 2 % WORDS_PER_LINE] >> (slot % 2 * 32)) as u32)
    }

    fn store_control<W: Word>(line: &Line<W>, slot: usize, control: u64) {
        let (word, shift) = (&line.0[slot / 2], slot % 2 * 32);
        let other = word.get() & !(u64::from(u32::MAX) << shift);
        word.set(other | u64::from(control as u32) << shift);
    }
}

/// Four slots of two words: the address is the line's number, a 50-bit remainder and a 64-bit rest.
pub struct V6Slots;

impl Layout for V6Slots {
    const SLOTS: usize = 4;
    const REMAINDER_BITS: u32 = u64::BITS - Value::BITS - STATE_BITS;

    #[inline(always)]
    fn scan<V: Lanes>(lanes: V, place: &Place, side: Side) -> Scan {
        let mask = (1 << (Self::REMAINDER_BITS + STATE_BITS)) - 1;
        let wanted = wanted(place.remainder, side);
        let equal = lanes.words_equal([mask, u64::MAX], [wanted, place.rest]);
        Scan {
            // Controls are the first four words, rests the last.
            matching: equal & equal >> Self::SLOTS & 0xf,
            vacant: lanes.words_equal([u64::MAX, 0], [VACANT, 1]) != 0,
        }
    }

    fn rest(words: &[u64; WORDS_PER_LINE], slot: usize) -> u64 {
        words[Self::SLOTS + slot]
    }

    fn store<W: Word>(line: &Line<W>, slot: usize, entry: &Entry, announce: impl FnOnce()) {
        // Readers load controls before rests: one that sees the new rest beside the old control sees the count risen.
        Self::free(line, slot, true);
        announce();
        line.0[Self::SLOTS + slot].set(entry.rest);
        line.0[slot].set(Self::encode(entry));
    }
}

/// Eight slots of a word: 30 bits of the key's hash, and the number of the record that has the key.
pub struct FlowSlots;

impl Layout for FlowSlots {
    const SLOTS: usize = 8;
    const REMAINDER_BITS: u32 = 30;

    #[inline(always)]
    fn scan<V: Lanes>(lanes: V, place: &Place, side: Side) -> Scan {
        let mask = u64::from(u32::MAX);
        let wanted = wanted(place.remainder, side);
        Scan {
            matching: lanes.words_equal([mask; 2], [wanted; 2]),
            vacant: lanes.words_equal([u64::MAX; 2], [VACANT; 2]) != 0,
        }
    }
}
