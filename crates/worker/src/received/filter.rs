//! The filters that make lengths tell: a piece enters, the classic BPF program that answers with it leaves.

use super::pieces::Piece;
use socket2::SockFilter;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const ADD: u16 = (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// `BPF_RET | BPF_A` of `linux/bpf_common.h`.
const RETURN_A: u16 = 0x16;

/// Passes nothing.
pub(super) fn nothing() -> [SockFilter; 1] {
    [SockFilter::new(RETURN, 0, 0, 0)]
}

/// Cuts every frame that the device received to the length that tells this piece; frames sent are passed over.
pub(super) fn of(piece: Piece, snap: u32) -> Vec<SockFilter> {
    let instruction = SockFilter::new;
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    // PACKET_OUTGOING of `linux/if_packet.h`.
    const OUTGOING: u32 = 4;
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, packet_type),
        instruction(JUMP_IF_EQUAL, 0, 1, OUTGOING),
        instruction(RETURN, 0, 0, 0),
    ];
    let (field, shift) = match piece {
        Piece::Frame => {
            program.push(instruction(RETURN, 0, 0, snap));
            return program;
        }
        Piece::Hash(shift) => (libc::SKF_AD_RXHASH, shift),
        Piece::Queue(shift) => (libc::SKF_AD_QUEUE, shift),
    };
    program.extend([
        instruction(LOAD_WORD, 0, 0, (libc::SKF_AD_OFF + field) as u32),
        instruction(SHIFT_RIGHT, 0, 0, shift),
        instruction(AND, 0, 0, Piece::MASK),
        instruction(ADD, 0, 0, 1),
        instruction(RETURN_A, 0, 0, 0),
    ]);
    program
}
