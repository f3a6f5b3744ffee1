//! TCP servers and generators as children.

use super::{LoadProcess, Loading, Moment, ServerProcess, Serving};
use corelane_load::tcp::{TcpLoad, TcpLoaded, TcpPlan as TcpLoadPlan};
use corelane_serve::tcp::{TcpPlan as TcpServePlan, TcpServed, TcpServer};
use std::time::Duration;

/// A TCP server in a process of its own.
pub type TcpServerProcess = ServerProcess<TcpServer>;

/// A TCP generator in a process of its own.
pub type TcpLoadProcess = LoadProcess<TcpLoad>;

impl Serving for TcpServer {
    type Plan = TcpServePlan;
    type Served = TcpServed;
    const KIND: &'static str = "tcp_server";

    fn start(plan: TcpServePlan) -> Result<Self, String> {
        TcpServer::start(plan).map_err(|error| error.to_string())
    }

    fn served(&mut self) -> TcpServed {
        TcpServer::served(self)
    }

    fn stop(self) -> Result<(), String> {
        TcpServer::stop(self).map(drop).map_err(|error| error.to_string())
    }
}

impl Loading for TcpLoad {
    type Plan = TcpLoadPlan;
    type Loaded = TcpLoaded;
    const KIND: &'static str = "tcp_generator";

    fn start(plan: TcpLoadPlan) -> Result<Self, String> {
        TcpLoad::start(plan).map_err(|error| error.to_string())
    }

    fn wait(&mut self, longest: Duration) -> bool {
        TcpLoad::wait(self, longest)
    }

    fn reached(&self) -> Option<Moment> {
        let progress = self.progress();
        match (progress.opening, progress.drained) {
            (true, _) => None,
            (false, false) => Some(Moment::Opened),
            (false, true) => Some(Moment::Sent),
        }
    }

    fn stop(&self) {
        TcpLoad::stop(self);
    }

    fn finish(self) -> Result<TcpLoaded, String> {
        TcpLoad::finish(self).map_err(|error| error.to_string())
    }
}
