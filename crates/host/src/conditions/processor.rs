//! Conditions of the processor: does its clock hold still, do its threads share a core, what does a system call cost.

use super::{Condition, Severity};
use crate::HostError;
use crate::tree::Tree;

const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";

/// The processor's own name, from `/proc/cpuinfo`. Arm kernels write none there.
pub(super) fn model(tree: &Tree) -> Result<String, HostError> {
    const CPUINFO: &str = "/proc/cpuinfo";
    let text = tree.text(CPUINFO)?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| matches!(key.trim(), "model name" | "cpu model" | "Model"))
        .map(|(_, name)| name.trim().to_owned())
        .ok_or_else(|| HostError::Missing {
            place: CPUINFO,
            what: "model name".to_owned(),
        })
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

/// Turbo boost raises the clock while few CPUs are busy, so that one bucket runs faster than each of many.
fn turbo(tree: &Tree) -> Condition {
    const NAME: &str = "turbo";
    const WHY: &str =
        "the clock is higher while few CPUs are busy, so a rate at one CPU is not that of each of many";
    // Intel's driver has a switch of its own that means the opposite (`admin-guide/pm/intel_pstate.rst`, `cpufreq.rst`).
    let switches = [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")];
    for (file, on, off) in switches {
        let path = format!("{CPU_DIRECTORY}/{file}");
        let Ok(text) = tree.text(&path) else { continue };
        return match text.as_str() {
            set if set == on => Condition::known(NAME, "on", path.as_str(), WHY)
                .rated(Severity::Spoils, format!("echo {off} > {path}")),
            set if set == off => Condition::known(NAME, "off", path, WHY),
            other => Condition::unknown(NAME, format!("the file reads {other:?}"), path, WHY),
        };
    }
    Condition::unknown(
        NAME,
        "no frequency driver shows a switch for it; under a hypervisor the host decides",
        format!("{CPU_DIRECTORY}/cpufreq/boost"),
        WHY,
    )
}

/// A governor other than `performance` lowers the clock while a CPU waits, and takes time to raise it.
fn governor(tree: &Tree) -> Condition {
    const NAME: &str = "governor";
    const WHY: &str = "the clock follows the load, so a CPU that waits for frames handles them more slowly";
    let source = format!("{CPU_DIRECTORY}/cpufreq/policy*/scaling_governor");
    let mut governors: Vec<String> = tree
        .names(&format!("{CPU_DIRECTORY}/cpufreq"))
        .unwrap_or_default()
        .iter()
        .filter(|name| name.starts_with("policy"))
        .filter_map(|policy| {
            tree.text(&format!("{CPU_DIRECTORY}/cpufreq/{policy}/scaling_governor"))
                .ok()
        })
        .collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        return Condition::unknown(
            NAME,
            "no frequency driver; under a hypervisor the host decides",
            source,
            WHY,
        );
    }
    let condition = Condition::known(NAME, governors.join(", "), source, WHY);
    if governors == ["performance"] {
        condition
    } else {
        condition.rated(Severity::Spoils, "cpupower frequency-set --governor performance")
    }
}

fn smt(tree: &Tree) -> Condition {
    const NAME: &str = "smt";
    const WHY: &str = "siblings share the units of their core, so what runs on one slows the other; two of them are not two CPUs";
    let path = format!("{CPU_DIRECTORY}/smt/active");
    match tree.text(&path).as_deref() {
        Ok("1") => Condition::known(NAME, "on", path, WHY).rated(
            Severity::Explains,
            format!("echo off > {CPU_DIRECTORY}/smt/control"),
        ),
        Ok("0") => Condition::known(NAME, "off", path, WHY),
        Ok(other) => Condition::unknown(NAME, format!("the file reads {other:?}"), path, WHY),
        Err(error) => Condition::unknown(NAME, error, path, WHY),
    }
}

fn mitigations(tree: &Tree) -> Condition {
    const NAME: &str = "mitigations";
    const WHY: &str = "defences against speculative execution cost time in each system call and switch";
    let directory = format!("{CPU_DIRECTORY}/vulnerabilities");
    let names = match tree.names(&directory) {
        Ok(names) => names,
        Err(error) => return Condition::unknown(NAME, error, directory, WHY),
    };
    let active: Vec<String> = names
        .into_iter()
        .filter(|name| {
            tree.text(&format!("{directory}/{name}"))
                .is_ok_and(|text| text.starts_with("Mitigation"))
        })
        .collect();
    if active.is_empty() {
        Condition::known(NAME, "none", directory, WHY)
    } else {
        Condition::known(NAME, active.join(", "), directory, WHY).lasting(Severity::Explains)
    }
}

/// A clock source outside the CPU makes each reading of the time a slow one.
fn clock_source(tree: &Tree) -> Condition {
    const NAME: &str = "clock source";
    const WHY: &str =
        "reading the time from a device takes microseconds, and every round trip reads it twice";
    // These are read without leaving user space (`admin-guide/kernel-parameters.txt`, clocksource=; vdso(7)).
    const FAST: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
    ];
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match tree.text(path) {
        Ok(source) => {
            let condition = Condition::known(NAME, &source, path, WHY);
            if FAST.contains(&source.as_str()) {
                condition
            } else {
                condition.rated(
                    Severity::Spoils,
                    "echo tsc > the same file, if available_clocksource beside it lists tsc",
                )
            }
        }
        Err(error) => Condition::unknown(NAME, error, path, WHY),
    }
}
