//! Conditions of the processor: stable clock rate, shared cores, cost of a system call.

use std::collections::BTreeSet;

use super::condition::{About, Condition, Severity};
use crate::HostError;
use crate::tree::Tree;

const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";

/// The processor's name, from `/proc/cpuinfo`. Arm kernels do not write one there.
pub(super) fn model(tree: &Tree) -> Result<String, HostError> {
    const CPUINFO: &str = "/proc/cpuinfo";
    let text = tree.text(CPUINFO)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let named = lines.find(|(key, _)| matches!(key.trim(), "model name" | "cpu model" | "Model"));
    named
        .map(|(_, name)| name.trim().to_owned())
        .ok_or_else(|| HostError::missing(CPUINFO, "model name"))
}

pub(super) fn conditions(tree: &Tree) -> Vec<Condition> {
    vec![
        turbo(tree),
        governor(tree),
        smt(tree),
        mitigations(tree),
        clock_source(tree),
    ]
}

/// The state of a switch file: its text for on, its text for off.
fn switch(text: &str, on: &str, off: &str, severity: Severity) -> Result<(&'static str, Severity), String> {
    match text {
        text if text == on => Ok(("on", severity)),
        text if text == off => Ok(("off", Severity::Fine)),
        other => Err(format!("the file reads {other:?}")),
    }
}

/// Turbo boost raises the clock rate while few CPUs are busy, so one bucket runs faster than each of many.
fn turbo(tree: &Tree) -> Condition {
    // Intel's driver has its own switch with the inverse meaning (`admin-guide/pm/intel_pstate.rst`, `cpufreq.rst`).
    let switches = [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")];
    let shown = switches.iter().find_map(|(file, on, off)| {
        let path = format!("{CPU_DIRECTORY}/{file}");
        let text = tree.text(&path).ok()?;
        Some((switch(&text, on, off, Severity::Spoils), path, *off))
    });
    let (found, source, off) = shown.unwrap_or_else(|| {
        let because = "no frequency driver shows a switch for it; under a hypervisor the host decides";
        let source = format!("{CPU_DIRECTORY}/cpufreq/boost");
        (Err(because.to_owned()), source, "")
    });
    About {
        name: "turbo",
        source: &source,
        why: "the clock is higher while few CPUs are busy, so the rate of one CPU is higher than that of each of many",
        fix: &format!("echo {off} > {source}"),
    }
    .found(found)
}

/// A governor other than `performance` lowers the clock rate while a CPU is idle and takes time to raise it.
fn governor(tree: &Tree) -> Condition {
    let directory = format!("{CPU_DIRECTORY}/cpufreq");
    let policies = tree.names(&directory).unwrap_or_default();
    let policies = policies.iter().filter(|name| name.starts_with("policy"));
    let governors: BTreeSet<String> = policies
        .filter_map(|policy| tree.text(&format!("{directory}/{policy}/scaling_governor")).ok())
        .collect();
    let governors: Vec<String> = governors.into_iter().collect();
    About {
        name: "governor",
        source: &format!("{directory}/policy*/scaling_governor"),
        why: "the clock follows the load, so a CPU that waits for frames handles them more slowly",
        fix: "cpupower frequency-set --governor performance",
    }
    .found(match &governors[..] {
        [] => Err("no frequency driver; under a hypervisor the host decides"),
        found => Ok((found.join(", "), Severity::Spoils.when(found != ["performance"]))),
    })
}

fn smt(tree: &Tree) -> Condition {
    let path = format!("{CPU_DIRECTORY}/smt/active");
    let text = tree.text(&path).map_err(|error| error.to_string());
    About {
        name: "smt",
        source: &path,
        why: "siblings share the execution units of their core, so a thread on one slows the other",
        fix: &format!("echo off > {CPU_DIRECTORY}/smt/control"),
    }
    .found(text.and_then(|text| switch(&text, "1", "0", Severity::Explains)))
}

fn mitigations(tree: &Tree) -> Condition {
    let directory = format!("{CPU_DIRECTORY}/vulnerabilities");
    let found = tree.names(&directory).map(|mut names| {
        names.retain(|name| {
            let text = tree.text(&format!("{directory}/{name}"));
            text.is_ok_and(|text| text.starts_with("Mitigation"))
        });
        match names.is_empty() {
            true => ("none".to_owned(), Severity::Fine),
            false => (names.join(", "), Severity::Explains),
        }
    });
    About {
        name: "mitigations",
        source: &directory,
        why: "mitigations of speculative execution cost time in each system call and context switch",
        fix: "",
    }
    .found(found)
}

/// A clock source outside the CPU makes each time reading slow.
fn clock_source(tree: &Tree) -> Condition {
    // These are read in user space (`admin-guide/kernel-parameters.txt`, clocksource=; vdso(7)).
    const FAST: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
    ];
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    About {
        name: "clock source",
        source,
        why: "reading the time from a device takes microseconds, twice per round trip",
        fix: "echo tsc > the same file, if available_clocksource beside it lists tsc",
    }
    .found(tree.text(source).map(|clock| {
        let severity = Severity::Spoils.when(!FAST.contains(&clock.as_str()));
        (clock, severity)
    }))
}
