//! Values of a scenario that are no plain quantities.

use crate::http::StatusRange;
use crate::streams::{PlannedPhase, Until};
use corelane_host::zones;
use corelane_measure::quantity::read;
use corelane_worker::engine::Remote;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// Status codes that count as success.
pub(super) fn statuses<'de, R: From<Vec<StatusRange>>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<R, D::Error> {
    let number = |number: f64| StatusRange::parse_list(&number.to_string());
    let expected = "a list of statuses such as 200,204,3xx,400-404";
    read::text_or_number(deserializer, expected, StatusRange::parse_list, number)
}

/// Header fields, by name.
pub(super) fn fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    BTreeMap::deserialize(deserializer).map(|fields| fields.into_iter().collect())
}

/// Addresses with ports, link-local ones with their device, and Unix sockets.
pub(super) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Remote>, D::Error> {
    let address = |text: &String| match zones::address(text) {
        Some(address) => address.map(Remote::from).map_err(de::Error::custom),
        None => text.parse().map_err(de::Error::custom),
    };
    Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(address)
        .collect()
}

/// A phase as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    /// Name in reports.
    name: String,
    /// Share of clients or of their rate at its beginning; all by default.
    #[serde(default, deserialize_with = "read::share")]
    from: Option<f64>,
    /// Share at its end; by default the share at its beginning.
    #[serde(default, deserialize_with = "read::share")]
    to: Option<f64>,
    /// Ends after this time.
    #[serde(default, deserialize_with = "read::seconds")]
    duration: Option<f64>,
    /// Ends after exactly this many requests.
    #[serde(default, deserialize_with = "read::number")]
    requests: Option<u64>,
    /// Ends after this many failed requests.
    #[serde(default, deserialize_with = "read::number")]
    failures: Option<u64>,
}

/// The phases of a run.
pub(super) fn phases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PlannedPhase>, D::Error> {
    let written = Vec::<Phase>::deserialize(deserializer)?;
    let planned = written.into_iter().map(|phase| {
        let from = phase.from.unwrap_or(1.0);
        PlannedPhase {
            name: phase.name,
            from,
            to: phase.to.unwrap_or(from),
            until: Until {
                duration_s: phase.duration,
                requests: phase.requests,
                failures: phase.failures,
            },
        }
    });
    let planned: Vec<PlannedPhase> = planned.collect();
    let endless = |phase: &&PlannedPhase| phase.until == Until::default();
    match planned.iter().rev().skip(1).find(endless) {
        Some(PlannedPhase { name, .. }) => Err(de::Error::custom(format!(
            "phase '{name}': only the last phase may have no end: set duration, requests or failures"
        ))),
        None => Ok(planned),
    }
}
