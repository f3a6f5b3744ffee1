//! `corelane host`: what this machine is to frames, and what of it would spoil a measurement.

mod text;

use crate::machine::check_device;
use crate::outcome::Outcome;
use crate::shared::print;
use clap::Args;
use corelane_host::conditions::{Condition, Severity};
use corelane_host::inventory::{self, Inventory};
use serde::Serialize;

/// Shown by `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane host\n  corelane host --dev lo --json\n\n\
`--check` changes nothing; it exits with 1 when something would spoil a result.";

#[derive(Debug, Args)]
pub struct HostArguments {
    /// This device alone [default: all of this network namespace]
    #[arg(long, value_name = "DEVICE")]
    pub dev: Option<String>,
    /// What would spoil a measurement or keep it from scaling, worst first, with the command that mends it
    #[arg(long)]
    pub check: bool,
    /// One JSON document on standard output; `corelane explain --config` reads it
    #[arg(long)]
    pub json: bool,
}

/// What `--check --json` prints.
#[derive(Serialize)]
struct CheckDocument {
    schema: &'static str,
    /// How many of the conditions spoil a result.
    spoils: usize,
    /// How many explain one.
    explains: usize,
    /// All that was looked at, worst first.
    conditions: Vec<Condition>,
}

/// Prints the inventory, or its judgement.
pub fn run(arguments: &HostArguments) -> Outcome {
    let mut inventory = inventory::inventory();
    if let Some(name) = &arguments.dev {
        inventory = only(inventory, name)?;
    }
    if !arguments.check {
        return print(arguments.json, &inventory, text::inventory);
    }
    let conditions = inventory::check(&inventory);
    let count = |severity| conditions.iter().filter(|one| one.severity == severity).count();
    let document = CheckDocument {
        schema: "corelane/check/1",
        spoils: count(Severity::Spoils),
        explains: count(Severity::Explains),
        conditions,
    };
    print(arguments.json, &document, |document| {
        text::conditions(&document.conditions)
    })?;
    match document.spoils {
        0 => Ok(()),
        1 => anyhow::bail!("1 condition would spoil a measurement here"),
        spoils => anyhow::bail!("{spoils} conditions would spoil a measurement here"),
    }
}

/// The inventory with one device and what is said of it and of the machine.
fn only(mut inventory: Inventory, name: &str) -> anyhow::Result<Inventory> {
    let names: Vec<String> = (inventory.devices.iter())
        .map(|device| device.name.clone())
        .collect();
    check_device(&inventory, name)?;
    inventory.devices.retain(|device| device.name == name);
    // Conditions of devices are named `WHAT of DEVICE`.
    inventory.machine.conditions.retain(|condition| {
        let of = condition.name.rsplit_once(" of ").map(|(_, device)| device);
        of.is_none_or(|of| of == name || !names.iter().any(|known| known == of))
    });
    Ok(inventory)
}
