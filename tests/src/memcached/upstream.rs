//! Upstream memcached, as `tests/upstream.sh` built it.

use super::exchange::Addresses;
use crate::until;
use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running upstream memcached on loopback; ends when dropped.
pub struct Upstream {
    process: Child,
    addresses: Addresses,
}

impl Upstream {
    /// Where its program is; `None`, with a note, if it was not built.
    #[must_use]
    pub fn program() -> Option<PathBuf> {
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
        let program = cache.join("corelane/memcached/memcached");
        if !program.exists() {
            eprintln!("skipped: no {}: tests/prepare.sh builds it", program.display());
            return None;
        }
        Some(program)
    }

    /// Starts one with one thread, ports that the kernel chooses, and more memory than a test fills; `None`, with a note, if
    /// it was not built.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        let program = Self::program()?;
        let folder = tempfile::tempdir().expect("a folder");
        let ports = folder.path().join("ports");
        let mut command = Command::new(program);
        // As root it changes its user; it may remain root.
        command.args("-u root -l 127.0.0.1 -p -1 -U -1 -t 1 -m 1024".split(' '));
        command.env("MEMCACHED_PORT_FILENAME", &ports);
        command.stdin(Stdio::null());
        let process = command.spawn().expect("memcached starts");
        let mut found = None;
        until("memcached writes its ports", || {
            let text = fs::read_to_string(&ports).unwrap_or_default();
            let address = |name: &str| {
                let port = text
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.parse().ok());
                port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            };
            found = address("TCP INET: ").zip(address("UDP INET: "));
            found.is_some()
        });
        let (stream, datagrams) = found.expect("two ports");
        Some(Self {
            process,
            addresses: Addresses {
                stream,
                datagrams: Some(datagrams),
            },
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
