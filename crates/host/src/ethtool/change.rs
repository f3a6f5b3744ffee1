//! Configures how a device steers. Changes are not reverted: use it only on machines that end with the experiment, such
//! as guests.
//!
//! Input: a device of the calling thread's network namespace and its new configuration. Requires `CAP_NET_ADMIN`.

use corelane_rss::{IndirectionTable, Key};

use super::ioctl::Ioctl;
use super::{Field, FlowType};
use crate::HostError;

/// Sets the key and the indirection table of a device, whose entries name queues.
///
/// # Errors
///
/// [`HostError::Failed`] that names the rejected setting.
pub fn set_rss(device: &str, key: Option<&Key>, table: Option<&IndirectionTable>) -> Result<(), HostError> {
    let queues = |table: &IndirectionTable| -> Vec<u32> {
        let entries = table.entries().iter();
        entries.map(|bucket| bucket.index() as u32).collect()
    };
    let (key, entries) = (key.map(Key::as_bytes), table.map(queues));
    let of_key = key.map_or("the same key".to_owned(), |key| {
        format!("a key of {} bytes", key.len())
    });
    let value = format!("{of_key} and {} entries", entries.as_ref().map_or(0, Vec::len));
    let name = format!("the RSS key and table of {device}");
    let set = Ioctl::open().and_then(|ioctl| ioctl.set_rss(device, key, entries.as_deref()));
    set.map_err(HostError::setting(&name, &value))
}

/// Makes a device pass its hashes to the kernel.
///
/// # Errors
///
/// [`HostError::Failed`] if the driver does not support it.
pub fn set_receive_hashing(device: &str) -> Result<(), HostError> {
    let set = Ioctl::open().and_then(|ioctl| ioctl.set_receive_hashing(device));
    set.map_err(HostError::setting(&format!("receive hashing of {device}"), "on"))
}

/// Sets the hashed fields of a flow type.
///
/// # Errors
///
/// [`HostError::Failed`] that names the flow type.
pub fn set_fields(device: &str, flow_type: FlowType, fields: &[Field]) -> Result<(), HostError> {
    let set = Ioctl::open().and_then(|ioctl| ioctl.set_fields(device, flow_type, fields));
    let name = format!("the fields of {} that {device} hashes", flow_type.name());
    set.map_err(HostError::setting(&name, &format!("{fields:?}")))
}
