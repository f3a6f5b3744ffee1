//! The control groups of a process in the file system, version 1 or 2.
//!
//! Input: `/proc/PID/cgroup`, `/proc/self/mountinfo`, and the name of a controller. Output: the directories of the
//! controller's files, from the process's own group to the visible root.

use std::path::Path;

use crate::tree::Tree;

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// The directory of its files.
    pub(crate) directory: String,
    /// Whether its interface is version 2.
    pub(crate) unified: bool,
}

impl Group {
    /// The text of one of its files; `None` if it cannot be read.
    pub(crate) fn text(&self, tree: &Tree, file: &str) -> Option<String> {
        tree.text(&format!("{}/{file}", self.directory)).ok()
    }

    /// The number in one of its files; `None` for no limit (`max`, or -1), and if it cannot be read.
    pub(crate) fn number(&self, tree: &Tree, file: &str) -> Option<u64> {
        self.text(tree, file)?.parse().ok()
    }
}

/// The groups of `process` (a number, or `self`) that `controller` may limit, from its own to the visible root. Empty if
/// none is visible.
pub(crate) fn groups(tree: &Tree, process: &str, controller: &str) -> Vec<Group> {
    let text = |path: &str| tree.text(path).unwrap_or_default();
    let (own, mounts) = (
        text(&format!("/proc/{process}/cgroup")),
        text("/proc/self/mountinfo"),
    );
    let memberships = own.lines().filter_map(|line| Membership::parse(line, controller));
    let groups = memberships.filter_map(|membership| {
        let (mount_point, group) = mounts.lines().find_map(|line| place(line, &membership))?;
        Some(Path::new(group).ancestors().map(move |ancestor| {
            let relative = ancestor.to_string_lossy();
            let directory = format!("{mount_point}/{}", relative.trim_start_matches('/'));
            Group {
                directory: directory.trim_end_matches('/').to_owned(),
                unified: membership.unified,
            }
        }))
    });
    groups.flatten().collect()
}

/// One line of `/proc/PID/cgroup` (`cgroups(7)`).
struct Membership<'a> {
    /// Whether its interface is version 2, where any controller may be in use.
    unified: bool,
    controller: &'a str,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str, controller: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let unified = hierarchy == "0" && controllers.is_empty();
        let limits = unified || controllers.split(',').any(|name| name == controller);
        limits.then_some(Self {
            unified,
            controller,
            path,
        })
    }
}

/// `(mount point, the group's path below it)` if this line of `mountinfo` mounts the membership's hierarchy.
///
/// Fields by `proc_pid_mountinfo(5)`: the fourth is the part of the hierarchy that is mounted, the fifth the mount
/// point; after a lone `-` come type, source and the super block's options.
fn place<'a>(line: &'a str, membership: &Membership<'a>) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
    let has = |options: &str| options.split(',').any(|option| option == membership.controller);
    let matches = match (membership.unified, after.next()?) {
        (true, kind) => kind == "cgroup2",
        (false, kind) => kind == "cgroup" && has(after.nth(1)?),
    };
    let (root, mount_point) = (before.next()?, before.next()?);
    // In a container the mounted part is the group itself, or the path is relative to an outer root ("/../..").
    let below = membership.path.strip_prefix(root.trim_end_matches('/'));
    let below = below.filter(|below| !below.contains("..") && !below.is_empty());
    matches.then_some((mount_point, below.unwrap_or("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    #[test]
    fn each_controller_has_its_groups_below_its_own_mount() {
        let machine = Recorded::new([
            (
                "/proc/7/cgroup",
                "5:memory:/job/a\n4:cpu,cpuacct:/docker/a1\n0::/slice\n",
            ),
            (
                "/proc/self/mountinfo",
                "33 24 0:29 /docker/a1 /cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 34 24 0:30 / /cgroup/memory rw - cgroup cgroup rw,memory\n\
                 35 24 0:31 / /cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let directories = |controller: &str| -> Vec<String> {
            let groups = groups(&machine.tree(), "7", controller);
            groups.into_iter().map(|group| group.directory).collect()
        };
        let unified = ["/cgroup/unified/slice", "/cgroup/unified"];
        assert_eq!(
            directories("cpu"),
            [&["/cgroup/cpu,cpuacct"], &unified[..]].concat()
        );
        let memory = ["/cgroup/memory/job/a", "/cgroup/memory/job", "/cgroup/memory"];
        assert_eq!(directories("memory"), [&memory[..], &unified].concat());
        assert_eq!(
            groups(&machine.tree(), "8", "cpu"),
            [],
            "there is no such process"
        );
    }
}
