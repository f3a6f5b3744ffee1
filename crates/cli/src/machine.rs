//! Whose devices a command goes by: this machine's, or those of another whose `corelane host --json` was saved. A file or
//! nothing enters, and perhaps a device's name; an inventory and the device's name leave.

use crate::outcome::usage;
use anyhow::Context;
use corelane_host::inventory::{self, Inventory};
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
        match inventory.device(&name) {
            Some(_) => Ok(Self { inventory, name }),
            None => {
                let names: Vec<&str> = inventory
                    .devices
                    .iter()
                    .map(|device| device.name.as_str())
                    .collect();
                let unknown = inventory.devices_unknown.clone();
                let there = unknown.unwrap_or_else(|| format!("there are {}", names.join(", ")));
                Err(usage("--dev", format!("there is no device {name}: {there}")))
            }
        }
    }
}

/// The one device that tells its RSS.
fn only_rss(inventory: &Inventory) -> anyhow::Result<String> {
    let tells = |device: &&inventory::Device| device.rss.value.is_some();
    let names: Vec<&str> = inventory
        .devices
        .iter()
        .filter(tells)
        .map(|device| device.name.as_str())
        .collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(usage("--host", "none of the document's devices tells its RSS")),
        _ => {
            let names = names.join(", ");
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
    let wrong = |error: String| usage(flag, format!("{}: {error}", path.display()));
    let inventory: Inventory = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if inventory.schema != Inventory::SCHEMA {
        let expected = Inventory::SCHEMA;
        return Err(wrong(format!(
            "a document of schema {:?}, and {expected:?} is read",
            inventory.schema
        )));
    }
    Ok(inventory)
}
