//! Selects the inventory and device of a command: this machine's, or those in a saved `corelane host --json` of another
//! machine.

use crate::documents::{parse, read_text, wrong_file};
use crate::outcome::usage;
use anyhow::Context;
use corelane_host::inventory::{self, Inventory};
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
        inventory.require(&name).map_err(|error| usage("--dev", error))?;
        Ok(Self { inventory, name })
    }
}

/// The only device with known RSS settings.
fn only_rss(inventory: &Inventory) -> anyhow::Result<String> {
    let known = inventory.devices.iter();
    let known = known.filter(|device| device.rss.value.is_some());
    match &known.map(|device| device.name.as_str()).collect::<Vec<_>>()[..] {
        [name] => Ok((*name).to_owned()),
        [] => Err(usage(
            "--host",
            "no device in the document has known RSS settings",
        )),
        names => {
            let what = format!(
                "several devices have RSS: select one with --dev: {}",
                names.join(", ")
            );
            Err(usage("--host", what))
        }
    }
}

/// Reads a document written by `corelane host --json`. `flag` is the flag that named the file.
pub fn saved(flag: &str, path: &Path) -> anyhow::Result<Inventory> {
    let text = read_text(path).with_context(|| format!("{flag}: {}", path.display()))?;
    let expected = "a document written by `corelane host --json`";
    let inventory: Inventory = parse(&text, expected).map_err(|error| wrong_file(flag, path, error))?;
    if inventory.schema != Inventory::SCHEMA {
        let (found, expected) = (inventory.schema, Inventory::SCHEMA);
        let what = format!("the document has schema {found:?}, expected {expected:?}");
        return Err(wrong_file(flag, path, what));
    }
    Ok(inventory)
}
