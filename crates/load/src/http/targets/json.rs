//! The JSON format of vegeta: one object per line, with `method`, `url`, and perhaps `body` (base64) and `header` (name
//! to values); vegeta's `lib/target.schema.json`.

use super::target::{Body, Target, TargetError};
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
    lines.map(|(line, number)| target(line, number)).collect()
}

fn target(line: &str, number: usize) -> Result<Target, TargetError> {
    let wrong = |reason: String| TargetError::new(number, reason);
    let read: Line = serde_json::from_str(line).map_err(|error| {
        let reason = error.to_string();
        wrong(reason.split(" at line ").next().unwrap_or_default().to_owned())
    })?;
    let body =
        match read.body.as_str() {
            "" => Body::Nothing,
            coded => {
                let bytes = STANDARD
                    .decode(coded)
                    .map_err(|error| wrong(format!("body: {error} (base64)")))?;
                let text = String::from_utf8(bytes);
                Body::Text(text.map_err(|_| {
                    wrong("body: only text (UTF-8); name a file in the plain format".to_owned())
                })?)
            }
        };
    let values =
        |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    Ok(Target {
        line: number,
        method: read.method,
        url: read.url,
        headers: read.header.into_iter().flat_map(values).collect(),
        body,
    })
}
