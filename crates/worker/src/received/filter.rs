//! Filters that encode a field of a frame in the captured length. Input: a field. Output: a classic BPF program.

use crate::watch::{OUTGOING, load, only};
use corelane_rss::steer::code;
use socket2::SockFilter;

/// Passes every frame that the device received, truncated to `snap` bytes; drops sent frames.
pub(super) fn whole(snap: u32) -> Vec<SockFilter> {
    let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, false));
    program.push(SockFilter::new(code::ANSWER_CONSTANT, 0, 0, snap));
    program
}

/// Truncates every frame that the device received to `least + (field >> shift & mask)` bytes, with a field of
/// `SKF_AD_*`; drops sent frames.
pub(super) fn field_as_length(field: i32, shift: u32, mask: u32, least: u32) -> Vec<SockFilter> {
    let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, false));
    program.extend([
        load(field),
        SockFilter::new(code::SHIFT_RIGHT, 0, 0, shift),
        SockFilter::new(code::AND, 0, 0, mask),
        SockFilter::new(code::ADD, 0, 0, least),
        SockFilter::new(code::ANSWER, 0, 0, 0),
    ]);
    program
}
