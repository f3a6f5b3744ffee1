//! Translates a classic program of a socket group to eBPF, as the kernel does when one is attached
//! (`bpf_convert_filter` in `net/core/filter.c`): A is r0, X is r7, the packet r6, and M stands on the stack.

use crate::program::{Instruction, instruction};
use corelane_rss::steer::{self, Program, code};

const A: u8 = 0;
const CONTEXT: u8 = 1;
const PACKET: u8 = 6;
const X: u8 = 7;
const SAVED: u8 = 8;
const FRAME: u8 = 10;

/// `BPF_ALU | BPF_MOV` of a constant and of a register, in 32 bits.
const MOVE: u8 = 0xb4;
const MOVE_REGISTER: u8 = 0xbc;

const EXIT: Instruction = instruction(0x95, 0, 0, 0, 0);

/// The same program in eBPF.
pub(super) fn translated(program: &Program) -> Vec<Instruction> {
    let classic = program.instructions();
    let mut all = vec![
        instruction(0xbf, PACKET, CONTEXT, 0, 0),
        instruction(MOVE, A, 0, 0, 0),
        instruction(MOVE, X, 0, 0, 0),
    ];
    let mut places = Vec::with_capacity(classic.len() + 1);
    for one in classic {
        places.push(all.len());
        all.extend(one_of(one));
    }
    places.push(all.len());
    for (at, one) in classic.iter().enumerate() {
        let target = |skipped: usize| places[at + 1 + skipped];
        let mut aim = |place: usize, to: usize| all[place].offset = (to - place - 1) as i16;
        match one.code {
            code::JUMP => aim(places[at], target(one.k as usize)),
            code::JUMP_IF_EQUAL | code::JUMP_IF_AT_LEAST | code::JUMP_IF_ANY => {
                aim(places[at], target(one.jt.into()));
                aim(places[at] + 1, target(one.jf.into()));
            }
            _ => {}
        }
    }
    all
}

/// The instructions for one; those that jump are aimed later.
fn one_of(one: &steer::Instruction) -> Vec<Instruction> {
    let constant = one.k as i32;
    // Every other operation has the number that it has here.
    let number = one.code as u8;
    // M has 16 words.
    let slot = -4 * ((one.k & 15) as i16 + 1);
    match one.code {
        code::LOAD_HEADER_LENGTH_TO_X => vec![
            instruction(MOVE_REGISTER, SAVED, A, 0, 0),
            instruction(code::LOAD_BYTE as u8, 0, 0, 0, constant),
            instruction(code::AND as u8, A, 0, 0, 0xf),
            instruction(code::SHIFT_LEFT as u8, A, 0, 0, 2),
            instruction(MOVE_REGISTER, X, A, 0, 0),
            instruction(MOVE_REGISTER, A, SAVED, 0, 0),
        ],
        code::LOAD_CONSTANT => vec![instruction(MOVE, A, 0, 0, constant)],
        code::LOAD_CONSTANT_TO_X => vec![instruction(MOVE, X, 0, 0, constant)],
        code::RECALL => vec![instruction(0x61, A, FRAME, slot, 0)],
        code::RECALL_TO_X => vec![instruction(0x61, X, FRAME, slot, 0)],
        code::STORE => vec![instruction(0x63, FRAME, A, slot, 0)],
        code::COPY_TO_X => vec![instruction(MOVE_REGISTER, X, A, 0, 0)],
        code::ANSWER => vec![EXIT],
        code::ANSWER_CONSTANT => vec![instruction(MOVE, A, 0, 0, constant), EXIT],
        code::JUMP => vec![instruction(0x05, 0, 0, 0, 0)],
        // `BPF_JMP32`, the next class after `BPF_JMP`, which would extend the sign of the constant; then the jump if it does not hold.
        code::JUMP_IF_EQUAL | code::JUMP_IF_AT_LEAST | code::JUMP_IF_ANY => vec![
            instruction(number + 1, A, 0, 0, constant),
            instruction(0x05, 0, 0, 0, 0),
        ],
        code::LOAD_WORD_PAST_X | code::LOAD_HALF_PAST_X | code::LOAD_BYTE_PAST_X => {
            vec![instruction(number, 0, X, 0, constant)]
        }
        code::ADD_X | code::XOR_X | code::SHIFT_RIGHT_BY_X => vec![instruction(number, A, X, 0, 0)],
        _ => vec![instruction(number, A, 0, 0, constant)],
    }
}
