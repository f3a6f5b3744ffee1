//! `corelane host`: the network inventory of this machine, and the conditions that would spoil a measurement.

mod text;

use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use clap::Args;
use corelane_host::conditions::{Condition, Severity};
use corelane_host::inventory::{self, Device, Inventory};
use serde::Serialize;

/// Shown by `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane host\n  corelane host --dev lo --json\n\n\
`--check` changes nothing; it exits with 1 if a condition would spoil a result.";

#[derive(Debug, Args)]
pub struct HostArguments {
    /// Show only this device [default: all devices of this network namespace]
    #[arg(long, value_name = "DEVICE")]
    pub dev: Option<String>,
    /// List conditions that would spoil a measurement or prevent scaling, worst first, each with a fix
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// What `--check --json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/check/1")]
struct CheckDocument {
    /// Number of conditions that spoil a result.
    spoils: usize,
    /// Number of conditions that explain a result.
    explains: usize,
    /// All conditions checked, worst first.
    conditions: Vec<Condition>,
    /// The devices that are down, which were not checked.
    down: Vec<String>,
}

/// Prints the inventory, or with `--check` its conditions.
pub fn run(arguments: &HostArguments) -> Outcome {
    let mut inventory = inventory::inventory();
    if let Some(name) = &arguments.dev {
        inventory.require(name).map_err(|error| usage("--dev", error))?;
        leave_out(&mut inventory, |device| device.name != *name);
    }
    if !arguments.check {
        return print(arguments.json, &inventory, text::inventory);
    }
    let down = match arguments.dev {
        None => leave_out(&mut inventory, |device| !device.link.up),
        Some(_) => Vec::new(),
    };
    let conditions = inventory::check(&inventory);
    let count = |severity| conditions.iter().filter(|one| one.severity == severity).count();
    let document = CheckDocument {
        spoils: count(Severity::Spoils),
        explains: count(Severity::Explains),
        conditions,
        down,
    };
    print(arguments.json, &document, |document| {
        text::conditions(&document.conditions, &document.down)
    })?;
    match document.spoils {
        0 => Ok(()),
        1 => anyhow::bail!("1 condition would spoil a measurement here"),
        spoils => anyhow::bail!("{spoils} conditions would spoil a measurement here"),
    }
}

/// Removes devices, and their conditions; the names of what was removed.
fn leave_out(inventory: &mut Inventory, is_out: impl Fn(&Device) -> bool) -> Vec<String> {
    let out: Vec<String> = (inventory.devices.extract_if(.., |device| is_out(device)))
        .map(|device| device.name)
        .collect();
    // Conditions of devices are named `WHAT of DEVICE`.
    inventory.machine.conditions.retain(|condition| {
        let of = condition.name.rsplit_once(" of ").map(|(_, device)| device);
        of.is_none_or(|of| !out.iter().any(|name| name == of))
    });
    out
}
