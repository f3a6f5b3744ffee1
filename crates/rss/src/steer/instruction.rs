//! Classic BPF instructions by name. Operands enter, the kernel's `struct sock_filter` leaves.
//!
//! The machine has an accumulator A, an index register X and sixteen words of memory M. Jumps only go forward, and count
//! from the instruction after them (Linux, `Documentation/networking/filter.rst`; codes in `linux/bpf_common.h`).

/// One instruction, as the kernel's `struct sock_filter` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip when a conditional jump's condition holds.
    pub jt: u8,
    /// How many to skip when it does not.
    pub jf: u8,
    /// A constant, an offset, or a slot of memory.
    pub k: u32,
}

/// The furthest that a conditional jump reaches.
const CONDITIONAL_REACH: usize = u8::MAX as usize;

impl Instruction {
    /// How many instructions of its own machine the kernel makes of this one, at most (`bpf_convert_filter` in
    /// `net/core/filter.c`): a load from the packet checks its place first and may call for help, and a conditional jump may
    /// become two.
    pub(super) fn translated(self) -> usize {
        let (class, mode) = (self.code & 0x07, self.code & 0xe0);
        match (class, mode) {
            (0x00, 0x20 | 0x40) | (0x01, 0xa0) => 16,
            (0x05, _) => 2,
            _ => 1,
        }
    }

    const fn new(code: u16, k: u32) -> Instruction {
        Instruction {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// A = the 32 bits at `offset`.
    pub(super) const fn load_word(offset: u32) -> Instruction {
        Instruction::new(0x20, offset)
    }

    /// A = the byte at `offset`.
    pub(super) const fn load_byte(offset: u32) -> Instruction {
        Instruction::new(0x30, offset)
    }

    /// A = the 32 bits at X + `offset`.
    pub(super) const fn load_word_past_x(offset: u32) -> Instruction {
        Instruction::new(0x40, offset)
    }

    /// A = the byte at X + `offset`.
    pub(super) const fn load_byte_past_x(offset: u32) -> Instruction {
        Instruction::new(0x50, offset)
    }

    /// X = 4 times the lower half of the byte at `offset`: the length of an IPv4 header.
    pub(super) const fn load_header_length_to_x(offset: u32) -> Instruction {
        Instruction::new(0xb1, offset)
    }

    /// A = `value`.
    pub(super) const fn load_constant(value: u32) -> Instruction {
        Instruction::new(0x00, value)
    }

    /// X = `value`.
    pub(super) const fn load_constant_to_x(value: u32) -> Instruction {
        Instruction::new(0x01, value)
    }

    /// A = M[`slot`].
    pub(super) const fn recall(slot: u32) -> Instruction {
        Instruction::new(0x60, slot)
    }

    /// X = M[`slot`].
    pub(super) const fn recall_to_x(slot: u32) -> Instruction {
        Instruction::new(0x61, slot)
    }

    /// M[`slot`] = A.
    pub(super) const fn store(slot: u32) -> Instruction {
        Instruction::new(0x02, slot)
    }

    /// X = A.
    pub(super) const fn copy_to_x() -> Instruction {
        Instruction::new(0x07, 0)
    }

    /// A += `value`.
    pub(super) const fn add(value: u32) -> Instruction {
        Instruction::new(0x04, value)
    }

    /// A += X.
    pub(super) const fn add_x() -> Instruction {
        Instruction::new(0x0c, 0)
    }

    /// A *= `value`.
    pub(super) const fn multiply(value: u32) -> Instruction {
        Instruction::new(0x24, value)
    }

    /// A %= `value`, which is not zero.
    pub(super) const fn modulo(value: u32) -> Instruction {
        Instruction::new(0x94, value)
    }

    /// A &= `mask`.
    pub(super) const fn and(mask: u32) -> Instruction {
        Instruction::new(0x54, mask)
    }

    /// A ^= X.
    pub(super) const fn xor_x() -> Instruction {
        Instruction::new(0xac, 0)
    }

    /// A <<= `bits`.
    pub(super) const fn shift_left(bits: u32) -> Instruction {
        Instruction::new(0x64, bits)
    }

    /// A >>= `bits`.
    pub(super) const fn shift_right(bits: u32) -> Instruction {
        Instruction::new(0x74, bits)
    }

    /// A >>= X.
    pub(super) const fn shift_right_by_x() -> Instruction {
        Instruction::new(0x7c, 0)
    }

    /// Ends with the answer A.
    pub(super) const fn answer() -> Instruction {
        Instruction::new(0x16, 0)
    }

    /// Ends with the answer `value`.
    pub(super) const fn answer_constant(value: u32) -> Instruction {
        Instruction::new(0x06, value)
    }

    /// Skips the next `skipped` instructions.
    pub(super) const fn jump(skipped: usize) -> Instruction {
        Instruction::new(0x05, skipped as u32)
    }

    /// Skips the next `skipped` instructions when A >= `value`.
    pub(super) fn jump_if_at_least(value: u32, skipped: usize) -> Vec<Instruction> {
        Instruction::jump_if(0x35, value, skipped)
    }

    /// Skips the next `skipped` instructions when A has a bit of `mask` set.
    pub(super) fn jump_if_any(mask: u32, skipped: usize) -> Vec<Instruction> {
        Instruction::jump_if(0x45, mask, skipped)
    }

    /// Skips the next `skipped` instructions, at most 255, unless A has a bit of `mask` set.
    pub(super) const fn jump_unless_any(mask: u32, skipped: u8) -> Instruction {
        Instruction {
            jf: skipped,
            ..Instruction::new(0x45, mask)
        }
    }

    /// Skips the next `skipped` instructions, at most 255, unless A is `value`.
    pub(super) const fn jump_unless_equal(value: u32, skipped: u8) -> Instruction {
        Instruction {
            jf: skipped,
            ..Instruction::new(0x15, value)
        }
    }

    /// A conditional jump, by way of an unconditional one where the conditional does not reach.
    fn jump_if(code: u16, k: u32, skipped: usize) -> Vec<Instruction> {
        let conditional = |jt, jf| Instruction { code, jt, jf, k };
        if skipped <= CONDITIONAL_REACH {
            vec![conditional(skipped as u8, 0)]
        } else {
            vec![conditional(0, 1), Instruction::jump(skipped)]
        }
    }
}
