//! The kernel's own memory by object type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::tree::{MEMINFO, Tree, kibibytes};

const SLABINFO: &str = "/proc/slabinfo";

/// All slab caches of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slab {
    /// Memory of all caches, in bytes, including waste between objects.
    pub bytes: u64,
    /// By cache name, such as `TCP` or `sock_inode_cache`; empty without root, because only root may read it.
    pub caches: BTreeMap<String, SlabCache>,
}

/// One cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlabCache {
    /// Objects in use. The kernel does not inspect per-CPU slabs, so the count includes a few free objects.
    pub objects: u64,
    /// Memory of all object slots, in bytes. The pages around them are not reported: when memory is fragmented, the
    /// kernel allocates slabs of fewer pages than it reports.
    pub bytes: u64,
}

impl Slab {
    /// Reads the caches of this machine.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`], [`HostError::Missing`] or [`HostError::Failed`] if the kernel's files are not as
    /// documented.
    pub fn read() -> Result<Self, HostError> {
        let tree = Tree::machine();
        let caches = match tree.text(SLABINFO) {
            Err(HostError::Read { .. }) => String::new(),
            text => text?,
        };
        Self::parse(&tree.text(MEMINFO)?, &caches)
    }

    /// Parses `/proc/meminfo`, whose `Slab` line is the total in KiB (`proc_meminfo(5)`), and `/proc/slabinfo`
    /// (`slabinfo(5)`): two header lines, then one line per cache with its name, objects in use, objects, and bytes per
    /// object. The second may be empty.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] without a `Slab` line, [`HostError::Failed`] for any other malformed line.
    pub fn parse(meminfo: &str, slabinfo: &str) -> Result<Self, HostError> {
        let bytes = kibibytes(meminfo, "Slab").ok_or_else(|| HostError::missing(MEMINFO, "Slab line"))?;
        let lines = slabinfo
            .lines()
            .filter(|line| !line.starts_with("slabinfo") && !line.starts_with('#'));
        let caches = lines.map(|line| {
            cache(line)
                .ok_or_else(|| HostError::format(SLABINFO, "a name, then numbers of objects and bytes", line))
        });
        Ok(Self {
            bytes,
            caches: caches.collect::<Result<_, _>>()?,
        })
    }
}

fn cache(line: &str) -> Option<(String, SlabCache)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (objects, room, bytes) = (number()?, number()?, number()?);
    let cache = SlabCache {
        objects,
        bytes: room.checked_mul(bytes)?,
    };
    Some((name, cache))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
TCP                  100    117   2496   13    8 : tunables    0    0    0 : slabdata      9      9      0
filp                 600    640    256   32    2 : tunables    0    0    0 : slabdata     20     20      0
";

    #[test]
    fn a_cache_is_told_by_its_objects_and_all_of_them_by_their_pages() {
        let slab = Slab::parse("MemTotal: 9 kB\nSlab:   1000 kB\n", TEXT).unwrap();
        let tcp = slab.caches["TCP"];
        assert_eq!((tcp.objects, tcp.bytes), (100, 117 * 2496));
        assert_eq!(slab.bytes, 1_024_000);
        assert_eq!(Slab::parse("Slab: 1 kB\n", "").unwrap().caches.len(), 0);
        assert!(Slab::parse("Slab: 1 kB\n", "TCP 1 2\n").is_err());
        assert!(Slab::parse("MemTotal: 9 kB\n", TEXT).is_err());
    }

    #[test]
    fn this_machine_tells_how_much_there_is_and_root_which_caches() {
        let slab = Slab::read().unwrap();
        assert!(slab.bytes > 0);
        if std::fs::read(SLABINFO).is_ok() {
            assert!(slab.caches.contains_key("TCP"), "{:?}", slab.caches.keys());
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(
            meminfo in "Slab:[0-9a-z ]{0,30}\n", text in "[a-z0-9: ]{0,80}\n[a-z]{1,4}( [0-9]{1,20}){5}",
        ) {
            let _ = Slab::parse(&meminfo, &text);
        }
    }
}
