//! `--metrics` of servers, generators and the bridge.

use crate::log::log_line;
use crate::names;
use crate::outcome::usage;
use clap::Args;
use corelane_serve::endpoint::{Endpoint, MetricsAddress};

/// `--metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgument {
    /// Serve metrics for Prometheus while running: ADDRESS:PORT, :PORT on loopback, or unix:PATH; see docs/METRICS.md
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<MetricsAddress>,
}

impl MetricsArgument {
    /// Listens, and says where; `None` if metrics are not asked for.
    pub fn listen(&self) -> anyhow::Result<Option<Endpoint>> {
        let Some(address) = &self.metrics else {
            return Ok(None);
        };
        let refused = |error| usage("--metrics", format!("{address}: {error}"));
        let endpoint = Endpoint::listen(address).map_err(refused)?;
        log_line(&format!("metrics at {}", endpoint.address()));
        Ok(Some(endpoint))
    }
}

/// Parses ADDRESS:PORT, :PORT or unix:PATH.
fn address(text: &str) -> Result<MetricsAddress, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("write unix:PATH".to_owned()),
        Some(path) => Ok(MetricsAddress::Unix(path.into())),
        None => names::address(text).map(MetricsAddress::Tcp),
    }
}
