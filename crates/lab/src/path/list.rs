//! What a request runs: the scenarios, a line each.

use super::document::{Request, ScenarioName};
use super::{coalesce, dispatch, fragments, software_rss, tunnels};
use crate::cases::{Asked, Scenario};

impl Asked for Request {
    const SCHEMA: &'static str = "corelane/path/1";

    fn subject(&self) -> String {
        format!("Path of frames: {}", self.scenario)
    }

    fn title(&self) -> String {
        self.scenario.to_string()
    }

    fn turns(&self) -> (u32, u64) {
        (self.rounds, self.seed)
    }

    fn scenario(&self) -> &'static Scenario<Self> {
        match self.scenario {
            ScenarioName::Fragments => &fragments::SCENARIO,
            ScenarioName::Tunnels => &tunnels::SCENARIO,
            ScenarioName::Coalesce => &coalesce::SCENARIO,
            ScenarioName::Dispatch => &dispatch::SCENARIO,
            ScenarioName::SoftwareRss => &software_rss::SCENARIO,
        }
    }
}
