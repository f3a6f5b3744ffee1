//! The actual page size of this process's memory.
//!
//! Input: `/proc/self/smaps_rollup`, before and after memory was first written. Output: the page size of most of that
//! memory. madvise(2) only requests a page size; this reports the result.

use nix::unistd::{SysconfVar, sysconf};

use crate::HostError;
use crate::tree::{Tree, kibibytes};

const ROLLUP: &str = "/proc/self/smaps_rollup";
const HUGE_PAGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// The private memory of this process in huge pages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeBytes(u64);

impl HugeBytes {
    /// Reads the sum of transparent huge pages and pages of the reserved pool.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] before Linux 4.14, or where a container hides the file.
    pub fn read() -> Result<Self, HostError> {
        Ok(Self::parse(&Tree::machine().text(ROLLUP)?))
    }

    fn parse(text: &str) -> Self {
        let counted = ["AnonHugePages", "Private_Hugetlb"];
        Self(counted.iter().filter_map(|name| kibibytes(text, name)).sum())
    }

    /// The page size of most of the `bytes` bytes first written since `self` was read; `None` if the kernel does not
    /// report it. Rounding to whole pages may include some other memory, so half of `bytes` is the threshold.
    #[must_use]
    pub fn page_size_of(self, bytes: u64) -> Option<u64> {
        let grown = Self::read().ok()?.0.saturating_sub(self.0);
        if grown >= bytes / 2 && grown > 0 {
            Tree::machine().value(HUGE_PAGE, "a number of bytes").ok()
        } else {
            base_page_size()
        }
    }
}

/// The size of a base page, in bytes.
#[must_use]
pub fn base_page_size() -> Option<u64> {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_huge_pages_count_and_nothing_else() {
        let text = "00400000-7fff0000 ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nAnonHugePages:    4096 kB\n\
            Shared_Hugetlb: 8 kB\nPrivate_Hugetlb:  2048 kB\n";
        assert_eq!(HugeBytes::parse(text), HugeBytes(6144 * 1024));
    }

    #[test]
    fn small_memory_is_in_base_pages() {
        let Ok(before) = HugeBytes::read() else {
            eprintln!("skipped: this kernel has no {ROLLUP}");
            return;
        };
        assert_eq!(before.page_size_of(u64::MAX), base_page_size());
    }
}
