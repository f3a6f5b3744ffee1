//! The JSON format of vegeta: one object per line, with `method`, `url`, and perhaps `body` (base64) and `header` (name
//! to values); vegeta's `lib/target.schema.json`.

use super::target::{Target, TargetError};
use crate::http::scenario::UrlEntry;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    method: String,
    url: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    header: BTreeMap<String, Vec<String>>,
}

pub(super) fn read(text: &str) -> Result<Vec<Target>, TargetError> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let target = |(line, number)| match entry(line) {
        Ok(entry) => Ok((number, entry)),
        Err(reason) => Err(TargetError::new(number, reason)),
    };
    lines.map(target).collect()
}

fn entry(line: &str) -> Result<UrlEntry, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| {
        let reason = error.to_string();
        reason.split(" at line ").next().unwrap_or_default().to_owned()
    })?;
    let body = STANDARD
        .decode(&line.body)
        .map_err(|error| format!("body: {error} (base64)"))?;
    let body = String::from_utf8(body)
        .map_err(|_| "body: only text (UTF-8); name a file in the plain format".to_owned())?;
    let values =
        |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    Ok(UrlEntry {
        path: line.url,
        method: Some(line.method),
        headers: line.header.into_iter().flat_map(values).collect(),
        body: Some(body).filter(|body| !body.is_empty()),
        ..UrlEntry::default()
    })
}
