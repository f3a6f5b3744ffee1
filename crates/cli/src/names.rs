//! Addresses given by name: NAME:PORT and :PORT beside ADDRESS:PORT. The resolver's answer is shown on standard error.

use crate::log::log_line;
use crate::outcome::usage;
use clap::{Args, ValueEnum};
use corelane_host::{resolver, zones};
use corelane_proto::http::url::Url;
use corelane_worker::engine::{NoRemote, Remote};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Time limit of an attempt before the next address is tried: enough for any network, and short for a person.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Which addresses of a name are connected to.
#[derive(Debug, Args)]
pub struct AddressesArgument {
    /// Which addresses of the server's name to connect to
    #[arg(long, value_enum, default_value = "first")]
    addresses: NameAddresses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NameAddresses {
    /// The first that accepts a connection
    First,
    /// All of them, each by an equal share of the connections
    All,
}

impl AddressesArgument {
    /// The addresses of a server to connect to by up to `most` connections, with TLS or not: the first, and further ones.
    pub fn remotes(
        &self,
        server: &Server,
        tls: bool,
        (most, dry_run): (u64, bool),
    ) -> anyhow::Result<(Remote, Vec<SocketAddr>)> {
        match server {
            Server::Unix(_) if tls => Err(usage("--tls", "a Unix socket has no name to verify")),
            Server::Unix(_) if self.addresses == NameAddresses::All => {
                Err(usage("--addresses", "a Unix socket has no other addresses"))
            }
            Server::Unix(socket) => Ok((socket.clone(), Vec::new())),
            Server::Ip(target) => {
                let mut others = self.of(target, dry_run);
                others.truncate(most as usize);
                Ok((others.remove(0).into(), others))
            }
        }
    }

    /// The addresses of a target to connect to, at least one; with `dry_run` no connection is tried.
    pub fn of(&self, target: &Target, dry_run: bool) -> Vec<SocketAddr> {
        match (self.addresses, dry_run) {
            (NameAddresses::All, _) => target.all(),
            (NameAddresses::First, true) => vec![target.first()],
            (NameAddresses::First, false) => vec![target.connectable()],
        }
    }
}

/// An address, or a name and its addresses in the order of the resolver (at least one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    name: Option<String>,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// The addresses of a name.
    pub fn of_name(name: &str, port: u16) -> Result<Self, String> {
        let wrong = |error: &dyn Display| match resolver::LIMITS {
            Some(limits) => format!("{name}: {error}: {limits}"),
            None => format!("{name}: {error}"),
        };
        resolver::without_shared_libraries();
        let found = (name, port).to_socket_addrs().map_err(|error| wrong(&error))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.is_empty() {
            true => Err(wrong(&"the name has no address")),
            false => Ok(Self {
                name: Some(name.to_owned()),
                addresses,
            }),
        }
    }

    /// The addresses of the host of a URL.
    pub fn of_url(url: &Url) -> Result<Self, String> {
        match url.address() {
            Some(address) => match zones::in_zone(address, url.zone.as_deref(), url.port) {
                Ok(address) => Ok(Self::of_address(address)),
                Err(error) => Err(error.to_string()),
            },
            None => Self::of_name(&url.host, url.port),
        }
    }

    fn of_address(address: SocketAddr) -> Self {
        Self {
            name: None,
            addresses: vec![address],
        }
    }

    /// The name, or the IP address.
    pub fn host(&self) -> String {
        let address = || self.addresses[0].ip().to_string();
        self.name.clone().unwrap_or_else(address)
    }

    /// The first address.
    pub fn first(&self) -> SocketAddr {
        self.show(self.addresses[0])
    }

    /// The first address that accepts a TCP connection, or the first of all if none does (RFC 8305 without its race).
    fn connectable(&self) -> SocketAddr {
        let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, ATTEMPT).is_ok();
        let several = Some(&self.addresses).filter(|addresses| addresses.len() > 1);
        let found = several.and_then(|addresses| addresses.iter().find(accepts));
        self.show(found.copied().unwrap_or(self.addresses[0]))
    }

    /// All of them, at least one.
    pub fn all(&self) -> Vec<SocketAddr> {
        if let Some(name) = &self.name {
            let all: Vec<String> = self.addresses.iter().map(shown).collect();
            log_line(&format!("{name} is {}", all.join(", ")));
        }
        self.addresses.clone()
    }

    fn show(&self, used: SocketAddr) -> SocketAddr {
        if let Some(name) = &self.name {
            let others = self.addresses.iter().filter(|address| **address != used);
            let others: Vec<String> = others.map(shown).collect();
            let others = match others.is_empty() {
                true => String::new(),
                false => format!(", not {}", others.join(", ")),
            };
            log_line(&format!("{name} is {}{others}", shown(&used)));
        }
        used
    }
}

/// The address, without a port if none was given.
fn shown(address: &SocketAddr) -> String {
    match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// Parses ADDRESS:PORT, NAME:PORT, or :PORT for 127.0.0.1; a link-local address names its device.
pub fn target(text: &str) -> Result<Target, String> {
    if let Some(address) = zones::address(text) {
        return address.map(Target::of_address).map_err(|error| error.to_string());
    }
    let wrong = || format!("'{text}': write 10.11.2.1:8080, [2001:db8::1]:8080, name:8080 or :8080");
    let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    match name {
        "" => Ok(Target::of_address((Ipv4Addr::LOCALHOST, port).into())),
        name if is_name(name) => Target::of_name(name, port),
        _ => Err(wrong()),
    }
}

/// A [`Target`] or a Unix socket.
#[derive(Debug, Clone)]
pub enum Server {
    Ip(Target),
    Unix(Remote),
}

impl Server {
    /// The first address, or the socket.
    pub fn first(self) -> Remote {
        match self {
            Self::Ip(target) => target.first().into(),
            Self::Unix(socket) => socket,
        }
    }
}

/// As [`target`]; also unix:PATH.
pub fn server(text: &str) -> Result<Server, String> {
    match text.starts_with("unix:") {
        true => text
            .parse()
            .map(Server::Unix)
            .map_err(|error: NoRemote| error.to_string()),
        false => target(text).map(Server::Ip),
    }
}

/// As [`target`]; of a name, its first address.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    target(text).map(|target| target.first())
}

/// As [`address`], for packets that this command does not send: a zone is dropped, since they carry none.
pub fn address_in_packets(text: &str) -> Result<SocketAddr, String> {
    let (text, _) = zones::split(text);
    text.parse().or_else(|_| address(&text))
}

/// An address without a port, or the first of a name; `None` if the text is neither. An IPv6 address that can also be read as
/// ADDRESS:PORT is refused, as [`target`] refuses it.
pub fn without_port(text: &str) -> Option<Result<IpAddr, String>> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed.and_then(|address| address.parse::<Ipv6Addr>().ok()) {
        return Some(Ok(address.into()));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let parts = text.rsplit_once(':');
        let with_port = parts
            .filter(|(address, port)| address.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok());
        return Some(match with_port {
            Some((before, port)) => Err(format!(
                "'{text}' may be an address, or an address and a port: write [{text}] or [{before}]:{port}"
            )),
            None => Ok(address),
        });
    }
    is_name(text).then(|| Target::of_name(text, 0).map(|target| target.first().ip()))
}

/// Whether the text can be a name: letters, digits, hyphens, dots, and a letter among them.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().all(allowed) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn names_and_ports_alone_are_targets() {
        let one = |text: &str| target(text).unwrap().addresses[0];
        assert_eq!(one("[::1]:80"), "[::1]:80".parse().unwrap());
        assert_eq!(one(":8080"), "127.0.0.1:8080".parse().unwrap());
        assert!(one("[fe80::1%lo]:80").to_string().starts_with("[fe80::1%"));
        assert_eq!(
            address_in_packets("[fe80::1%nodev0]:80"),
            Ok("[fe80::1]:80".parse().unwrap())
        );
        let named = target("localhost:8080").unwrap();
        assert_eq!(named.name.as_deref(), Some("localhost"));
        assert!(named.addresses.iter().all(|address| address.ip().is_loopback()));
        for text in [
            "localhost",
            "1.2.3:80",
            "localhost:http",
            "a b:80",
            "::1",
            "localhost:99999",
            "[fe80::1]:80",
            "[fe80::1%nodev0]:80",
        ] {
            assert!(target(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_address_of_a_name_that_accepts_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.77.1.1:0").unwrap().local_addr().unwrap();
        let named = |addresses: &[SocketAddr]| Target {
            name: Some("name".to_owned()),
            addresses: addresses.to_vec(),
        };
        assert_eq!(named(&[closed, open]).connectable(), open);
        assert_eq!(named(&[closed, closed]).connectable(), closed);
        assert_eq!(named(&[closed, open]).first(), closed);
        assert_eq!(named(&[closed, open]).all(), [closed, open]);
    }
}
