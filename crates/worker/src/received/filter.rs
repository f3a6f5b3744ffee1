//! The filters that make lengths tell: a field of the frame enters, the classic BPF program that answers with it leaves.

use crate::watch::{OUTGOING, code, load, only};
use socket2::SockFilter;

/// Passes every frame that the device received, cut to `snap` bytes; frames sent are passed over.
pub(super) fn whole(snap: u32) -> Vec<SockFilter> {
    let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, false));
    program.push(SockFilter::new(code::RETURN, 0, 0, snap));
    program
}

/// Cuts every frame that the device received to as many bytes more than `least` as some bits of a field (`SKF_AD_*`) say, those
/// of `mask` after a shift to the right; frames sent are passed over.
pub(super) fn field_as_length(field: i32, shift: u32, mask: u32, least: u32) -> Vec<SockFilter> {
    let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, false));
    program.extend([
        load(field),
        SockFilter::new(code::SHIFT_RIGHT, 0, 0, shift),
        SockFilter::new(code::AND, 0, 0, mask),
        SockFilter::new(code::ADD, 0, 0, least),
        SockFilter::new(code::RETURN_A, 0, 0, 0),
    ]);
    program
}
