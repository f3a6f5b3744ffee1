//! Detects whether this machine is virtual, and under which hypervisor.

use super::condition::{About, Condition, Severity};
use crate::HostError;
use crate::tree::Tree;

/// The hypervisor's name as far as it identifies itself, or `none`.
///
/// Evidence: the `hypervisor` flag that every hypervisor sets on x86 (a reserved CPUID bit), the names in the
/// firmware's tables, the directory of Xen, and clock sources that only guests have.
pub(super) fn detect(tree: &Tree) -> Result<String, HostError> {
    let flagged = tree
        .text("/proc/cpuinfo")?
        .lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    let named = named_by_firmware(tree).or_else(|| named_by_clock(tree));
    Ok(match (named, flagged) {
        (Some(name), _) => name,
        (None, true) => "a hypervisor that does not name itself".to_owned(),
        (None, false) => "none".to_owned(),
    })
}

/// The matching condition.
pub(super) fn condition(detected: Option<&str>) -> Condition {
    let found = detected.map(|name| (name, Severity::Explains.when(name != "none")));
    About {
        name: "virtualisation",
        source: "/proc/cpuinfo flags, /sys/class/dmi/id, /sys/hypervisor, clock sources",
        why: "a hypervisor controls the clock, shares caches, and makes interrupts and idling more expensive",
        fix: "measure on a physical machine if possible",
    }
    .found(found.ok_or("/proc/cpuinfo cannot be read"))
}

fn named_by_firmware(tree: &Tree) -> Option<String> {
    if let Ok(kind) = tree.text("/sys/hypervisor/type") {
        return Some(kind);
    }
    // Vendor or product names that common hypervisors write into the firmware tables of their guests.
    const KNOWN: [(&str, &str); 8] = [
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Virtual Machine", "Hyper-V"),
        ("Xen", "Xen"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google", "Google Compute Engine"),
    ];
    let texts = ["sys_vendor", "product_name"].map(|file| tree.text(&format!("/sys/class/dmi/id/{file}")));
    let named = |text: String| KNOWN.iter().find(|(part, _)| text.contains(part));
    let known = texts.into_iter().flatten().find_map(named);
    known.map(|(_, name)| (*name).to_owned())
}

fn named_by_clock(tree: &Tree) -> Option<String> {
    let clocks = tree
        .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .ok()?;
    let name = |clock: &str| match clock {
        "kvm-clock" => Some("KVM"),
        "xen" => Some("Xen"),
        _ if clock.starts_with("hyperv") => Some("Hyper-V"),
        _ => None,
    };
    clocks.split_whitespace().find_map(name).map(str::to_owned)
}
