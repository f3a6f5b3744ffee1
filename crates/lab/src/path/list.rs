//! The scenarios, a line each.

use super::document::{Request, ScenarioName};
use super::{coalesce, dispatch, fragments, software_rss, tunnels};
use crate::cases::Scenario;

/// The scenario of a name.
pub(super) fn scenario(name: ScenarioName) -> &'static Scenario<Request> {
    match name {
        ScenarioName::Fragments => &fragments::SCENARIO,
        ScenarioName::Tunnels => &tunnels::SCENARIO,
        ScenarioName::Coalesce => &coalesce::SCENARIO,
        ScenarioName::Dispatch => &dispatch::SCENARIO,
        ScenarioName::SoftwareRss => &software_rss::SCENARIO,
    }
}
