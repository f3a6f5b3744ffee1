//! Values of a scenario, written as on the command line: `10ms`, `64KiB`, `5k`, `1%`, `200-399`; plain numbers if no
//! unit is required.

use crate::http::StatusRange;
use crate::streams::{PlannedPhase, Until};
use corelane_host::zones;
use corelane_measure::quantity;
use corelane_worker::engine::Remote;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// The value as written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text with a unit, or a number")]
enum Written {
    Number(f64),
    Text(String),
}

/// Parses strings with `text` and numbers with `number`; if neither yields a value, the error states what is expected.
fn read<'de, T, R: From<T>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    text: impl FnOnce(&str) -> Option<T>,
    number: impl FnOnce(f64) -> Option<T>,
) -> Result<R, D::Error> {
    let (value, shown) = match Written::deserialize(deserializer)? {
        Written::Text(written) => (text(&written), written),
        Written::Number(written) => (number(written), written.to_string()),
    };
    let wrong = || de::Error::custom(format!("'{shown}' is not {expected}"));
    value.map(R::from).ok_or_else(wrong)
}

fn whole(number: f64) -> Option<u64> {
    (number >= 1.0 && number.fract() == 0.0 && number <= u64::MAX as f64).then_some(number as u64)
}

/// A duration in seconds.
pub(super) fn seconds<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| Some(quantity::parse_duration(text).ok()?.as_secs_f64());
    read(deserializer, "a time such as 10ms", text, |_| None)
}

/// A number of bytes, more than 0.
pub(super) fn bytes<'de, R: From<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| quantity::parse_size(text).ok().filter(|bytes| *bytes > 0);
    read(deserializer, "a size such as 64KiB", text, whole)
}

/// A number, more than 0.
pub(super) fn number<'de, R: From<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| quantity::parse_count(text).ok().filter(|number| *number > 0);
    read(deserializer, "a number such as 10k", text, whole)
}

/// A rate per second, more than 0.
pub(super) fn rate<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let positive = |rate: f64| (rate > 0.0 && rate.is_finite()).then_some(rate);
    let text = |text: &str| quantity::parse_rate(text).ok().and_then(positive);
    read(deserializer, "a rate such as 5k", text, positive)
}

/// A fraction of 1.
pub(super) fn share<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let share = |share: f64| (0.0..=1.0).contains(&share).then_some(share);
    let text = |text: &str| quantity::parse_share(text).ok().filter(|_| text.ends_with('%'));
    read(deserializer, "a share such as 0.01 or 1%", text, share)
}

/// Status codes that count as success.
pub(super) fn statuses<'de, R: From<Vec<StatusRange>>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<R, D::Error> {
    let number = |number: f64| StatusRange::parse_list(&number.to_string());
    let expected = "a list of statuses such as 200,204,3xx,400-404";
    read(deserializer, expected, StatusRange::parse_list, number)
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
    #[serde(default, deserialize_with = "share")]
    from: Option<f64>,
    /// Share at its end; by default the share at its beginning.
    #[serde(default, deserialize_with = "share")]
    to: Option<f64>,
    /// Ends after this time.
    #[serde(default, deserialize_with = "seconds")]
    duration: Option<f64>,
    /// Ends after exactly this many requests.
    #[serde(default, deserialize_with = "number")]
    requests: Option<u64>,
    /// Ends after this many failed requests.
    #[serde(default, deserialize_with = "number")]
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
