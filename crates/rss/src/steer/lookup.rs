//! Generates classic BPF code that converts the table entry in A to its bucket.

use super::Instruction;
use super::instruction::code;
use crate::table::Bucket;

/// Returns the bucket of entry A. The length of `entries` is a power of two.
pub(super) fn bucket_of_entry(entries: &[Bucket]) -> Vec<Instruction> {
    let buckets = entries.iter().max().map_or(0, |bucket| bucket.index() + 1);
    let in_turn = (0..)
        .zip(entries)
        .all(|(entry, bucket): (usize, _)| bucket.index() == entry % buckets);
    match (entries, in_turn) {
        ([bucket], _) => vec![Instruction::new(code::ANSWER_CONSTANT, bucket.index() as u32)],
        (_, true) if buckets == entries.len() => vec![Instruction::new(code::ANSWER, 0)],
        (_, true) => vec![
            Instruction::new(code::MODULO, buckets as u32),
            Instruction::new(code::ANSWER, 0),
        ],
        (_, false) => packed(entries, width(buckets)),
    }
}

/// Bits per bucket number: a power of two, so that a word holds a power of two of them.
fn width(buckets: usize) -> u32 {
    let bits = buckets.next_power_of_two().ilog2();
    bits.max(1).next_power_of_two()
}

/// Packs as many buckets as fit into each 32-bit constant, finds the constant by a tree of tests on the entry's upper
/// bits and shifts the bucket out of it by the lower ones.
fn packed(entries: &[Bucket], width: u32) -> Vec<Instruction> {
    const KEPT: u32 = 0;
    let per_word = ((32 / width) as usize).min(entries.len());
    let word = |buckets: &[Bucket]| {
        let highest_first = buckets.iter().rev();
        highest_first.fold(0, |word: u32, bucket| {
            word.checked_shl(width).unwrap_or(0) | bucket.index() as u32
        })
    };
    let words: Vec<u32> = entries.chunks(per_word).map(word).collect();
    let shift_to_x = [
        Instruction::new(code::STORE, KEPT),
        Instruction::new(code::AND, per_word as u32 - 1),
        Instruction::new(code::MULTIPLY, width),
        Instruction::new(code::COPY_TO_X, 0),
        Instruction::new(code::RECALL, KEPT),
    ];
    let answer = [
        Instruction::new(code::SHIFT_RIGHT_BY_X, 0),
        Instruction::new(code::AND, u32::MAX >> (32 - width)),
        Instruction::new(code::ANSWER, 0),
    ];
    [
        shift_to_x.to_vec(),
        select(&words, per_word as u32, 0),
        answer.to_vec(),
    ]
    .concat()
}

/// Loads the word selected by the bits of A from `lowest_bit` up, and continues `after` instructions past this code. A
/// subtree of equal words is one leaf.
fn select(words: &[u32], lowest_bit: u32, after: usize) -> Vec<Instruction> {
    if words.iter().all(|word| *word == words[0]) {
        let mut leaf = vec![Instruction::new(code::LOAD_CONSTANT, words[0])];
        if after > 0 {
            leaf.push(Instruction::new(code::JUMP, after as u32));
        }
        return leaf;
    }
    let (lower, upper) = words.split_at(words.len() / 2);
    let test = lowest_bit * lower.len() as u32;
    let upper = select(upper, lowest_bit, after);
    let lower = select(lower, lowest_bit, after + upper.len());
    [
        Instruction::jump_if(code::JUMP_IF_ANY, test, lower.len()),
        lower,
        upper,
    ]
    .concat()
}
