//! Filters that encode a field of a frame in the captured length. Input: a field. Output: a classic BPF program.

use crate::watch::{OUTGOING, load, only};
use corelane_rss::steer::{self, Families, Instruction, SteerError, code};
use corelane_rss::{Bucket, IndirectionTable, Steering};
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

/// Truncates every IP packet that the device received to `least` bytes plus the bucket that the steering program of a
/// group of sockets returns for it, any other frame to `least`; drops sent frames.
pub(super) fn bucket_as_length(steering: &Steering, least: u32) -> Result<Vec<SockFilter>, SteerError> {
    let lengths = steering.table.entries().iter();
    let lengths = lengths.map(|bucket| Bucket::new(bucket.index() as u16 + least as u16));
    let lengths = IndirectionTable::from_entries(lengths.collect());
    let steering = Steering {
        table: lengths.expect("as many entries as the table has"),
        ..steering.clone()
    };
    let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, false));
    program.extend([
        load(libc::SKF_AD_PROTOCOL),
        SockFilter::new(code::JUMP_IF_EQUAL, 2, 0, libc::ETH_P_IP as u32),
        SockFilter::new(code::JUMP_IF_EQUAL, 1, 0, libc::ETH_P_IPV6 as u32),
        SockFilter::new(code::ANSWER_CONSTANT, 0, 0, least),
    ]);
    let steer = steer::program(&steering, Families::Both)?;
    let filter = |Instruction { code, jt, jf, k }: &Instruction| SockFilter::new(*code, *jt, *jf, *k);
    program.extend(steer.instructions().iter().map(filter));
    Ok(program)
}
