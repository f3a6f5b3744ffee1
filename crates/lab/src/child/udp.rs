//! UDP servers and generators as children.

use super::{LoadProcess, Loading, Moment, ServerProcess, Serving};
use corelane_load::udp::{UdpLoad, UdpLoaded, UdpPlan as UdpLoadPlan};
use corelane_rss::IndirectionTable;
use corelane_serve::udp::{UdpPlan as UdpServePlan, UdpServed, UdpServer};
use serde_json::Value;
use std::time::Duration;

/// A UDP server in a process of its own.
pub type UdpServerProcess = ServerProcess<UdpServer>;

/// A UDP generator in a process of its own.
pub type UdpLoadProcess = LoadProcess<UdpLoad>;

impl Serving for UdpServer {
    type Plan = UdpServePlan;
    type Served = UdpServed;
    const KIND: &'static str = "udp_server";

    fn start(plan: UdpServePlan) -> Result<Self, String> {
        UdpServer::start(plan).map_err(|error| error.to_string())
    }

    fn served(&mut self) -> UdpServed {
        UdpServer::served(self)
    }

    fn change_table(&mut self, table: IndirectionTable) -> Result<usize, String> {
        UdpServer::change_table(self, table).map_err(|error| error.to_string())
    }

    fn flows(&mut self) -> Result<Value, String> {
        let counts = UdpServer::flows(self);
        super::as_value(&counts.ok_or("its plan does not have it count flows")?)
    }

    fn look(&mut self) -> Result<(), String> {
        self.collect_samples();
        Ok(())
    }

    fn stop(self) -> Result<(), String> {
        UdpServer::stop(self).map(drop).map_err(|error| error.to_string())
    }
}

impl Loading for UdpLoad {
    type Plan = UdpLoadPlan;
    type Loaded = UdpLoaded;
    const KIND: &'static str = "udp_generator";

    fn start(plan: UdpLoadPlan) -> Result<Self, String> {
        UdpLoad::start(plan).map_err(|error| error.to_string())
    }

    fn wait(&mut self, longest: Duration) -> bool {
        UdpLoad::wait(self, longest)
    }

    fn reached(&self) -> Option<Moment> {
        self.sending_ended().then_some(Moment::Sent)
    }

    fn stop(&self) {
        UdpLoad::stop(self);
    }

    fn finish(self) -> Result<UdpLoaded, String> {
        UdpLoad::finish(self).map_err(|error| error.to_string())
    }
}
