//! Conditions in recorded snapshots of other machines, and of this machine.

use super::*;
use crate::tree::recorded::Recorded;

/// A server in its default state: two CPUs of one core, turbo on, debugging off.
fn server() -> Recorded {
    Recorded::new([
        (
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu\n",
        ),
        ("/proc/meminfo", "MemTotal:       16384 kB\n"),
        ("/proc/loadavg", "0.05 0.23 0.12 1/87 6993\n"),
        (
            "/proc/stat",
            "cpu0 1000 0 0 9000 0 0 0 0\ncpu1 0 0 0 10000 0 0 0 0\nprocs_running 1\n",
        ),
        ("/proc/sys/kernel/osrelease", "6.1.0\n"),
        ("/boot/config-6.1.0", "CONFIG_SMP=y\n"),
        ("/proc/thread-self/status", "Cpus_allowed_list:\t0-1\n"),
        (
            "/proc/thread-self/net/packet",
            "sk RefCnt Type Proto Iface R Rmem User Inode\n",
        ),
        ("/proc/sys/net/core/rmem_max", "212992\n"),
        ("/proc/sys/net/core/wmem_max", "212992\n"),
        ("/proc/sys/net/core/netdev_max_backlog", "1000\n"),
        ("/proc/sys/net/core/netdev_budget", "300\n"),
        ("/proc/sys/net/core/optmem_max", "131072\n"),
        ("/proc/sys/net/core/bpf_jit_enable", "1\n"),
        ("/proc/sys/net/core/busy_poll", "0\n"),
        ("/proc/sys/net/core/busy_read", "0\n"),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        (
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "performance\n",
        ),
        (
            "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            "performance\n",
        ),
        ("/sys/devices/system/cpu/smt/active", "1\n"),
        (
            "/sys/devices/system/cpu/vulnerabilities/meltdown",
            "Not affected\n",
        ),
        (
            "/sys/devices/system/cpu/vulnerabilities/spectre_v1",
            "Mitigation: barriers\n",
        ),
        ("/sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
        (
            "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
            "0-1\n",
        ),
        ("/sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
        ("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
        (
            "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
            "0-1\n",
        ),
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc\n",
        ),
        ("/sys/class/net/eth9/queues/rx-0/rps_cpus", "0\n"),
        ("/sys/class/net/eth9/queues/rx-1/rps_cpus", "3\n"),
    ])
}

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Condition {
    snapshot
        .conditions
        .iter()
        .find(|condition| condition.name == name)
        .unwrap_or_else(|| panic!("no condition {name}"))
}

/// Name, value and severity of every condition that is not fine.
fn not_fine(snapshot: &Snapshot) -> Vec<(&str, Option<&str>, Severity)> {
    snapshot
        .conditions
        .iter()
        .filter(|condition| condition.severity != Severity::Fine)
        .map(|condition| {
            (
                condition.name.as_str(),
                condition.value.as_deref(),
                condition.severity,
            )
        })
        .collect()
}

#[test]
fn the_facts_of_a_machine_are_read() {
    let snapshot = snapshot_in(&server().tree(), &[]);
    assert_eq!(snapshot.kernel.as_deref(), Some("6.1.0"));
    assert_eq!(snapshot.cpu_model.as_deref(), Some("Xeon"));
    assert_eq!(snapshot.cpus_online, Some(vec![0, 1]));
    assert_eq!(snapshot.cpus_allowed, Some(vec![0, 1]));
    assert_eq!(snapshot.nodes, Some(1));
    assert_eq!(snapshot.memory_bytes, Some(16 << 20));
    assert_eq!(snapshot.virtualisation.as_deref(), Some("none"));
    assert!(snapshot.unknown.is_empty(), "{:?}", snapshot.unknown);
}

#[test]
fn what_spoils_stands_before_what_explains() {
    let snapshot = snapshot_in(&server().tree(), &[]);
    assert_eq!(
        not_fine(&snapshot),
        [
            ("turbo", Some("on"), Severity::Spoils),
            ("smt", Some("on"), Severity::Explains),
            ("mitigations", Some("spectre_v1"), Severity::Explains),
            ("throttling", None, Severity::Explains),
            ("net.core.rmem_max", Some("212992"), Severity::Explains),
        ]
    );
    assert_eq!(
        find(&snapshot, "turbo").fix.as_deref(),
        Some("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")
    );
    let spoils = |condition: &&Condition| condition.severity == Severity::Spoils;
    assert_eq!(snapshot.conditions.iter().filter(spoils).count(), 1);
}

/// A file, its new content, the condition that it changes, and the severity that results.
type Change = (&'static str, &'static str, &'static str, Severity);

const CHANGES: [Change; 14] = [
    (
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "1",
        "turbo",
        Severity::Fine,
    ),
    (
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "x",
        "turbo",
        Severity::Explains,
    ),
    (
        "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
        "powersave",
        "governor",
        Severity::Spoils,
    ),
    ("/sys/devices/system/cpu/smt/active", "0", "smt", Severity::Fine),
    (
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet",
        "clock source",
        Severity::Spoils,
    ),
    (
        "/sys/devices/system/clocksource/clocksource0/available_clocksource",
        "tsc kvm-clock",
        "virtualisation",
        Severity::Explains,
    ),
    (
        "/proc/cpuinfo",
        "flags\t: fpu hypervisor",
        "virtualisation",
        Severity::Explains,
    ),
    (
        "/sys/class/dmi/id/sys_vendor",
        "QEMU",
        "virtualisation",
        Severity::Explains,
    ),
    (
        "/proc/stat",
        "cpu0 100 0 0 880 0 0 0 20\nprocs_running 1",
        "steal",
        Severity::Spoils,
    ),
    (
        "/proc/loadavg",
        "1.50 0 0 1/9 9",
        "load from others",
        Severity::Explains,
    ),
    (
        "/proc/thread-self/status",
        "Cpus_allowed_list:\t1",
        "affinity",
        Severity::Explains,
    ),
    (
        "/boot/config-6.1.0",
        "CONFIG_LOCK_STAT=y",
        "kernel debug options",
        Severity::Spoils,
    ),
    (
        "/proc/sys/net/core/busy_poll",
        "50",
        "net.core.busy_poll",
        Severity::Explains,
    ),
    (
        "/proc/sys/net/core/rmem_max",
        "4194304",
        "net.core.rmem_max",
        Severity::Fine,
    ),
];

#[test]
fn each_of_these_turns_a_condition() {
    for (path, text, name, severity) in CHANGES {
        let machine = server();
        machine.write(path, text);
        let snapshot = snapshot_in(&machine.tree(), &[]);
        assert_eq!(find(&snapshot, name).severity, severity, "{path} = {text}");
    }
}

#[test]
fn others_that_run_while_the_machine_is_loaded_spoil() {
    let machine = server();
    machine.write("/proc/loadavg", "1.50 0 0 1/9 9");
    machine.write("/proc/stat", "cpu0 100 0 0 880 0 0 0 0\nprocs_running 3");
    let snapshot = snapshot_in(&machine.tree(), &[]);
    let load = find(&snapshot, "load from others");
    assert_eq!(load.severity, Severity::Spoils);
    assert!(
        load.value.as_deref().unwrap().contains("2 other threads"),
        "{load:?}"
    );
}

#[test]
fn a_quota_below_the_cpus_spoils() {
    let machine = server();
    machine.write("/proc/self/cgroup", "0::/\n");
    machine.write(
        "/proc/self/mountinfo",
        "29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    machine.write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    let snapshot = snapshot_in(&machine.tree(), &[]);
    assert_eq!(snapshot.cgroup_quota_cpus, Some(1.5));
    let quota = find(&snapshot, "cgroup quota");
    let fix = Some("echo max > /sys/fs/cgroup/cpu.max");
    assert_eq!((quota.severity, quota.fix.as_deref()), (Severity::Spoils, fix));
}

#[test]
fn a_quota_of_version_one_has_its_own_file_and_value() {
    let machine = server();
    machine.write("/proc/self/cgroup", "3:cpu,cpuacct:/job\n");
    machine.write(
        "/proc/self/mountinfo",
        "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    );
    machine.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "20000");
    machine.write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
    let snapshot = snapshot_in(&machine.tree(), &[]);
    let quota = find(&snapshot, "cgroup quota");
    let fix = Some("echo -1 > /sys/fs/cgroup/cpu/job/cpu.cfs_quota_us");
    assert_eq!(
        (quota.value.as_deref(), quota.fix.as_deref()),
        (Some("0.20 CPUs"), fix)
    );
}

#[test]
fn rps_names_the_cpus_of_all_queues() {
    let snapshot = snapshot_in(&server().tree(), &["eth9".to_owned()]);
    let rps = find(&snapshot, "rps of eth9");
    assert_eq!(rps.value.as_deref(), Some("to CPUs 0-1"));
    // The device exists on the recorded machine but not on this one, so facts read over netlink are absent with a
    // reason.
    let offloads = find(&snapshot, "offloads of eth9");
    assert_eq!(offloads.value, None);
    assert!(offloads.unknown_because.as_deref().unwrap().contains("eth9"));
}

#[test]
fn a_capture_of_all_protocols_spoils_the_devices_it_sees() {
    // The loopback device has index 1 in every namespace.
    let machine = server();
    let cases = [
        ("1 3 3 0003 1 1 0 0 1", "1", Severity::Spoils),
        ("1 3 3 0003 0 1 0 0 1", "1", Severity::Spoils),
        ("1 3 3 0003 2 1 0 0 1", "0", Severity::Fine),
        ("1 3 3 0806 1 1 0 0 1", "0", Severity::Fine),
    ];
    for (line, count, severity) in cases {
        machine.write("/proc/thread-self/net/packet", &format!("header\n{line}\n"));
        let snapshot = snapshot_in(&machine.tree(), &["lo".to_owned()]);
        let captures = find(&snapshot, "captures of lo");
        assert_eq!(
            (captures.value.as_deref(), captures.severity),
            (Some(count), severity),
            "{line}"
        );
    }
}

#[test]
fn a_machine_that_shows_nothing_gives_reasons_and_no_error() {
    let nothing = Recorded::new([("/proc/empty", "")]);
    let snapshot = snapshot_in(&nothing.tree(), &["eth9".to_owned()]);
    assert_eq!((snapshot.kernel, snapshot.cpus_online), (None, None));
    for fact in [
        "kernel",
        "cpus_online",
        "cpus_allowed",
        "cpu_model",
        "virtualisation",
        "memory_bytes",
    ] {
        assert!(snapshot.unknown[fact].contains("cannot read"), "{fact}");
    }
    for condition in &snapshot.conditions {
        assert_eq!(
            condition.value.is_none(),
            condition.unknown_because.is_some(),
            "{condition:?}"
        );
        // Heat that nobody measures shows in the throttling, which is a condition of its own.
        let shows_elsewhere = ["temperature", "fan", "power"].contains(&condition.name.as_str());
        let expected = Severity::Explains.when(!shows_elsewhere);
        assert_eq!(condition.severity, expected, "{condition:?}");
    }
}

#[test]
fn a_condition_added_again_replaces_the_earlier_one() {
    let mut snapshot = snapshot_in(&server().tree(), &[]);
    let before = snapshot.conditions.len();
    let about = About {
        name: "smt",
        source: "a test",
        why: "why",
        fix: "fix",
    };
    let spoilt = about.found(Ok::<_, String>(("on", Severity::Spoils)));
    snapshot.add(vec![spoilt.clone()]);
    assert_eq!(snapshot.conditions.len(), before);
    assert_eq!(snapshot.conditions[1], spoilt);
}

#[test]
fn a_snapshot_survives_json() {
    let snapshot = snapshot(&["lo".to_owned()]);
    let json = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(value["conditions"][0]["severity"].is_string());
}

#[test]
fn this_machine_shows_its_cpus_and_its_loopback_device() {
    let snapshot = snapshot(&["lo".to_owned()]);
    assert!(snapshot.kernel.is_some() && snapshot.cpus_online.is_some());
    assert_eq!(
        find(&snapshot, "flow control of lo").value.as_deref(),
        Some("the device has none")
    );
    assert!(
        find(&snapshot, "offloads of lo")
            .value
            .as_deref()
            .unwrap()
            .contains("gso")
    );
}
