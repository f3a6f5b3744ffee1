//! The scenarios, a line each.

use super::document::ScenarioName;
use super::scenario::Scenario;
use super::{dispatch, fragments, software_rss};

/// The scenario of a name.
pub(super) fn scenario(name: ScenarioName) -> &'static Scenario {
    match name {
        ScenarioName::Fragments => &fragments::SCENARIO,
        ScenarioName::Dispatch => &dispatch::SCENARIO,
        ScenarioName::SoftwareRss => &software_rss::SCENARIO,
    }
}
