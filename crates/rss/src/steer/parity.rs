//! Generates classic BPF code that computes the low bits of the Toeplitz hash.
//!
//! Each bit of a Toeplitz hash is the parity of the input masked by a window of the key. Folding one masked sum per bit
//! down to its parity would be expensive. Instead the sums of several bits are interleaved into one word, position by
//! position. Each interleaving folds both sums to half their width, so that only the last word must be folded.

use super::Instruction;
use super::instruction::code;
use crate::key::Key;

/// Sets A to the low `bits` bits of the hash over the `words` words at M[0], M[1], …. `bits` is 1 to 12.
pub(super) fn low_hash_bits(key: &Key, words: u32, bits: u32) -> Vec<Instruction> {
    let mut hash = LowHashBits {
        key,
        words,
        bits,
        code: Vec::new(),
    };
    let levels = bits.next_power_of_two().ilog2();
    hash.interleaved(0, levels);
    for level in (levels..5).rev() {
        hash.fold(1 << level);
    }
    hash.code.push(Instruction::new(code::AND, (1 << bits) - 1));
    hash.code
}

/// Code under construction.
struct LowHashBits<'a> {
    key: &'a Key,
    words: u32,
    bits: u32,
    code: Vec<Instruction>,
}

impl LowHashBits<'_> {
    /// Sets A to a word whose bits, at the positions that are `p` modulo `1 << level`, have the parity of hash bit
    /// `first + p`; positions of other bits are undefined.
    fn interleaved(&mut self, first: u32, level: u32) {
        let Some(below) = level.checked_sub(1) else {
            return self.masked_sum(first);
        };
        let half = 1 << below;
        self.interleaved(first, below);
        if first + half >= self.bits {
            return self.fold(half);
        }
        let kept = self.words + below;
        self.code.push(Instruction::new(code::STORE, kept));
        self.interleaved(first + half, below);
        self.interleave_with(kept, half);
    }

    /// Interleaves A with M[`kept`], `half` positions each. With A as b and M as a, the result is `a ^ a >> half` at
    /// the lower positions of each pair of halves and `b ^ b << half` at the upper ones. Both differ from `a ^ b` by
    /// what `d = (a >> half) ^ b` holds at the lower position: the lower by d, the upper by the same `d << half`.
    /// Masked to the lower positions the two do not overlap, so one multiplication adds both.
    fn interleave_with(&mut self, kept: u32, half: u32) {
        let twice = (1 << half) + 1;
        // 0x5555_5555, 0x3333_3333, 0x0f0f_0f0f, 0x00ff_00ff: the lower positions.
        let lower = u32::MAX / twice;
        self.code.extend([
            Instruction::new(code::COPY_TO_X, 0),
            Instruction::new(code::RECALL, kept),
            Instruction::new(code::SHIFT_RIGHT, half),
            Instruction::new(code::XOR_X, 0),
            Instruction::new(code::AND, lower),
            Instruction::new(code::MULTIPLY, twice),
            Instruction::new(code::XOR_X, 0),
            Instruction::new(code::RECALL_TO_X, kept),
            Instruction::new(code::XOR_X, 0),
        ]);
    }

    /// A ^= A >> `shift`.
    fn fold(&mut self, shift: u32) {
        self.code.extend([
            Instruction::new(code::COPY_TO_X, 0),
            Instruction::new(code::SHIFT_RIGHT, shift),
            Instruction::new(code::XOR_X, 0),
        ]);
    }

    /// A = the words, each masked by the key bits that decide hash bit `bit` (counted from the least significant), summed
    /// over GF(2): a word whose parity is that bit.
    fn masked_sum(&mut self, bit: u32) {
        for word in 0..self.words {
            let window = self.key.window((32 * word + 31 - bit) as usize);
            self.code.extend([
                Instruction::new(code::RECALL, word),
                Instruction::new(code::AND, window),
            ]);
            if word > 0 {
                self.code.push(Instruction::new(code::XOR_X, 0));
            }
            if word + 1 < self.words {
                self.code.push(Instruction::new(code::COPY_TO_X, 0));
            }
        }
    }
}
