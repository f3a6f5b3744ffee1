//! Parsers for argument values: endpoints, ranges and quantities.

use corelane_load::tcp::WRITE_BYTES;
use corelane_measure::quantity;
pub use corelane_measure::quantity::{
    parse_count as count, parse_duration as duration, parse_share as share, parse_size as size,
};
use std::net::{IpAddr, SocketAddr};

/// An address with an optional port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: Option<u16>,
}

impl Endpoint {
    /// The socket address; port 0 if no port was given.
    pub fn socket_address(self) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(0))
    }
}

/// Parses ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Endpoint {
            address: address.ip(),
            port: Some(address.port()),
        });
    }
    match text.trim_matches(['[', ']']).parse() {
        Ok(address) => Ok(Endpoint { address, port: None }),
        Err(_) => Err("write 10.11.2.1:8080, [2001:db8::1]:8080, or an address without a port".to_owned()),
    }
}

/// Parses FIRST-LAST, or one port.
pub fn port_range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err("write FIRST-LAST, such as 1024-65535".to_owned()),
    }
}

/// Parses the size of one write in bytes, 1 B to the maximum write size.
pub fn write_size(text: &str) -> Result<u32, String> {
    let bytes = size(text).map_err(|error| error.to_string())?;
    let fits = u32::try_from(bytes)
        .ok()
        .filter(|bytes| (1..=WRITE_BYTES).contains(bytes));
    fits.ok_or_else(|| format!("a write has 1 B to {}", quantity::bytes(u64::from(WRITE_BYTES))))
}

/// Parses a rate per second above 0.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = quantity::parse_rate(text).map_err(|error| error.to_string())?;
    Some(rate)
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| "a rate must be above 0".to_owned())
}

/// Parses a rate in bytes per second above 0.
pub fn byte_rate(text: &str) -> Result<u64, String> {
    let rate = size(text).map_err(|error| error.to_string())?;
    Some(rate)
        .filter(|rate| *rate > 0)
        .ok_or_else(|| "a rate must be above 0".to_owned())
}

/// Parses a number of at least 1.
pub fn positive(text: &str) -> Result<u64, String> {
    let number = count(text).map_err(|error| error.to_string())?;
    Some(number)
        .filter(|number| *number > 0)
        .ok_or_else(|| "give at least 1".to_owned())
}
