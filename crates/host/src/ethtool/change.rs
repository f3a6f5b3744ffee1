//! Configures how a device steers. Changes are not reverted: use it only on machines that end with the experiment, such
//! as guests.
//!
//! Input: a device of the calling thread's network namespace and its new configuration. Requires `CAP_NET_ADMIN`. The
//! numbers of commands are those of `linux/ethtool.h`.

use std::io;

use corelane_rss::{IndirectionTable, Key};

use super::ioctl::{Ioctl, RSS_HEADER, RULE_REQUEST, Request};
use super::{Field, FlowType};
use crate::HostError;

/// Sets the key and the indirection table of a device, whose entries name queues; `None` leaves either unchanged.
///
/// # Errors
///
/// [`HostError::Failed`] that names the rejected setting.
pub fn set_rss(device: &str, key: Option<&Key>, table: Option<&IndirectionTable>) -> Result<(), HostError> {
    /// `ETH_RXFH_INDIR_NO_CHANGE`; for the key a length of zero has this meaning.
    const NO_CHANGE: u32 = u32::MAX;
    let entries: Vec<u8> = table.map_or_else(Vec::new, |table| {
        let queues = table.entries().iter().map(|bucket| bucket.index() as u32);
        queues.flat_map(u32::to_ne_bytes).collect()
    });
    let (size, key_bytes) = (
        table.map(IndirectionTable::size),
        key.map_or(&[][..], Key::as_bytes),
    );
    let contents = [&entries[..], key_bytes].concat();
    let sizes = [
        (8, size.map_or(NO_CHANGE, |size| size as u32)),
        (12, key_bytes.len() as u32),
    ];
    // `RXH_XFRM_NO_CHANGE` is not set; kernels before 6.8 require this reserved byte to be zero.
    let mut request = Request::new(0x47, RSS_HEADER + contents.len(), &sizes);
    request.bytes[RSS_HEADER..].copy_from_slice(&contents);
    let of_key = match key_bytes.len() {
        0 => "the same key".to_owned(),
        bytes => format!("a key of {bytes} bytes"),
    };
    let value = format!("{of_key} and {} entries", size.unwrap_or(0));
    let set = Ioctl::open().and_then(|ioctl| ioctl.exchange(device, request));
    changed(set, &format!("the RSS key and table of {device}"), &value)
}

/// Makes a device pass its hashes to the kernel (`ETH_FLAG_RXHASH`).
///
/// # Errors
///
/// [`HostError::Failed`] if the driver does not support it.
pub fn set_receive_hashing(device: &str) -> Result<(), HostError> {
    const RECEIVE_HASHING: u32 = 1 << 28;
    let set = Ioctl::open().and_then(|ioctl| {
        let flags = ioctl.exchange(device, Request::new(0x25, 8, &[]))?.number(4);
        ioctl.exchange(device, Request::new(0x26, 8, &[(4, flags | RECEIVE_HASHING)]))
    });
    changed(set, &format!("receive hashing of {device}"), "on")
}

/// Sets the hashed fields of a flow type.
///
/// # Errors
///
/// [`HostError::Failed`] that names the flow type.
pub fn set_fields(device: &str, flow_type: FlowType, fields: &[Field]) -> Result<(), HostError> {
    let mut request = Request::new(0x2a, RULE_REQUEST, &[(4, flow_type.number())]);
    request.bytes[8..16].copy_from_slice(&Field::bits(fields).to_ne_bytes());
    let set = Ioctl::open().and_then(|ioctl| ioctl.exchange(device, request));
    let name = format!("the fields of {} that {device} hashes", flow_type.name());
    changed(set, &name, &format!("{fields:?}"))
}

/// Makes the stack finish the checksums of what a device sends, rather than leave that to the device (`ethtool -K DEV tx off`).
///
/// # Errors
///
/// [`HostError::Failed`] if the driver rejects it.
pub fn finish_checksums(device: &str) -> Result<(), HostError> {
    // `ETHTOOL_STXCSUM`: 0 is off.
    let set = Ioctl::open().and_then(|ioctl| ioctl.exchange(device, Request::new(0x17, 8, &[])));
    changed(set, &format!("transmit checksums of {device}"), "off")
}

fn changed(set: io::Result<Request>, name: &str, value: &str) -> Result<(), HostError> {
    set.map(drop).map_err(HostError::setting(name, value))
}
