//! Setting how a device steers. Nothing is put back: it is for machines that end with the experiment, such as guests.
//!
//! What enters: a device of the calling thread's network namespace and what it is to steer by. Needs `CAP_NET_ADMIN`.

use std::io;

use corelane_rss::{IndirectionTable, Key};

use super::ioctl::Ioctl;
use super::{Field, FlowType};
use crate::HostError;

/// Sets the key and the indirection table of a device, whose entries name queues.
///
/// # Errors
///
/// [`HostError::Setting`] that names what the driver refused.
pub fn set_rss(device: &str, key: Option<&Key>, table: Option<&IndirectionTable>) -> Result<(), HostError> {
    let entries: Option<Vec<u32>> = table.map(|table| {
        let entries = table.entries().iter();
        entries.map(|bucket| bucket.index() as u32).collect()
    });
    let key_bytes = key.map(Key::as_bytes);
    let set = Ioctl::open().and_then(|ioctl| ioctl.set_rss(device, key_bytes, entries.as_deref()));
    set.map_err(|cause| HostError::Setting {
        name: format!("the RSS key and table of {device}"),
        value: format!(
            "{} and {} entries",
            key.map_or("the same key".to_owned(), |key| format!(
                "a key of {} bytes",
                key.as_bytes().len()
            )),
            entries.map_or(0, |entries| entries.len())
        ),
        cause,
    })
}

/// Has a device hand its hashes to the kernel.
///
/// # Errors
///
/// [`HostError::Setting`] where the driver does not.
pub fn set_receive_hashing(device: &str) -> Result<(), HostError> {
    let set = Ioctl::open().and_then(|ioctl| ioctl.set_receive_hashing(device));
    set.map_err(|cause| HostError::Setting {
        name: format!("receive hashing of {device}"),
        value: "on".to_owned(),
        cause,
    })
}

/// Sets what a device hashes of a type of flow.
///
/// # Errors
///
/// [`HostError::Setting`] that names the type.
pub fn set_fields(device: &str, flow_type: FlowType, fields: &[Field]) -> Result<(), HostError> {
    let set: io::Result<()> = Ioctl::open().and_then(|ioctl| ioctl.set_fields(device, flow_type, fields));
    set.map_err(|cause| HostError::Setting {
        name: format!("the fields of {} that {device} hashes", flow_type.name()),
        value: format!("{fields:?}"),
        cause,
    })
}
