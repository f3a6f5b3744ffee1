//! HTTP servers and generators as children.

use super::{LoadProcess, Loading, Moment, ServerProcess, Serving};
use corelane_load::http::{HttpLoad, HttpLoaded, HttpPlan as HttpLoadPlan};
use corelane_serve::http::{HttpPlan as HttpServePlan, HttpServed, HttpServer};
use std::time::Duration;

/// An HTTP server in a process of its own.
pub type HttpServerProcess = ServerProcess<HttpServer>;

/// An HTTP generator in a process of its own.
pub type HttpLoadProcess = LoadProcess<HttpLoad>;

impl Serving for HttpServer {
    type Plan = HttpServePlan;
    type Served = HttpServed;
    const KIND: &'static str = "http_server";

    fn start(plan: HttpServePlan) -> Result<Self, String> {
        HttpServer::start(plan).map_err(|error| error.to_string())
    }

    fn served(&mut self) -> HttpServed {
        HttpServer::served(self)
    }

    fn stop(self) -> Result<(), String> {
        HttpServer::stop(self)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

impl Loading for HttpLoad {
    type Plan = HttpLoadPlan;
    type Loaded = HttpLoaded;
    const KIND: &'static str = "http_generator";

    fn start(plan: HttpLoadPlan) -> Result<Self, String> {
        HttpLoad::start(plan).map_err(|error| error.to_string())
    }

    fn wait(&mut self, longest: Duration) -> bool {
        HttpLoad::wait(self, longest)
    }

    fn reached(&self) -> Option<Moment> {
        let progress = self.progress();
        match (progress.opening, progress.draining) {
            (true, _) => None,
            (false, false) => Some(Moment::Opened),
            (false, true) => Some(Moment::Sent),
        }
    }

    fn stop(&self) {
        HttpLoad::stop(self);
    }

    fn finish(self) -> Result<HttpLoaded, String> {
        HttpLoad::finish(self).map_err(|error| error.to_string())
    }
}
