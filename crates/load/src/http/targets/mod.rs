//! Requests of a file: the plain and the JSON format of vegeta, and values from a CSV file in them.
//!
//! In: the text of a file. Out: entries of a URL pool, or an error with its line.

mod csv;
mod json;
mod plain;
mod target;

pub use csv::Values;
pub use target::TargetError;

use super::scenario::UrlEntry;
use corelane_proto::http::url::{Url, UrlError};

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
        let (mut server, mut entries) = (server.cloned(), Vec::new());
        for (line, mut entry) in targets {
            let wrong = |reason: String| TargetError::new(line, reason);
            if !entry.path.starts_with('/') {
                let url: Url = (entry.path.parse()).map_err(|error: UrlError| wrong(error.to_string()))?;
                let server = server.get_or_insert_with(|| url.clone());
                let [known, found] = [&*server, &url].map(Url::authority);
                if (server.scheme, &known) != (url.scheme, &found) {
                    let several = "use a scenario (--scenario) for several";
                    return Err(wrong(format!(
                        "{found} is another server than {known}: {several}"
                    )));
                }
                entry.path = url.target;
            }
            if server.is_none() {
                return Err(wrong("a path needs a server: give the URL, too".to_owned()));
            }
            entries.push(entry);
            if entries.len() > MOST_REQUESTS {
                return Err(wrong(format!("over {MOST_REQUESTS} targets")));
            }
        }
        let server = server.filter(|_| !entries.is_empty());
        let none = || TargetError::new(1, "there is no target: write GET http://127.0.0.1:8080/");
        let target = "/".to_owned();
        Ok(Self {
            server: Url {
                target,
                ..server.ok_or_else(none)?
            },
            entries,
        })
    }
}
