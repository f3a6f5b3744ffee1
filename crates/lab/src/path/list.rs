//! The scenarios, a line each.

use super::document::ScenarioName;
use super::fragments;
use super::scenario::Scenario;

/// The scenario of a name.
pub(super) fn scenario(name: ScenarioName) -> &'static Scenario {
    match name {
        ScenarioName::Fragments => &fragments::SCENARIO,
    }
}
