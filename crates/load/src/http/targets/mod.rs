//! Requests of a file: the plain and the JSON format of vegeta, and values from a CSV file in them.
//!
//! In: the text of a file. Out: entries of a URL pool, each with the line that it is from, or an error with the line.

mod csv;
mod json;
mod plain;
mod target;

pub use csv::Values;
pub use target::TargetError;

use super::scenario::UrlEntry;
use corelane_proto::http::url::{Scheme, Url};
use target::Body;

/// Maximum number of requests of a pool: each is kept as bytes, ready to send.
pub const MOST_REQUESTS: usize = 100_000;

/// The targets of a file, all on one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// The URL of their server, with the path `/`.
    pub server: Url,
    /// The requests, in order.
    pub entries: Vec<UrlEntry>,
}

impl Targets {
    /// Reads targets: lines of JSON if the first character is a brace, otherwise the plain format. Their URLs are paths
    /// on `server`, or whole URLs of one server.
    ///
    /// # Errors
    /// The first line that is no target, or is on another server.
    pub fn read(text: &str, server: Option<&Url>) -> Result<Self, TargetError> {
        let targets = match text.trim_start().starts_with('{') {
            true => json::read(text)?,
            false => plain::read(text)?,
        };
        let mut server = server.cloned();
        let mut entries = Vec::new();
        for target in targets {
            let wrong = |reason: String| TargetError::new(target.line, reason);
            let path = match (&mut server, target.url.starts_with('/')) {
                (None, true) => return Err(wrong("a path needs a server: give the URL, too".to_owned())),
                (Some(_), true) => target.url,
                (server, false) => {
                    let url: Url = target.url.parse().map_err(|error| wrong(format!("{error}")))?;
                    let known = server.get_or_insert_with(|| url.clone());
                    let origin = |url: &Url| (url.scheme == Scheme::Https, url.authority());
                    if origin(known) != origin(&url) {
                        let (known, found) = (known.authority(), url.authority());
                        let other = format!(
                            "{found} is another server than {known}: use a scenario (--scenario) for several"
                        );
                        return Err(wrong(other));
                    }
                    url.target
                }
            };
            let (body, body_file) = match target.body {
                Body::Nothing => (None, None),
                Body::Text(text) => (Some(text), None),
                Body::File(path) => (None, Some(path)),
            };
            entries.push(UrlEntry {
                path,
                method: Some(target.method),
                headers: target.headers,
                body,
                body_file,
                ..UrlEntry::default()
            });
            if entries.len() > MOST_REQUESTS {
                return Err(TargetError::new(
                    target.line,
                    format!("over {MOST_REQUESTS} targets"),
                ));
            }
        }
        let server = server.filter(|_| !entries.is_empty());
        let server = server
            .ok_or_else(|| TargetError::new(1, "there is no target: write GET http://127.0.0.1:8080/"))?;
        let target = "/".to_owned();
        Ok(Self {
            server: Url { target, ..server },
            entries,
        })
    }
}
