//! Parsers for argument values: endpoints, ranges and quantities.

use crate::names;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use corelane_host::zones;
use corelane_load::tcp::WRITE_BYTES;
use corelane_measure::quantity;
pub use corelane_measure::quantity::{
    parse_count as count, parse_duration as duration, parse_share as share, parse_size as size,
};
use corelane_packet::HashTypes;
use corelane_rss::balance::Policy;
use corelane_rss::{Key, Protocol, Transform};
use std::net::{IpAddr, SocketAddr};

/// Values of a flag: the name of each, and its help.
pub type Choices<T> = [(&'static str, T, &'static str)];

/// Parses the name of one of these values; the help lists all.
pub fn one_of<T: Copy + Send + Sync>(choices: &'static Choices<T>) -> impl TypedValueParser<Value = T> {
    let names = choices
        .iter()
        .map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(|given| {
        let chosen = choices.iter().find(|(name, ..)| *name == given);
        chosen.expect("the parser accepts these names only").1
    })
}

/// Protocols, as far as hashing distinguishes them.
pub const PROTOCOLS: &Choices<Protocol> = &[
    ("tcp", Protocol::Tcp, "TCP"),
    ("udp", Protocol::Udp, "UDP"),
    ("other", Protocol::Other, "Any protocol without ports"),
];

/// Words about a transform, behind those about a key.
pub fn mixing(transform: Transform) -> String {
    match transform {
        Transform::Plain => String::new(),
        transform => format!(", {transform}"),
    }
}

/// Parses a key: hexadecimal digits, or the name of one.
pub fn key(text: &str) -> Result<Key, String> {
    Key::named(text)
        .map_or_else(|| text.parse::<Key>(), Ok)
        .map_err(|error| {
            let names = Key::NAMED.map(|(name, _)| name).join(", ");
            format!("{error}; or give a name: {names}")
        })
}

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

/// As [`endpoint`], with the zone of an IPv6 address.
pub fn zoned_endpoint(text: &str) -> Result<(Endpoint, Option<String>), String> {
    let zone = zones::split(text).1.map(str::to_owned);
    endpoint(text).map(|endpoint| (endpoint, zone))
}

/// Parses ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT; also NAME, NAME:PORT and :PORT. A zone is dropped, since packets carry
/// none.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let (text, _) = &zones::split(text);
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Endpoint {
            address: address.ip(),
            port: Some(address.port()),
        });
    }
    if let Some(address) = names::without_port(text) {
        return address.map(|address| Endpoint { address, port: None });
    }
    let address = names::address(text).map_err(|error| format!("{error}, or an address without a port"))?;
    Ok(Endpoint {
        address: address.ip(),
        port: Some(address.port()),
    })
}

/// Parses a process id.
pub fn process(text: &str) -> Result<u32, String> {
    let wrong = |_| "give a process id, such as 1234, or $(cat /run/nginx.pid)".to_owned();
    text.parse().map_err(wrong)
}

/// Upper limit of sockets or connections per run: no machine has the memory for more.
pub const MOST_CONNECTIONS: u64 = 100_000_000;

/// A parser of a count from 1 to `most`.
pub fn count_to(most: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match count(text).map_err(|error| error.to_string())? {
        0 => Err(format!("give 1 to {most}")),
        number if number > most => Err(format!("give 1 to {most}")),
        number => Ok(number),
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
    above_zero(quantity::parse_rate(text), "a rate must be above 0")
}

/// Parses a rate above 0 in bytes per second, or in bits: 100kB/s, 1Gbit/s.
pub fn byte_rate(text: &str) -> Result<u64, String> {
    above_zero(quantity::parse_byte_rate(text), "a rate must be above 0")
}

/// A policy of rebalancing, by the most moves per second.
pub fn moves(text: &str) -> Result<Policy, String> {
    rate(text).map(Policy::new)
}

fn above_zero<T: Default + PartialOrd>(parsed: Result<T, impl ToString>, refusal: &str) -> Result<T, String> {
    match parsed {
        Ok(number) if number > T::default() => Ok(number),
        Ok(_) => Err(refusal.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a policy name or a list of NDIS types.
pub fn hash_types(text: &str) -> Result<HashTypes, String> {
    match text {
        "2tuple" => Ok(HashTypes::TWO_TUPLE),
        "4tuple" => Ok(HashTypes::FOUR_TUPLE),
        "driver" => Ok(HashTypes::DRIVER_DEFAULT),
        "all" => Ok(HashTypes::ALL),
        names => names
            .parse()
            .map_err(|error| format!("{error}; or 2tuple, 4tuple, driver, all")),
    }
}
