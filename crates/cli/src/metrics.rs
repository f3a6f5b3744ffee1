//! `--metrics` of servers, generators and the bridge.

use crate::log::log_line;
use crate::names::server;
use crate::outcome::usage;
use clap::Args;
use corelane_serve::endpoint::Endpoint;
use corelane_worker::engine::Remote;
use std::io;

/// `--metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgument {
    /// Serve metrics for Prometheus while running: ADDRESS:PORT, :PORT on loopback, or unix:PATH; see docs/METRICS.md
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<Remote>,
}

impl MetricsArgument {
    /// Listens, and says where; `None` if metrics are not asked for.
    pub fn listen(&self) -> anyhow::Result<Option<Endpoint>> {
        let Some(address) = &self.metrics else {
            return Ok(None);
        };
        let refused = |error| usage("--metrics", refusal(address, &error));
        let endpoint = Endpoint::listen(address).map_err(refused)?;
        log_line(&format!("metrics at {}", endpoint.place()));
        Ok(Some(endpoint))
    }
}

/// Why nothing can listen there, and what to do.
fn refusal(address: &Remote, error: &io::Error) -> String {
    match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, Remote::Ip(used)) => format!(
            "{address} is in use: give another port, or 0; `ss -lntp 'sport = {}'` shows its holder",
            used.port()
        ),
        (io::ErrorKind::AddrInUse, Remote::Unix(_)) => {
            format!(
                "{address} is in use: a process listens there, or it is a file of another kind: give another path"
            )
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            format!("{address}: no device has this address: give one of this machine, or :PORT for loopback")
        }
        _ => format!("{address}: {error}"),
    }
}

/// Parses ADDRESS:PORT, :PORT or unix:PATH.
fn address(text: &str) -> Result<Remote, String> {
    server(text).map(|server| server.first())
}
