//! The rule that frames are checked against. Input: flags, a steering document or a device. Output: key, hash types and
//! table, each with its origin, and the settings that could not be read from the device.

use crate::machine::MachineDevice;
use crate::outcome::usage;
use crate::steering::{self, TransformArgument};
use crate::values;
use clap::Args;
use corelane_host::ethtool::FlowType;
use corelane_host::inventory::{self, NoSteering, SoftwareRss};
use corelane_packet::HashTypes;
use corelane_packet::verify::Rule;
use corelane_rss::{Bucket, HashFields, HashType, IndirectionTable, Key, Transform};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Table size if none is known; most devices have this.
const ENTRIES: usize = 128;

/// The steering settings of the device. With --dev or --host, the device's own settings are the defaults.
#[derive(Debug, Args)]
pub(super) struct RuleArguments {
    /// Number of queues that the table uses round robin [default: the device's table]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    queues: Option<u16>,
    /// Entries of the round-robin table of --queues, up to 4096 [default: 128]
    #[arg(long, value_name = "ENTRIES", requires = "queues")]
    table_size: Option<usize>,
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed, or intel, mlx, i40e, ena [default: the device's, or the
    /// verification suite's]
    #[arg(long, value_name = "KEY", value_parser = values::key)]
    key: Option<Key>,
    /// Fields to hash: 2tuple, 4tuple, driver (addresses, and ports of TCP), or NDIS types such as IPV4,UDP_IPV4
    /// [default: the device's, or driver]
    #[arg(long, value_name = "TYPES", value_parser = values::hash_types)]
    hash: Option<HashTypes>,
    /// The device's steering document, which has the fields too, or output of `ethtool -x`, instead of queues, table and key;
    /// - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queues", "table_size", "key", "host"])]
    steering: Option<PathBuf>,
    #[command(flatten)]
    transform: TransformArgument,
    /// Saved `corelane host --json`: use the settings of its device --dev, or of its only device with RSS
    #[arg(long, value_name = "FILE")]
    pub(super) host: Option<PathBuf>,
}

/// The origin of a part of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum From {
    /// The device.
    Device,
    /// A flag.
    Flag,
    /// A steering document.
    Steering,
    /// Default: the verification suite's key, the hash types of most drivers.
    Default,
}

/// The origin of each part, and what is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RuleSource {
    pub(super) key: From,
    pub(super) hash_types: From,
    pub(super) table: From,
    /// Settings that could not be read from the device, each with the reason.
    pub(super) not_read: Vec<String>,
    /// The program of `corelane rss` on the device whose frames are read live: the rule is its, and CPUs take the place of
    /// queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) software_rss: Option<SoftwareRss>,
}

/// The rule of these flags; `dev` is the device that `--dev` names, whose frames are read if it is `live`.
pub(super) fn rule(
    arguments: &RuleArguments,
    dev: Option<&str>,
    live: bool,
) -> anyhow::Result<(Rule, RuleSource)> {
    if let Some(path) = &arguments.steering {
        return of_file(path, arguments);
    }
    let device = match (&arguments.host, dev) {
        (None, None) => DeviceRule::default(),
        (host, dev) => device_rule(&MachineDevice::of_flags(host.as_deref(), dev)?, live),
    };
    let in_turn = arguments.queues.map(|queues| {
        let entries = arguments.table_size.unwrap_or(ENTRIES);
        IndirectionTable::round_robin(entries, usize::from(queues))
    });
    let in_turn = in_turn
        .transpose()
        .map_err(|error| usage("--table-size and --queues", error))?;
    let (table, table_from) = first_of(in_turn, device.table).ok_or_else(|| {
        let missing = device.not_read.join("; ");
        let what = match missing.as_str() {
            "" => {
                "give the number of queues, a device whose table can be read (--dev, --host), or --steering"
            }
            _ => &format!("required, because the device's table cannot be read: {missing}"),
        };
        usage("--queues", what)
    })?;
    let (key, key_from) =
        first_of(arguments.key.clone(), device.key).unwrap_or((Key::VERIFICATION, From::Default));
    let (hash_types, types_from) =
        first_of(arguments.hash, device.hash_types).unwrap_or((HashTypes::DRIVER_DEFAULT, From::Default));
    let rule = Rule {
        key,
        hash_types,
        transform: arguments.transform.or(device.transform),
        table,
    };
    let source = RuleSource {
        key: key_from,
        hash_types: types_from,
        table: table_from,
        not_read: device.not_read,
        software_rss: device.software_rss,
    };
    Ok((rule, source))
}

/// The rule of a steering document, or of the output of `ethtool -x`, which does not say the hash types.
fn of_file(path: &Path, arguments: &RuleArguments) -> anyhow::Result<(Rule, RuleSource)> {
    let (file, has_fields) = steering::rule_from_file(path, arguments.hash.is_some())?;
    let of_document = Rule::from(&file.steering);
    let (hash_types, types_from) = match (has_fields, arguments.hash) {
        (true, _) => (of_document.hash_types, From::Steering),
        (false, Some(types)) => (types, From::Flag),
        (false, None) => (HashTypes::DRIVER_DEFAULT, From::Default),
    };
    let rule = Rule {
        hash_types,
        transform: arguments.transform.or(file.transform),
        ..of_document
    };
    let source = RuleSource {
        key: From::Steering,
        hash_types: types_from,
        table: From::Steering,
        not_read: Vec::new(),
        software_rss: None,
    };
    Ok((rule, source))
}

/// The flag's value, otherwise the device's.
fn first_of<T>(flag: Option<T>, device: Option<T>) -> Option<(T, From)> {
    let flag = flag.map(|value| (value, From::Flag));
    flag.or_else(|| device.map(|value| (value, From::Device)))
}

/// The part of the rule that can be read from a device.
#[derive(Default)]
struct DeviceRule {
    key: Option<Key>,
    hash_types: Option<HashTypes>,
    table: Option<IndirectionTable>,
    transform: Transform,
    not_read: Vec<String>,
    software_rss: Option<SoftwareRss>,
}

/// The rule by which `corelane rss` sends frames to CPUs; a queue is a CPU.
fn of_software(rss: &SoftwareRss) -> DeviceRule {
    let steering = &rss.steering;
    let entries = steering.table.entries().iter();
    let cpus = entries.map(|bucket| Bucket::new(steering.cpus[bucket.index()] as u16));
    DeviceRule {
        key: Some(steering.key.clone()),
        hash_types: Some(HashTypes::of_fields(steering.hash_fields)),
        table: IndirectionTable::from_entries(cpus.collect()).ok(),
        software_rss: Some(rss.clone()),
        ..DeviceRule::default()
    }
}

/// The flow types with their own hash fields, and the hash types that include their ports.
const PORTS: [(FlowType, HashType); 4] = [
    (FlowType::Tcp4, HashType::TCP_IPV4),
    (FlowType::Udp4, HashType::UDP_IPV4),
    (FlowType::Tcp6, HashType::TCP_IPV6),
    (FlowType::Udp6, HashType::UDP_IPV6),
];

fn device_rule(machine: &MachineDevice, live: bool) -> DeviceRule {
    let device = machine.inventory.device(&machine.name);
    if let Some(rss) = device
        .and_then(|device| device.software_rss.as_ref())
        .filter(|_| live)
    {
        return of_software(rss);
    }
    let mut rule_read = DeviceRule::default();
    let mut hash_types = HashTypes::TWO_TUPLE;
    let mut all = true;
    for (flow_type, hash_type) in PORTS {
        match inventory::rule(&machine.inventory, &machine.name, flow_type) {
            Ok(rule) => {
                if rule.hash_fields == HashFields::FourTuple {
                    hash_types = hash_types.with(hash_type);
                }
                (rule_read.key, rule_read.table) = (Some(rule.key), Some(rule.table));
            }
            // Concerns this flow type only: key and table may still be known.
            Err(error @ NoSteering::Fields(_)) => {
                rule_read.not_read.push(error.to_string());
                all = false;
            }
            Err(error) => {
                rule_read.not_read.push(error.to_string());
                return rule_read;
            }
        }
    }
    rule_read.transform = machine.transform();
    let fields = device.map(|device| &device.fields);
    match fields.filter(|fields| fields.value.is_none()) {
        Some(fields) => rule_read.not_read.push(format!(
            "hashed fields of {}: {}",
            machine.name,
            fields.reason().unwrap_or("not known")
        )),
        None => rule_read.hash_types = all.then_some(hash_types),
    }
    rule_read
}
