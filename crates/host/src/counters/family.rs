//! CPU time and memory of a process and its descendants: for servers that fork workers or detach from their starter.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use super::cpu_times::ticks_a_second;
use super::process::{after_name, times, total_ns};
use crate::HostError;
use crate::tree::{Tree, kibibytes};

/// A process and its living descendants at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// The CPU time of each process, all threads, in nanoseconds, by process id.
    pub members: BTreeMap<u32, u64>,
    /// CPU time of descendants that ended and were waited for. The resolution is one tick (10 ms).
    pub ended_cpu_ns: u64,
}

impl Family {
    /// Reads `process` and every living descendant. The time of a descendant that ended without being waited for is
    /// lost. A process that was reparented out of the family is no longer counted.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] or [`HostError::Failed`] if there is no such process.
    pub fn read(process: u32) -> Result<Self, HostError> {
        let tree = Tree::machine();
        let mut family = Self::default();
        family.add(&tree, process)?;
        for descendant in descendants(process, &parents(&tree)?) {
            // It may end while it is read; its parent then accounts for its time.
            let _ = family.add(&tree, descendant);
        }
        Ok(family)
    }

    /// Like [`Family::read`], without `process` itself: for when it is only the keeper of the server.
    ///
    /// # Errors
    ///
    /// Same as [`Family::read`].
    pub fn below(process: u32) -> Result<Self, HostError> {
        let mut family = Self::read(process)?;
        family.members.remove(&process);
        Ok(family)
    }

    /// CPU time of all processes, ended ones included.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.members.values().sum::<u64>() + self.ended_cpu_ns
    }

    /// Reads the family's private memory, in bytes: not backed by a file; shared pages count as their share. `None` if
    /// the kernel reports it for none of them (processes of another user). The kernel walks all pages, which takes
    /// milliseconds per 100 MB.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let tree = Tree::machine();
        self.members.keys().map(|process| memory(&tree, *process)).sum()
    }

    /// The family's anonymous memory, by node, in bytes. `None` if the kernel reports it for none of them:
    /// processes of another user, a kernel without NUMA. It walks all pages.
    #[must_use]
    pub fn memory_by_node(&self) -> Option<BTreeMap<u32, u64>> {
        let tree = Tree::machine();
        let maps = self
            .members
            .keys()
            .map(|process| tree.text(&format!("/proc/{process}/numa_maps")));
        let known: Vec<String> = maps.filter_map(Result::ok).collect();
        let mut by_node = BTreeMap::new();
        for line in known.iter().flat_map(|text| text.lines()) {
            add_by_node(line, &mut by_node);
        }
        (!known.is_empty()).then_some(by_node)
    }

    fn add(&mut self, tree: &Tree, process: u32) -> Result<(), HostError> {
        let stat = tree.text(&format!("/proc/{process}/stat"))?;
        self.members.insert(process, total_ns(process)?);
        let times = times(&stat, ticks_a_second()).unwrap_or_default();
        self.ended_cpu_ns += times[2..].iter().sum::<u64>();
        Ok(())
    }
}

/// Adds the pages of one mapping (`numa(7)`: `7f10000 default anon=7 N0=5 N1=2 kernelpagesize_kB=4`).
fn add_by_node(mapping: &str, by_node: &mut BTreeMap<u32, u64>) {
    let words = || mapping.split(' ').filter_map(|word| word.split_once('='));
    let page = words().find(|(name, _)| *name == "kernelpagesize_kB");
    let page_bytes = page.and_then(|(_, kilobytes)| kilobytes.parse::<u64>().ok());
    let Some(page_bytes) = page_bytes.filter(|_| words().all(|(name, _)| name != "file")) else {
        return;
    };
    for (name, pages) in words() {
        let node = name.strip_prefix('N').and_then(|node| node.parse().ok());
        if let (Some(node), Ok(pages)) = (node, pages.parse::<u64>()) {
            *by_node.entry(node).or_default() += pages * page_bytes * 1024;
        }
    }
}

fn memory(tree: &Tree, process: u32) -> Option<u64> {
    match tree.text(&format!("/proc/{process}/smaps_rollup")) {
        // Since Linux 5.4 (`proc_pid_smaps(5)`).
        Ok(rollup) => Some(kibibytes(&rollup, "Pss_Anon")? + kibibytes(&rollup, "Pss_Shmem")?),
        // A process that has ended, is about to end (`ESRCH`, before it is a zombie), or waits to be reaped, holds
        // none.
        Err(HostError::Read { cause, .. })
            if cause.kind() == ErrorKind::NotFound || cause.raw_os_error() == Some(libc::ESRCH) =>
        {
            Some(0)
        }
        Err(_) => {
            let stat = tree.text(&format!("/proc/{process}/stat"));
            let lives = stat.is_ok_and(|stat| after_name(&stat).next() != Some("Z"));
            (!lives).then_some(0)
        }
    }
}

/// A process and its living descendants.
///
/// # Errors
///
/// [`HostError::Read`] if there is no such process.
pub fn with_descendants(process: u32) -> Result<Vec<u32>, HostError> {
    let tree = Tree::machine();
    tree.text(&format!("/proc/{process}/stat"))?;
    let mut family = vec![process];
    family.extend(descendants(process, &parents(&tree)?));
    Ok(family)
}

/// The living descendants of `process`.
fn descendants(process: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents
            .iter()
            .filter(|(child, of)| **of == parent && !found.contains(child));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        found.extend(children);
        next += 1;
    }
    found.split_off(1)
}

/// Every visible process and its parent: the second field after the name in `/proc/PID/stat`.
fn parents(tree: &Tree) -> Result<BTreeMap<u32, u32>, HostError> {
    let parent = |process: u32| {
        let stat = tree.text(&format!("/proc/{process}/stat")).ok()?;
        Some((process, after_name(&stat).nth(1)?.parse().ok()?))
    };
    Ok(tree
        .numbers("/proc", "")?
        .into_iter()
        .filter_map(parent)
        .collect())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::tree::recorded::Recorded;

    #[test]
    fn descendants_are_found_through_every_generation_and_no_further() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 5), (7, 7)]);
        assert_eq!(descendants(2, &parents), [3, 4]);
        assert_eq!(descendants(1, &parents), [2, 5, 3, 6, 4]);
        assert_eq!(descendants(7, &parents), [0; 0]);
    }

    #[test]
    fn time_of_ended_children_and_own_memory_are_read() {
        let stat = "77 (a) b) S 1 77 77 0 -1 4194560 1 2 3 4 250 13 30 12 20 0 1 0 100 0 0";
        let ended = times(stat, 100).map(|times| times[2] + times[3]);
        assert_eq!(ended, Some(420_000_000));
        assert_eq!(times("77 (a) S 1", 100), None);
        let rollup = "1-2 [rollup]\nRss: 9 kB\nPss_Anon:   112 kB\nPss_File: 156 kB\nPss_Shmem:  8 kB\n";
        let machine = Recorded::new([
            ("/proc/7/smaps_rollup", rollup),
            ("/proc/8/smaps_rollup", "Rss: 9 kB\n"),
        ]);
        assert_eq!(memory(&machine.tree(), 7), Some(120 * 1024));
        assert_eq!(memory(&machine.tree(), 8), None);
    }

    #[test]
    fn a_shell_counts_with_its_children_and_their_time_after_they_ended() {
        let script = "(i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done); sleep 60 & echo ready; read line; kill $!; wait $!";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let family = Family::read(shell.id()).unwrap();
        let memory = family.memory_bytes().unwrap();
        let below = Family::below(shell.id()).unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(family.members.len(), 2, "the shell and the sleep: {family:?}");
        assert!(family.cpu_ns() > 0 && memory > 0);
        assert!(family.members.contains_key(&shell.id()) && !below.members.contains_key(&shell.id()));
        assert_eq!(below.ended_cpu_ns, family.ended_cpu_ns);
        assert_eq!(family.memory_bytes(), Some(0), "now that it has ended");
        assert!(Family::read(u32::MAX).is_err());
    }

    #[test]
    fn memory_by_node_leaves_files_out_and_counts_huge_pages_whole() {
        let mut by_node = BTreeMap::new();
        for mapping in [
            "7f10000 default anon=7 dirty=7 N0=5 N1=2 kernelpagesize_kB=4",
            "7f20000 bind:1 huge anon=1 dirty=1 N1=1 kernelpagesize_kB=2048",
            "7f30000 default file=/lib/N9=9 mapped=7 N0=7 kernelpagesize_kB=4",
            "7f40000 default",
        ] {
            add_by_node(mapping, &mut by_node);
        }
        let page = 4096;
        assert_eq!(
            by_node,
            BTreeMap::from([(0, 5 * page), (1, 2 * page + (2 << 20))])
        );
    }
}
