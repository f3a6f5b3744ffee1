//! The scenarios, a line each.

use super::document::ScenarioName;
use super::scenario::Scenario;
use super::{coalesce, dispatch, fragments, software_rss, tunnels};

/// The scenario of a name.
pub(super) fn scenario(name: ScenarioName) -> &'static Scenario {
    match name {
        ScenarioName::Fragments => &fragments::SCENARIO,
        ScenarioName::Tunnels => &tunnels::SCENARIO,
        ScenarioName::Coalesce => &coalesce::SCENARIO,
        ScenarioName::Dispatch => &dispatch::SCENARIO,
        ScenarioName::SoftwareRss => &software_rss::SCENARIO,
    }
}
