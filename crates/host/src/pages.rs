//! Of which size the pages are that this process really has.
//!
//! What enters: `/proc/self/smaps_rollup`, before and after memory was written for the first time. What leaves: the page
//! size of most of that memory. Advice to the kernel says what was wished for; this says what came of it.

use nix::unistd::{SysconfVar, sysconf};

use crate::HostError;
use crate::tree::{Tree, kibibytes};

const ROLLUP: &str = "/proc/self/smaps_rollup";
const HUGE_PAGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// The private memory of this process that is in huge pages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeBytes(u64);

impl HugeBytes {
    /// Reads it: transparent huge pages and those of the reserved pool.
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

    /// The page size of most of `bytes` bytes that were first written since `self` was read; `None` where the kernel does
    /// not tell. Rounding to whole pages may count a little of other memory: half decides.
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

/// Bytes of a base page.
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
