//! Whose devices a command goes by: this machine's, or those of another whose `corelane host --json` was saved. A file or
//! nothing enters, and perhaps a device's name; an inventory and the device's name leave.

use crate::documents::wrong_file;
use crate::outcome::{Outcome, usage};
use anyhow::Context;
use corelane_host::inventory::{self, Device, Inventory};
use std::path::Path;

/// A device, and the machine that it is in.
#[derive(Debug)]
pub struct MachineDevice {
    /// The machine.
    pub inventory: Inventory,
    /// The device's name, which is the inventory's.
    pub name: String,
}

impl MachineDevice {
    /// The device of these flags: that of `--dev`, in the saved document of `--host` or else here. A document may do without
    /// `--dev` where one of its devices alone tells its RSS.
    pub fn of_flags(host: Option<&Path>, dev: Option<&str>) -> anyhow::Result<Self> {
        let inventory = match host {
            Some(path) => saved("--host", path)?,
            None => inventory::inventory(),
        };
        let name = match dev {
            Some(name) => name.to_owned(),
            None => only_rss(&inventory)?,
        };
        check_device(&inventory, &name)?;
        Ok(Self { inventory, name })
    }
}

fn names<'a>(devices: impl Iterator<Item = &'a Device>) -> String {
    let names: Vec<String> = devices.map(|device| device.name.clone()).collect();
    names.join(", ")
}

/// Refuses a device that `--dev` names and the inventory does not have.
pub fn check_device(inventory: &Inventory, name: &str) -> Outcome {
    if inventory.device(name).is_some() {
        return Ok(());
    }
    let unknown = inventory.devices_unknown.clone();
    let there = unknown.unwrap_or_else(|| format!("there are {}", names(inventory.devices.iter())));
    Err(usage("--dev", format!("there is no device {name}: {there}")))
}

/// The one device whose RSS is known.
fn only_rss(inventory: &Inventory) -> anyhow::Result<String> {
    let known = inventory
        .devices
        .iter()
        .filter(|device| device.rss.value.is_some());
    match known.clone().collect::<Vec<_>>()[..] {
        [device] => Ok(device.name.clone()),
        [] => Err(usage("--host", "none of the document's devices tells its RSS")),
        _ => {
            let names = names(known);
            Err(usage(
                "--host",
                format!("several devices do RSS: name one with --dev: {names}"),
            ))
        }
    }
}

/// The document that `corelane host --json` wrote to a file; `flag` is the one that named it.
pub fn saved(flag: &str, path: &Path) -> anyhow::Result<Inventory> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{flag}: {}", path.display()))?;
    let inventory: Inventory = serde_json::from_str(&text).map_err(|error| wrong_file(flag, path, error))?;
    if inventory.schema != Inventory::SCHEMA {
        let (found, expected) = (inventory.schema, Inventory::SCHEMA);
        let what = format!("a document of schema {found:?}, and {expected:?} is read");
        return Err(wrong_file(flag, path, what));
    }
    Ok(inventory)
}
