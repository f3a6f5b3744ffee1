//! Selects the inventory and device of a command: this machine's, or those in a saved `corelane host --json` of another
//! machine.

use crate::documents::wrong_file;
use crate::outcome::{Outcome, usage};
use anyhow::Context;
use corelane_host::inventory::{self, Device, Inventory};
use std::path::Path;

/// A device and the inventory of its machine.
#[derive(Debug)]
pub struct MachineDevice {
    /// The inventory of the machine.
    pub inventory: Inventory,
    /// The device's name, as in the inventory.
    pub name: String,
}

impl MachineDevice {
    /// The device that `--dev` names, in the saved document of `--host` or on this machine. `--dev` may be omitted if
    /// exactly one device has known RSS settings.
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

/// Returns a usage error if the inventory has no device of this name.
pub fn check_device(inventory: &Inventory, name: &str) -> Outcome {
    if inventory.device(name).is_some() {
        return Ok(());
    }
    let unknown = inventory.devices_unknown.clone();
    let there = unknown.unwrap_or_else(|| format!("there are {}", names(inventory.devices.iter())));
    Err(usage("--dev", format!("there is no device {name}: {there}")))
}

/// The only device with known RSS settings.
fn only_rss(inventory: &Inventory) -> anyhow::Result<String> {
    let known = inventory
        .devices
        .iter()
        .filter(|device| device.rss.value.is_some());
    match known.clone().collect::<Vec<_>>()[..] {
        [device] => Ok(device.name.clone()),
        [] => Err(usage(
            "--host",
            "no device in the document has known RSS settings",
        )),
        _ => {
            let names = names(known);
            Err(usage(
                "--host",
                format!("several devices have RSS: select one with --dev: {names}"),
            ))
        }
    }
}

/// Reads a document written by `corelane host --json`. `flag` is the flag that named the file.
pub fn saved(flag: &str, path: &Path) -> anyhow::Result<Inventory> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{flag}: {}", path.display()))?;
    let inventory: Inventory = serde_json::from_str(&text).map_err(|error| wrong_file(flag, path, error))?;
    if inventory.schema != Inventory::SCHEMA {
        let (found, expected) = (inventory.schema, Inventory::SCHEMA);
        let what = format!("the document has schema {found:?}, expected {expected:?}");
        return Err(wrong_file(flag, path, what));
    }
    Ok(inventory)
}
