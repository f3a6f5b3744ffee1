//! Selects the inventory and device of a command: this machine's, or those in a saved `corelane host --json` of another
//! machine.

use crate::documents::{parse_as, read_with};
use crate::outcome::usage;
use corelane_host::inventory::{self, Inventory};
use corelane_rss::Transform;
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

    /// How the device mixes the ends of a flow before it hashes them; plain if that cannot be read, as key and table then.
    pub fn transform(&self) -> Transform {
        let device = self.inventory.device(&self.name);
        let transform = device.and_then(|device| device.rss.value.as_ref()?.transform());
        transform.unwrap_or_default()
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
    let expected = "a document written by `corelane host --json`";
    read_with(flag, path, |text| parse_as(Inventory::SCHEMA, text, expected))
}
