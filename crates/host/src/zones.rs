//! Zones of IPv6 addresses (RFC 4007 11). Every device may have the same link-local address, so whoever connects to one, or
//! listens on it, names the device: `fe80::1%eth0`.

use nix::net::if_::{if_indextoname, if_nametoindex};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use thiserror::Error;

/// Why an address can be neither connected to nor listened on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ZoneError {
    /// A device that this network namespace does not have.
    #[error("'{address}%{zone}': there is no device {zone}: ip link lists those of this network namespace")]
    NoDevice {
        /// The address.
        address: Ipv6Addr,
        /// Its zone as written.
        zone: String,
    },
    /// A link-local address without a zone.
    #[error(
        "{address} is a link-local address, which any device may have: name the device, as in [{address}%eth0]:{port}"
    )]
    NoZone {
        /// The address.
        address: Ipv6Addr,
        /// Its port.
        port: u16,
    },
}

/// Parses an address with a port: `10.11.2.1:8080`, `[2001:db8::1]:8080`, `[fe80::1%eth0]:8080`. `None` if the text is
/// none.
#[must_use]
pub fn address(text: &str) -> Option<Result<SocketAddr, ZoneError>> {
    let (without, zone) = split(text);
    let address: SocketAddr = without.parse().ok()?;
    Some(in_zone(address.ip(), zone, address.port()))
}

/// An address, with a port or without, from which the zone of an IPv6 address is removed; and the zone.
#[must_use]
pub fn split(text: &str) -> (String, Option<&str>) {
    let is_address = |text: &str| text.trim_start_matches('[').parse::<Ipv6Addr>().is_ok();
    match text.split_once('%') {
        Some((address, zone)) if is_address(address) => {
            let (zone, rest) = zone.split_at(zone.find(']').unwrap_or(zone.len()));
            (format!("{address}{rest}"), Some(zone))
        }
        _ => (text.to_owned(), None),
    }
}

/// An address in a zone: the name of a device of the calling thread's network namespace, or its index.
///
/// # Errors
/// If there is no such device, or a link-local address has no zone.
pub fn in_zone(address: IpAddr, zone: Option<&str>, port: u16) -> Result<SocketAddr, ZoneError> {
    let IpAddr::V6(address) = address else {
        return Ok(SocketAddr::new(address, port));
    };
    let scope = match zone {
        Some(zone) => index_of(zone).ok_or_else(|| ZoneError::NoDevice {
            address,
            zone: zone.to_owned(),
        })?,
        None if address.is_unicast_link_local() => return Err(ZoneError::NoZone { address, port }),
        None => 0,
    };
    Ok(SocketAddrV6::new(address, port, 0, scope).into())
}

fn index_of(device: &str) -> Option<u32> {
    // The name of an index without a device is empty, and no error.
    let is_index = |index: &u32| if_indextoname(*index).is_ok_and(|name| !name.is_empty());
    let named = if_nametoindex(device).ok();
    named.or_else(|| device.parse().ok().filter(is_index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_the_name_or_the_index_of_a_device() {
        let lo = if_nametoindex("lo").unwrap();
        let scoped = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, lo));
        for text in ["[fe80::1%lo]:80", &format!("[fe80::1%{lo}]:80")] {
            assert_eq!(address(text), Some(Ok(scoped)), "{text}");
        }
        for text in ["10.11.2.1:80", "[2001:db8::1]:80"] {
            assert_eq!(address(text), Some(Ok(text.parse().unwrap())), "{text}");
        }
        for text in [
            "[fe80::1%lo]",
            "fe80::1%lo:80",
            "10.11.2.1%lo:80",
            "[10.11.2.1%lo]:80",
            "10.11.2.1:80%lo",
            "[2001:db8::1]:80%lo",
            "name:80",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn a_link_local_address_without_a_device_is_refused_with_the_form_to_write() {
        for (text, words) in [
            ("[fe80::1]:80", "as in [fe80::1%eth0]:80"),
            (
                "[fe80::1%nodev0]:80",
                "'fe80::1%nodev0': there is no device nodev0",
            ),
            ("[fe80::1%4294967295]:80", "there is no device 4294967295"),
            ("[fe80::1%]:80", "there is no device :"),
        ] {
            let error = address(text).unwrap().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
