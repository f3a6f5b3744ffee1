//! Classic BPF instructions by name, encoded as the kernel's `struct sock_filter`.
//!
//! The machine has an accumulator A, an index register X and sixteen words of memory M. Jumps only go forward, and count
//! from the instruction after them (Linux, `Documentation/networking/filter.rst`; codes in `linux/bpf_common.h`).

/// One instruction, in the layout of the kernel's `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip if the condition of a jump holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// A constant, an offset, or a slot of memory.
    pub k: u32,
}

/// Operation codes, described by their effect with operand `k`.
pub mod code {
    /// A = the 32 bits at `k`.
    pub const LOAD_WORD: u16 = 0x20;
    /// A = the 16 bits at `k`.
    pub const LOAD_HALF: u16 = 0x28;
    /// A = the byte at `k`.
    pub const LOAD_BYTE: u16 = 0x30;
    /// A = the 32 bits at X + `k`.
    pub const LOAD_WORD_PAST_X: u16 = 0x40;
    /// A = the 16 bits at X + `k`.
    pub const LOAD_HALF_PAST_X: u16 = 0x48;
    /// A = the byte at X + `k`.
    pub const LOAD_BYTE_PAST_X: u16 = 0x50;
    /// X = 4 times the lower half of the byte at `k`: the length of an IPv4 header.
    pub const LOAD_HEADER_LENGTH_TO_X: u16 = 0xb1;
    /// A = `k`.
    pub const LOAD_CONSTANT: u16 = 0x00;
    /// X = `k`.
    pub const LOAD_CONSTANT_TO_X: u16 = 0x01;
    /// A = M[`k`].
    pub const RECALL: u16 = 0x60;
    /// X = M[`k`].
    pub const RECALL_TO_X: u16 = 0x61;
    /// M[`k`] = A.
    pub const STORE: u16 = 0x02;
    /// X = A.
    pub const COPY_TO_X: u16 = 0x07;
    /// A += `k`.
    pub const ADD: u16 = 0x04;
    /// A += X.
    pub const ADD_X: u16 = 0x0c;
    /// A *= `k`.
    pub const MULTIPLY: u16 = 0x24;
    /// A %= `k`, which is not zero.
    pub const MODULO: u16 = 0x94;
    /// A &= `k`.
    pub const AND: u16 = 0x54;
    /// A ^= X.
    pub const XOR_X: u16 = 0xac;
    /// A <<= `k`.
    pub const SHIFT_LEFT: u16 = 0x64;
    /// A >>= `k`.
    pub const SHIFT_RIGHT: u16 = 0x74;
    /// A >>= X.
    pub const SHIFT_RIGHT_BY_X: u16 = 0x7c;
    /// Returns A.
    pub const ANSWER: u16 = 0x16;
    /// Returns `k`.
    pub const ANSWER_CONSTANT: u16 = 0x06;
    /// Skips the next `k` instructions.
    pub const JUMP: u16 = 0x05;
    /// Whether A is `k`.
    pub const JUMP_IF_EQUAL: u16 = 0x15;
    /// Whether A >= `k`.
    pub const JUMP_IF_AT_LEAST: u16 = 0x35;
    /// Whether A has a bit of `k` set.
    pub const JUMP_IF_ANY: u16 = 0x45;
}

impl Instruction {
    /// The instruction of this code and operand.
    pub(super) const fn new(code: u16, k: u32) -> Instruction {
        Instruction {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// Skips the next `skipped` instructions, at most 255, unless the condition of `code` holds.
    pub(super) const fn jump_unless(code: u16, k: u32, skipped: u8) -> Instruction {
        Instruction {
            jf: skipped,
            ..Instruction::new(code, k)
        }
    }

    /// Skips the next `skipped` instructions when the condition of `code` holds, through an unconditional jump if a
    /// conditional one does not reach far enough.
    pub(super) fn jump_if(code: u16, k: u32, skipped: usize) -> Vec<Instruction> {
        let conditional = |jt, jf| Instruction { code, jt, jf, k };
        match u8::try_from(skipped) {
            Ok(skipped) => vec![conditional(skipped, 0)],
            Err(_) => vec![conditional(0, 1), Instruction::new(code::JUMP, skipped as u32)],
        }
    }
}
