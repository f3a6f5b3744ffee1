//! The interrupt of each queue, and the CPUs on which it is delivered.
//!
//! Input: `/proc/interrupts`, `/proc/irq`, the interrupts that sysfs lists for a device. Output: for each queue the
//! interrupt whose name ends in its number. Drivers use various names (`eth0-TxRx-3`, `virtio2-input.0`,
//! `mlx5_comp3@pci:0000:3b:00.0`). If the kernel's netdev family reports the interrupt, names are not used.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::Fact;
use crate::tree::Tree;

const INTERRUPTS: &str = "/proc/interrupts";

/// The interrupts of the machine by number, and their names.
pub(super) struct Interrupts {
    names: Result<BTreeMap<u32, String>, String>,
}

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKind {
    Receive,
    Transmit,
}

impl Interrupts {
    pub(super) fn read(tree: &Tree) -> Self {
        let text = tree.text(INTERRUPTS).map_err(|error| error.to_string());
        Self {
            names: text.map(|text| names(&text)),
        }
    }

    /// The name of an interrupt.
    pub(super) fn name(&self, interrupt: u32) -> Option<&str> {
        self.names.as_ref().ok()?.get(&interrupt).map(String::as_str)
    }

    /// The interrupts of a device by queue, derived from their names.
    pub(super) fn of_queues(
        &self,
        tree: &Tree,
        device: &str,
        kind: QueueKind,
    ) -> Result<BTreeMap<u32, u32>, String> {
        let names = self.names.as_ref().map_err(Clone::clone)?;
        let own = listed(tree, device);
        let (mut found, mut whole) = (BTreeMap::new(), None);
        for (number, name) in names {
            let belongs = match &own {
                Some(own) => own.contains(number),
                None => name.split(['-', ':', ' ', '@']).any(|word| word == device),
            };
            if !belongs {
                continue;
            }
            if named(name) == device {
                whole.get_or_insert(*number);
            } else if let Some(queue) = queue_of(name, device, kind) {
                // Shared interrupts are listed once, under the first number.
                found.entry(queue).or_insert(*number);
            }
        }
        // The interrupt with the device's name is that of its only queue, or beside those of queues that of its link.
        if let Some(number) = whole.filter(|_| found.is_empty()) {
            found.insert(0, number);
        }
        Ok(found)
    }
}

/// The CPUs that may receive an interrupt, and those that do. Kernels without the second file deliver to any of the
/// first.
pub(super) fn cpus(tree: &Tree, interrupt: u32) -> (Fact<Vec<u32>>, Fact<Vec<u32>>) {
    let [affinity, effective] = ["smp_affinity_list", "effective_affinity_list"].map(|file| {
        let path = format!("/proc/irq/{interrupt}/{file}");
        Fact::of(tree.list(&path), path)
    });
    match &effective.value {
        Some(cpus) if !cpus.is_empty() => (affinity, effective),
        _ => (affinity.clone(), affinity),
    }
}

/// The interrupts that sysfs lists for a device or its parent: a virtio device's are those of its PCI function.
fn listed(tree: &Tree, device: &str) -> Option<BTreeSet<u32>> {
    ["device", "device/.."].iter().find_map(|above| {
        let directory = format!("/sys/class/net/{device}/{above}/msi_irqs");
        tree.numbers(&directory, "").ok()
    })
}

/// The numbers and names in the text of `/proc/interrupts`: one column per CPU, then controller, hardware number with
/// trigger, and the names of the requesters.
fn names(text: &str) -> BTreeMap<u32, String> {
    let mut lines = text.lines();
    let columns = lines.next().map_or(0, |header| header.split_whitespace().count());
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let words: Vec<&str> = rest.split_whitespace().skip(columns + 2).collect();
        // Some controllers separate the trigger from the number (`IO-APIC   5-edge`, `GICv3  36 Level`).
        let triggers = ["Level", "Edge", "edge", "fasteoi", "None"];
        let named = words.iter().skip_while(|word| triggers.contains(word));
        Some((number, named.copied().collect::<Vec<_>>().join(" ")))
    };
    lines.filter_map(line).collect()
}

/// The name of an interrupt without the bus address of its device.
fn named(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// The queue number in an interrupt's name, if the name is of the given kind.
fn queue_of(name: &str, device: &str, kind: QueueKind) -> Option<u32> {
    let own = named(name);
    let own = own.strip_prefix(device).unwrap_or(own);
    let words = own.split(|character: char| !character.is_ascii_alphabetic());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let has = |parts: &[&str]| words.iter().any(|word| parts.contains(&word.as_str()));
    let both = has(&["txrx", "rxtx", "comp", "ntfy", "blk", "q", "queue"]) || has(&["tx"]) && has(&["rx"]);
    let wanted = match kind {
        QueueKind::Receive => has(&["rx", "input"]),
        QueueKind::Transmit => has(&["tx", "output"]),
    };
    if !both && !wanted {
        return None;
    }
    let digits = own.rsplit(|character: char| !character.is_ascii_digit());
    digits.into_iter().find(|run| !run.is_empty())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    const TEXT: &str = "           CPU0       CPU1
  37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
  38:          0      12731 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
  39:       9545          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
  50:          1          2 GICv3 36 Level     eth1
 NMI:          0          0   Non-maskable interrupts
";

    #[test]
    fn names_stand_behind_the_columns_of_cpus() {
        let expected = [
            (37, "virtio2-config"),
            (38, "virtio2-input.0"),
            (39, "virtio2-output.0"),
            (50, "eth1"),
        ];
        let expected = expected.map(|(number, name)| (number, name.to_owned()));
        assert_eq!(names(TEXT), BTreeMap::from(expected));
    }

    #[test]
    fn drivers_names_tell_their_queues() {
        let rows = [
            ("eth0-TxRx-3", Some(3), Some(3)),
            ("i40e-eth0-TxRx-12", Some(12), Some(12)),
            ("eth0-Tx-Rx-7", Some(7), Some(7)),
            ("eth0-rx-2", Some(2), None),
            ("eth0-tx-2", None, Some(2)),
            ("virtio2-input.1", Some(1), None),
            ("virtio2-output.1", None, Some(1)),
            ("mlx5_comp3@pci:0000:3b:00.0", Some(3), Some(3)),
            ("mlx5_async0@pci:0000:3b:00.0", None, None),
            ("eth0-rxtx-1", Some(1), Some(1)),
            ("eth0", None, None),
            ("virtio2-config", None, None),
            ("eth0-event-9", None, None),
            ("i40e-0000:3b:00.0:misc", None, None),
        ];
        for (name, receive, transmit) in rows {
            assert_eq!(queue_of(name, "eth0", QueueKind::Receive), receive, "{name}");
            assert_eq!(queue_of(name, "eth0", QueueKind::Transmit), transmit, "{name}");
        }
    }

    #[test]
    fn a_virtio_device_has_the_interrupts_of_what_carries_it() {
        let machine = Recorded::new([
            (INTERRUPTS, TEXT),
            ("/sys/class/net/eth0/device/x", ""),
            ("/sys/class/net/eth0/msi_irqs/38", ""),
            ("/sys/class/net/eth0/msi_irqs/39", ""),
            ("/proc/irq/38/smp_affinity_list", "0-1\n"),
            ("/proc/irq/38/effective_affinity_list", "1\n"),
            ("/proc/irq/39/smp_affinity_list", "0-1\n"),
        ]);
        let tree = machine.tree();
        let interrupts = Interrupts::read(&tree);
        let receive = interrupts.of_queues(&tree, "eth0", QueueKind::Receive).unwrap();
        assert_eq!(receive, BTreeMap::from([(0, 38)]));
        assert_eq!(cpus(&tree, 38).1.value, Some(vec![1]));
        assert_eq!(cpus(&tree, 39).1.value, Some(vec![0, 1]));
        assert!(cpus(&tree, 40).1.unknown_because.is_some());
    }

    #[test]
    fn the_interrupt_of_a_link_is_not_that_of_its_first_queue() {
        let igb =
            " 24: 1 PCI-MSI 1-edge eth0\n 25: 9 PCI-MSI 2-edge eth0-rx-0\n 26: 9 PCI-MSI 3-edge eth0-rx-1\n";
        let machine = Recorded::new([(INTERRUPTS, format!("  CPU0\n{igb}"))]);
        let interrupts = Interrupts::read(&machine.tree());
        let found = interrupts.of_queues(&machine.tree(), "eth0", QueueKind::Receive);
        assert_eq!(found, Ok(BTreeMap::from([(0, 25), (1, 26)])));
    }

    #[test]
    fn the_first_of_several_interrupts_with_the_name_of_the_device_is_its_queue() {
        let machine = Recorded::new([(
            INTERRUPTS,
            "  CPU0\n 24: 1 PCI-MSI 1-edge eth0\n 25: 9 PCI-MSI 2-edge eth0\n",
        )]);
        let interrupts = Interrupts::read(&machine.tree());
        let found = interrupts.of_queues(&machine.tree(), "eth0", QueueKind::Receive);
        assert_eq!(found, Ok(BTreeMap::from([(0, 24)])));
    }

    #[test]
    fn interrupts_that_nothing_lists_belong_to_the_device_that_they_name() {
        let machine = Recorded::new([(INTERRUPTS, TEXT)]);
        let interrupts = Interrupts::read(&machine.tree());
        let found = interrupts.of_queues(&machine.tree(), "eth1", QueueKind::Receive);
        assert_eq!(found, Ok(BTreeMap::from([(0, 50)])));
    }
}
