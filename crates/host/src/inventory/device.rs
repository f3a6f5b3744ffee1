//! All facts about one device.
//!
//! Input: its name and the kernel's link attributes. Output: a [`Device`]. Facts that the driver does not support, that
//! need privilege, or that disappeared while being read have no value but a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::queues::{self, ReceiveQueue, Sources, TransmitQueue};
use super::software_rss::SoftwareRss;
use crate::HostError;
use crate::ethtool::ioctl::{Driver, Ioctl};
use crate::ethtool::{Channels, Coalescing, ETHTOOL, Ethtool, Field, FlowType, Pause, Rings, Rss, Rules};
use crate::fact::Fact;
use crate::netlink::links::Link;
use crate::tree::{Tree, setting_path};

/// A device of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Link attributes, over routing netlink.
    pub link: Link,
    /// Its addresses with the prefix of the link, over routing netlink.
    pub addresses: Vec<IpNet>,
    /// The driver.
    pub driver: Fact<Driver>,
    /// The node it is attached to.
    pub node: Fact<u32>,
    /// The queues: current and maximum.
    pub channels: Fact<Channels>,
    /// The ring sizes.
    pub rings: Fact<Rings>,
    /// Interrupt coalescing.
    pub coalescing: Fact<Coalescing>,
    /// Its hash, key and indirection table.
    pub rss: Fact<Rss>,
    /// The additional contexts that rules send flows to.
    pub contexts: Fact<Vec<Rss>>,
    /// The hashed fields of each flow type; unreported types are omitted if any is reported.
    pub fields: Fact<BTreeMap<FlowType, Vec<Field>>>,
    /// The rules that take precedence over the table.
    pub rules: Fact<Rules>,
    /// The receive queues.
    pub receive_queues: Vec<ReceiveQueue>,
    /// The transmit queues.
    pub transmit_queues: Vec<TransmitQueue>,
    /// The active offloads, by the kernel's names.
    pub features: Fact<BTreeSet<String>>,
    /// Flow control.
    pub pause: Fact<Pause>,
    /// The driver's private flags that are on.
    pub private_flags: Fact<BTreeSet<String>>,
    /// Frames up to this many bytes are copied on receive.
    pub rx_copybreak: Fact<u32>,
    /// How `corelane rss` steers its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software_rss: Option<SoftwareRss>,
}

impl Device {
    /// Whether it is hardware or emulated hardware, whose queues are worth steering: some queue has an interrupt, or
    /// the driver reports channels. The kernel's virtual devices (veth, loopback, bridges) have neither.
    #[must_use]
    pub fn has_hardware(&self) -> bool {
        let mut queues = self.receive_queues.iter();
        let interrupts = queues.any(|queue| queue.interrupt.value.is_some());
        let driver = self.driver.value.as_ref();
        self.link.kind.is_none() && interrupts || driver.is_some_and(|driver| driver.bus.contains(':'))
    }

    /// Whether the driver may steer flows to the CPU of their readers (accelerated RFS).
    pub(crate) fn accelerates_rfs(&self) -> bool {
        let flows = |queue: &ReceiveQueue| queue.rfs_flows.value.unwrap_or(0);
        self.feature("rx-ntuple-filter") == Some(true)
            && self.receive_queues.iter().any(|queue| flows(queue) > 0)
    }

    /// Whether a feature is on, by the kernel's name; `None` if unknown.
    #[must_use]
    pub fn feature(&self, name: &str) -> Option<bool> {
        let features = self.features.value.as_ref()?;
        Some(features.contains(name))
    }

    /// The hashed fields of a flow type, if reported.
    pub(crate) fn hashed_fields(&self, flow_type: FlowType) -> Option<&Vec<Field>> {
        self.fields.value.as_ref()?.get(&flow_type)
    }

    pub(crate) fn receive_queue(&self, queue: u32) -> Option<&ReceiveQueue> {
        self.receive_queues.iter().find(|own| own.queue == queue)
    }

    /// Each fact that could not be read, with the reason. Facts that the driver does not support are not included.
    #[must_use]
    pub fn unknown(&self) -> Vec<(&'static str, &str)> {
        let mut facts = vec![
            ("driver", &self.driver.unknown_because),
            ("node", &self.node.unknown_because),
            ("channels", &self.channels.unknown_because),
            ("rings", &self.rings.unknown_because),
            ("coalescing", &self.coalescing.unknown_because),
            ("rss", &self.rss.unknown_because),
            ("contexts", &self.contexts.unknown_because),
            ("fields", &self.fields.unknown_because),
            ("rules", &self.rules.unknown_because),
            ("features", &self.features.unknown_because),
            ("pause", &self.pause.unknown_because),
            ("private flags", &self.private_flags.unknown_because),
            ("rx_copybreak", &self.rx_copybreak.unknown_because),
        ];
        for queue in &self.receive_queues {
            facts.extend([
                ("napi", &queue.napi.unknown_because),
                ("interrupt", &queue.interrupt.unknown_because),
                ("interrupt CPUs", &queue.cpus.unknown_because),
                ("napi thread", &queue.napi_thread.unknown_because),
                ("rps", &queue.rps_cpus.unknown_because),
                ("rfs", &queue.rfs_flows.unknown_because),
            ]);
        }
        let unknown = facts.into_iter();
        let mut unknown: Vec<_> = unknown
            .filter_map(|(name, because)| Some((name, because.as_deref()?)))
            .collect();
        unknown.dedup();
        unknown
    }
}

/// The key of drivers that call `netdev_rss_key_fill`, which copies as many of its first bytes as the hardware takes.
const KERNEL_KEY: &str = "net.core.netdev_rss_key";

/// The hexadecimal digits of the 40 bytes that drivers of [`HAS_KERNEL_KEY`] take (`igb_setup_mrqc`: ten registers).
const KERNEL_KEY_DIGITS: usize = 80;

/// Drivers that set the kernel's key and do not report it (`igb_setup_mrqc`).
const HAS_KERNEL_KEY: [&str; 1] = ["igb"];

/// Queries all sources about the device.
pub(super) fn device(sources: &mut Sources<'_>, name: &str, link: Link, addresses: Vec<IpNet>) -> Device {
    let (receive_queues, transmit_queues) = queues::queues(sources, name, &link);
    let mut ethtool = Ethtool::open();
    let calls = Ioctl::open();
    let driver = call(&calls, "ETHTOOL_GDRVINFO", |calls| calls.driver(name));
    let mut rss = unless_empty(
        call(&calls, "ETHTOOL_GRSSH", |calls| calls.rss(name, 0)),
        |rss| !rss.key.is_empty() || !rss.table.is_empty(),
        "the driver reports neither key nor table",
    );
    if driver
        .value
        .as_ref()
        .is_some_and(|driver| HAS_KERNEL_KEY.contains(&driver.name.as_str()))
    {
        add_kernel_key(&mut rss, sources.tree);
    }
    let programs = link.xdp.as_ref().map(|xdp| &xdp.programs[..]);
    Device {
        software_rss: programs.and_then(|programs| SoftwareRss::of(sources.tree, programs)),
        driver,
        node: node(sources, name),
        channels: ask(&mut ethtool, |ethtool| ethtool.channels(name)),
        rings: ask(&mut ethtool, |ethtool| ethtool.rings(name)),
        coalescing: ask(&mut ethtool, |ethtool| ethtool.coalescing(name)),
        contexts: contexts(&mut ethtool, &calls, name, &rss),
        rss,
        fields: unless_empty(
            call(&calls, "ETHTOOL_GRXFH", |calls| fields(calls, name)),
            |fields| fields.values().any(|own| !own.is_empty()),
            "the driver reports no hashed fields",
        ),
        rules: call(&calls, "ETHTOOL_GRXCLSRLALL", |calls| calls.rules(name)),
        receive_queues,
        transmit_queues,
        features: ask(&mut ethtool, |ethtool| ethtool.features(name).map(Some)),
        pause: ask(&mut ethtool, |ethtool| ethtool.pause(name)),
        private_flags: ask(&mut ethtool, |ethtool| ethtool.private_flags(name)),
        rx_copybreak: call(&calls, "ETHTOOL_GTUNABLE", |calls| calls.rx_copybreak(name)),
        name: name.to_owned(),
        link,
        addresses,
    }
}

fn ask<T>(
    ethtool: &mut Result<Ethtool, HostError>,
    question: impl Fn(&mut Ethtool) -> Result<Option<T>, HostError>,
) -> Fact<T> {
    match ethtool.as_mut().map(question) {
        Ok(Ok(Some(value))) => Fact::known(value, ETHTOOL),
        Ok(Ok(None)) => Fact::unsupported(ETHTOOL),
        Ok(Err(error)) => Fact::unknown(error, ETHTOOL),
        Err(error) => Fact::unknown(error, ETHTOOL),
    }
}

fn call<T>(calls: &io::Result<Ioctl>, command: &str, question: impl Fn(&Ioctl) -> io::Result<T>) -> Fact<T> {
    let source = format!("ioctl {command}");
    match calls.as_ref().map(question) {
        Err(error) => Fact::unknown(error, source),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Unsupported => Fact::unsupported(source),
        Ok(answer) => Fact::of(answer, source),
    }
}

/// Adds the key to what a driver of [`HAS_KERNEL_KEY`] reports.
fn add_kernel_key(rss: &mut Fact<Rss>, tree: &Tree) {
    let Some(reported) = rss.value.as_mut().filter(|rss| rss.key.is_empty()) else {
        return;
    };
    let key = tree.text(&setting_path(KERNEL_KEY)).unwrap_or_default();
    if let Some(key) = key.replace(':', "").get(..KERNEL_KEY_DIGITS) {
        reported.key = key.to_owned();
        rss.source = format!("{}, {KERNEL_KEY}", rss.source);
    }
}

/// The fact, or absence if a driver replied with nothing: virtio without RSS does so.
fn unless_empty<T>(fact: Fact<T>, has_some: impl Fn(&T) -> bool, otherwise: &str) -> Fact<T> {
    match &fact.value {
        Some(value) if !has_some(value) => Fact::absent(otherwise, fact.source),
        _ => fact,
    }
}

/// The hashed fields of every flow type that the driver reports.
fn fields(calls: &Ioctl, device: &str) -> io::Result<BTreeMap<FlowType, Vec<Field>>> {
    let mut reported = BTreeMap::new();
    let mut refused = None;
    for flow_type in FlowType::all() {
        match calls.fields(device, flow_type) {
            Ok(fields) => drop(reported.insert(flow_type, fields)),
            // Drivers reject the types that they do not distinguish, with various errors.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if reported.is_empty() => Err(error),
        _ => Ok(reported),
    }
}

/// The additional contexts. Kernels before 6.12 do not list them.
fn contexts(
    ethtool: &mut Result<Ethtool, HostError>,
    calls: &io::Result<Ioctl>,
    device: &str,
    own: &Fact<Rss>,
) -> Fact<Vec<Rss>> {
    const SOURCE: &str = "ethtool netlink, ioctl ETHTOOL_GRSSH";
    if own.value.is_none() {
        return Fact::absent("the device has no RSS", SOURCE);
    }
    let listed = ethtool.as_mut().map_err(|error| error.to_string());
    let listed = listed.and_then(|ethtool| ethtool.contexts(device).map_err(|error| error.to_string()));
    match (listed, calls) {
        (Ok(Some(contexts)), Ok(calls)) => {
            let contexts = contexts.into_iter().map(|context| calls.rss(device, context));
            Fact::of(contexts.collect::<io::Result<_>>(), SOURCE)
        }
        (Ok(None), _) => Fact::absent("the driver has none", SOURCE),
        (Err(error), _) => Fact::unknown(format!("{error} (Linux 6.12 lists them)"), SOURCE),
        (_, Err(error)) => Fact::unknown(error, SOURCE),
    }
}

fn node(sources: &Sources<'_>, device: &str) -> Fact<u32> {
    let path = format!("/sys/class/net/{device}/device/numa_node");
    sources.sysfs(path, |text, path| match text.map(|text| text.parse::<i64>()) {
        Ok(Ok(node @ 0..)) => Fact::known(node as u32, path),
        // The kernel's value for "no node".
        Ok(Ok(_)) => Fact::absent("the firmware names none", path),
        Ok(Err(error)) => Fact::unknown(error, path),
        Err(_) => Fact::absent("it is on no bus that names one", path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::HashFunction;
    use crate::tree::recorded::Recorded;

    #[test]
    fn a_driver_without_a_reported_key_has_the_first_40_bytes_of_the_kernels() {
        let bytes: Vec<String> = (0..52).map(|byte| format!("{byte:02x}")).collect();
        let machine = Recorded::new([("/proc/sys/net/core/netdev_rss_key", bytes.join(":").as_str())]);
        let reported = || {
            let rss = Rss {
                context: 0,
                function: HashFunction::Toeplitz,
                transforms: Vec::new(),
                key: String::new(),
                table: Vec::new(),
            };
            Fact::known(rss, "ioctl")
        };
        let mut rss = reported();
        add_kernel_key(&mut rss, &machine.tree());
        assert_eq!(rss.value.unwrap().key, bytes[..40].concat());
        assert_eq!(rss.source, format!("ioctl, {KERNEL_KEY}"));

        let (mut rss, unread) = (reported(), Recorded::new([("/proc/none", "")]));
        add_kernel_key(&mut rss, &unread.tree());
        assert_eq!(rss, reported());
    }
}
