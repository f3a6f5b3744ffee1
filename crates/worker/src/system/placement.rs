//! Memory nodes: the memory policy of the calling thread or of a range, and the actual nodes of pages.
//! set_mempolicy(2), mbind(2), move_pages(2).

use corelane_host::memory::{MAXIMUM_NODES, MemoryPolicy};
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Addresses per call of `move_pages`. The kernel processes 16 at a time in any case (`DO_PAGES_STAT_CHUNK_NR`).
const PAGES_A_CALL: usize = 1_024;

/// `MPOL_MF_MOVE` of linux/mempolicy.h: also moves existing pages that only this process uses.
const MOVE_OWN_PAGES: libc::c_uint = 1 << 1;

const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// A policy in the kernel's representation.
struct Mode {
    number: libc::c_int,
    nodes: [libc::c_ulong; MAXIMUM_NODES as usize / WORD_BITS],
}

impl Mode {
    fn new(policy: MemoryPolicy, present: &[u32]) -> Self {
        let (number, named): (_, &[u32]) = match &policy {
            MemoryPolicy::FirstTouch => (libc::MPOL_DEFAULT, &[]),
            MemoryPolicy::Local => (libc::MPOL_LOCAL, &[]),
            MemoryPolicy::Interleave => (libc::MPOL_INTERLEAVE, present),
            MemoryPolicy::Node(node) => (libc::MPOL_BIND, std::slice::from_ref(node)),
        };
        let mut nodes = [0; MAXIMUM_NODES as usize / WORD_BITS];
        for node in named.iter().filter(|node| **node < MAXIMUM_NODES) {
            nodes[*node as usize / WORD_BITS] |= 1 << (*node as usize % WORD_BITS);
        }
        Self { number, nodes }
    }

    /// One more than the bits of the mask: the kernel reads `maxnode - 1` bits (`get_nodes` of mm/mempolicy.c).
    fn maximum(&self) -> libc::c_ulong {
        libc::c_ulong::from(MAXIMUM_NODES) + 1
    }
}

/// Sets the policy of the calling thread. Interleaving is over `present`.
pub(crate) fn set_of_thread(policy: MemoryPolicy, present: &[u32]) -> io::Result<()> {
    let mode = Mode::new(policy, present);
    // SAFETY: the kernel only reads the mask, which outlives the call, and no more bits than it has.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            mode.number,
            mode.nodes.as_ptr(),
            mode.maximum(),
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Sets the policy of a range of mapped pages; pages already touched are moved if possible. `range` must start at a
/// page boundary.
pub(crate) fn set_of_range(range: Range<usize>, policy: MemoryPolicy, present: &[u32]) -> io::Result<()> {
    let mode = Mode::new(policy, present);
    // SAFETY: the kernel only reads the mask, which outlives the call, and no more bits than it has. The call changes
    // the location of pages, not their contents; a range that is not mapped is rejected.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            range.start,
            range.len(),
            mode.number,
            mode.nodes.as_ptr(),
            mode.maximum(),
            MOVE_OWN_PAGES,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Counts the pages of a range by node. Pages that were never touched are on no node and are not counted.
pub(crate) fn pages_by_node(range: Range<usize>) -> io::Result<BTreeMap<u32, u64>> {
    let page = page_bytes();
    let mut counts = BTreeMap::new();
    let addresses: Vec<usize> = (range.start / page * page..range.end).step_by(page).collect();
    for part in addresses.chunks(PAGES_A_CALL) {
        let mut status = vec![0 as libc::c_int; part.len()];
        // SAFETY: the kernel reads `part.len()` addresses and writes as many statuses; both arrays have that length and
        // outlive the call. Without target nodes it moves nothing; the addresses are looked up, never dereferenced.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                part.len(),
                part.as_ptr(),
                std::ptr::null::<libc::c_int>(),
                status.as_mut_ptr(),
                0,
            )
        };
        Errno::result(result)?;
        // A negative status is an error number: -ENOENT for a page that was never touched, -EFAULT for the zero page.
        for node in status.into_iter().filter_map(|status| u32::try_from(status).ok()) {
            *counts.entry(node).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Bytes of a page.
pub(crate) fn page_bytes() -> usize {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.expect("Linux always has a page size") as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_holds_the_nodes_named_and_no_others() {
        let mode = Mode::new(MemoryPolicy::Interleave, &[0, 3, 64]);
        assert_eq!((mode.nodes[0], mode.nodes[1]), (0b1001, 1));
        let mode = Mode::new(MemoryPolicy::Node(65), &[0]);
        assert_eq!((mode.nodes[0], mode.nodes[1]), (0, 2));
        assert!(
            Mode::new(MemoryPolicy::Local, &[0])
                .nodes
                .iter()
                .all(|word| *word == 0)
        );
    }
}
