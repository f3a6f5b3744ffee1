//! Memory nodes: the memory policy of the calling thread or of a range, and the actual nodes of pages.
//! set_mempolicy(2), mbind(2), numa_maps of proc(5).

use corelane_host::memory::{MAXIMUM_NODES, MemoryPolicy};
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// `MPOL_MF_MOVE` of linux/mempolicy.h: also moves existing pages that only this process uses.
const MOVE_OWN_PAGES: libc::c_uint = 1 << 1;

const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// One more than the bits of the mask: the kernel reads `maxnode - 1` bits (`get_nodes` of mm/mempolicy.c).
const MAXIMUM_NODE: libc::c_ulong = MAXIMUM_NODES as libc::c_ulong + 1;

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
            MAXIMUM_NODE,
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
            MAXIMUM_NODE,
            MOVE_OWN_PAGES,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Counts the pages by node, in the text of `/proc/self/numa_maps`, of mappings that begin in one of `ranges`. Pages that were never touched are on no node and
/// are not counted. move_pages(2) cannot replace this: kernels 6.1 to 6.4 report pages that NUMA balancing has marked as
/// absent.
pub(crate) fn pages_by_node(numa_maps: &str, ranges: &[Range<usize>]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for line in numa_maps.lines() {
        let mut words = line.split(' ');
        let start = words.next().and_then(|word| usize::from_str_radix(word, 16).ok());
        if !start.is_some_and(|start| ranges.iter().any(|range| range.contains(&start))) {
            continue;
        }
        for (node, pages) in words.filter_map(|word| word.strip_prefix('N')?.split_once('=')) {
            if let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) {
                *counts.entry(node).or_default() += pages;
            }
        }
    }
    counts
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

    #[test]
    fn pages_of_the_given_mappings_are_added_by_node() {
        let maps = "7f10000 default anon=3 dirty=3 active=0 N0=2 N1=1 kernelpagesize_kB=4\n\
                    7f20000 bind:1 anon=5 dirty=5 N1=5 kernelpagesize_kB=4\n\
                    7f30000 default\n\
                    7f40000 default file=/lib/N9=9 mapped=7 N0=7 kernelpagesize_kB=4\n";
        let ranges = [0x7f1_0000..0x7f1_4000, 0x7f2_0000..0x7f3_1000];
        assert_eq!(pages_by_node(maps, &ranges), BTreeMap::from([(0, 2), (1, 6)]));
    }
}
