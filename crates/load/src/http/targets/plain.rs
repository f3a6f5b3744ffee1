//! The plain format of vegeta: `METHOD URL`, then lines `Name: value`, then `@FILE` with the body; empty lines between
//! targets, and comments from `#` to the end of a line that begins with it.

use super::target::{Target, TargetError};
use crate::http::scenario::UrlEntry;

pub(super) fn read(text: &str) -> Result<Vec<Target>, TargetError> {
    let mut targets: Vec<Target> = Vec::new();
    // Whether the lines that follow belong to the last target.
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        let wrong = |reason: &str| TargetError::new(number, format!("'{line}': {reason}"));
        let last = targets.last_mut().filter(|_| open).map(|(_, entry)| entry);
        if line.is_empty() {
            open = false;
        } else if let Some((method, url)) = start(line) {
            let entry = UrlEntry {
                path: url.to_owned(),
                method: Some(method.to_owned()),
                ..UrlEntry::default()
            };
            targets.push((number, entry));
            open = true;
        } else if let Some(path) = line.strip_prefix('@') {
            let last = last.ok_or_else(|| wrong("a body follows the line METHOD URL"))?;
            (last.body_file, open) = (Some(path.into()), false);
        } else if !line.starts_with('#') {
            let last = last.ok_or_else(|| wrong("write METHOD URL, such as GET http://127.0.0.1:8080/"))?;
            let field = line
                .split_once(':')
                .ok_or_else(|| wrong("write a field as 'Name: value'"))?;
            last.headers
                .push((field.0.trim_end().to_owned(), field.1.trim().to_owned()));
        }
    }
    Ok(targets)
}

/// `METHOD URL`: capital letters, and a path or a URL.
fn start(line: &str) -> Option<(&str, &str)> {
    let (method, url) = line.split_once([' ', '\t'])?;
    let is_method = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    (!method.is_empty() && method.bytes().all(is_method)).then_some((method, url.trim()))
}
