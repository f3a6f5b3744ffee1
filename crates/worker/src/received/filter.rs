//! The filters that make lengths tell: a field of the frame enters, the classic BPF program that answers with it leaves.

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

/// Passes every frame that the device received, cut to `snap` bytes; frames sent are passed over.
pub(super) fn whole(snap: u32) -> Vec<SockFilter> {
    let mut program = received_only();
    program.push(SockFilter::new(RETURN, 0, 0, snap));
    program
}

/// Cuts every frame that the device received to as many bytes more than `least` as some bits of a field (`SKF_AD_*`) say, those
/// of `mask` after a shift to the right; frames sent are passed over.
pub(super) fn telling(field: i32, shift: u32, mask: u32, least: u32) -> Vec<SockFilter> {
    let mut program = received_only();
    program.extend([
        SockFilter::new(LOAD_WORD, 0, 0, (libc::SKF_AD_OFF + field) as u32),
        SockFilter::new(SHIFT_RIGHT, 0, 0, shift),
        SockFilter::new(AND, 0, 0, mask),
        SockFilter::new(ADD, 0, 0, least),
        SockFilter::new(RETURN_A, 0, 0, 0),
    ]);
    program
}

/// Ends with nothing for frames sent.
fn received_only() -> Vec<SockFilter> {
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    // PACKET_OUTGOING of `linux/if_packet.h`.
    const OUTGOING: u32 = 4;
    vec![
        SockFilter::new(LOAD_WORD, 0, 0, packet_type),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, OUTGOING),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
