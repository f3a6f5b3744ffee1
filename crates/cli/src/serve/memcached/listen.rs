//! The addresses of `-l`, as memcached writes them: `127.0.0.1`, `::1`, `[::1]:11212`, `name:11211`, `*`, several of them
//! separated by commas or semicolons.

use crate::names;
use std::net::{Ipv6Addr, SocketAddr};

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    address: SocketAddr,
    /// Whether it came with a port.
    has_port: bool,
}

impl Listen {
    /// The address, with `port` unless it came with one.
    pub fn at(mut self, port: u16) -> SocketAddr {
        if !self.has_port {
            self.address.set_port(port);
        }
        self.address
    }
}

/// What memcached writes before an address, and what is given here instead.
const PREFIXES: [(&str, &str); 5] = [
    (
        "notls:",
        "all addresses of a server have TLS (--tls), or none: start another server",
    ),
    ("btls:", "give --tls, for all addresses"),
    (
        "mtls:",
        "clients are not asked for certificates; --tls encrypts without",
    ),
    (
        "proto[",
        "each address speaks the text and the meta protocol: leave the prefix out",
    ),
    ("tag", "addresses have no tags: leave the prefix out"),
];

/// The addresses of the values of `-l`, each once; those of a name are all that it has.
///
/// # Errors
/// What is wrong with one.
pub fn addresses(values: &[String]) -> Result<Vec<Listen>, String> {
    let mut addresses = Vec::new();
    for text in values.iter().flat_map(|value| value.split([',', ';'])) {
        for listen in one(text.trim())? {
            if !addresses.contains(&listen) {
                addresses.push(listen);
            }
        }
    }
    Ok(addresses)
}

fn one(text: &str) -> Result<Vec<Listen>, String> {
    let is_tag = |rest: &str| rest.starts_with(['[', '_']);
    for (prefix, instead) in PREFIXES {
        if text
            .strip_prefix(prefix)
            .is_some_and(|rest| prefix != "tag" || is_tag(rest))
        {
            return Err(format!("{text}: {instead}"));
        }
    }
    let (host, port) = split(text);
    let with_port = match (host, port.unwrap_or("0")) {
        ("*", port) => format!("[{}]:{port}", Ipv6Addr::UNSPECIFIED),
        (host, port) if host.contains(':') => format!("[{host}]:{port}"),
        (host, port) => format!("{host}:{port}"),
    };
    let target = names::target(&with_port).map_err(|error| match error.starts_with('\'') {
        // How addresses of other flags are written.
        true => format!(
            "'{text}': write 127.0.0.1, ::1, a name or *, also with a port: 127.0.0.1:11211, [::1]:11211"
        ),
        false => error,
    })?;
    let listen = |address| Listen {
        address,
        has_port: port.is_some(),
    };
    Ok(target.all().into_iter().map(listen).collect())
}

/// Host and port. A colon separates them if the host is in brackets or has none; an IPv6 address without brackets has no port.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}
