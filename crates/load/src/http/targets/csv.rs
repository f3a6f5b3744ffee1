//! Values of a CSV file (RFC 4180, with a line of names first) in requests: `{column}` in a path, a header field or a
//! body is replaced by the value of a row. What is in braces and no column stays as it is.

use super::MOST_REQUESTS;
use super::target::TargetError;
use crate::http::scenario::UrlEntry;
use std::fmt::Write as _;

/// The values of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Values {
    /// Reads a CSV file: a line of names, and rows with as many values.
    ///
    /// # Errors
    /// The line that is not valid.
    pub fn read(text: &str) -> Result<Self, TargetError> {
        let mut records = records(text.strip_prefix('\u{feff}').unwrap_or(text))?.into_iter();
        let (_, columns) = records
            .next()
            .ok_or_else(|| TargetError::new(1, "there is no line of column names"))?;
        let mut rows = Vec::new();
        for (line, row) in records {
            if row.len() != columns.len() {
                let (found, wanted) = (row.len(), columns.len());
                let reason = format!("{found} values, not {wanted} as in the first line");
                return Err(TargetError::new(line, reason));
            }
            rows.push(row);
        }
        match rows.is_empty() {
            true => Err(TargetError::new(2, "there is no row of values")),
            false => Ok(Self { columns, rows }),
        }
    }

    /// The requests with the values of each row, row after row.
    ///
    /// # Errors
    /// If there would be over [`MOST_REQUESTS`], or no request names a column.
    pub fn fill(&self, entries: &[UrlEntry]) -> Result<Vec<UrlEntry>, String> {
        let texts = |entry: &UrlEntry| {
            let headers = entry.headers.iter().map(|(_, value)| value.clone());
            let path = [entry.path.clone()].into_iter();
            path.chain(entry.body.clone()).chain(headers).collect::<String>()
        };
        let named = |entry: &UrlEntry| {
            let text = texts(entry);
            self.columns
                .iter()
                .any(|column| text.contains(&format!("{{{column}}}")))
        };
        if !entries.iter().any(named) {
            let columns: Vec<String> = self
                .columns
                .iter()
                .map(|column| format!("{{{column}}}"))
                .collect();
            return Err(format!("no URL, header or body has {}", columns.join(" or ")));
        }
        let all = entries.len().saturating_mul(self.rows.len());
        if all > MOST_REQUESTS {
            let (rows, entries) = (self.rows.len(), entries.len());
            return Err(format!(
                "{rows} rows for {entries} requests are over {MOST_REQUESTS} requests"
            ));
        }
        let filled = self.rows.iter().flat_map(|row| {
            entries.iter().map(|entry| UrlEntry {
                path: self.filled(&entry.path, row, encoded),
                headers: (entry.headers.iter())
                    .map(|(name, value)| (name.clone(), self.filled(value, row, str::to_owned)))
                    .collect(),
                body: entry
                    .body
                    .as_ref()
                    .map(|body| self.filled(body, row, str::to_owned)),
                ..entry.clone()
            })
        });
        Ok(filled.collect())
    }

    /// The text with its columns replaced, once from left to right: values are not searched again.
    fn filled(&self, text: &str, row: &[String], written: fn(&str) -> String) -> String {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let column = after.split_once('}').and_then(|(name, after)| {
                let place = self.columns.iter().position(|column| column == name)?;
                Some((place, after))
            });
            match column {
                Some((place, after)) => {
                    filled.push_str(&written(&row[place]));
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled + rest
    }
}

/// Percent-encoded, except unreserved characters (RFC 3986 2.3).
fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            byte => write!(encoded, "%{byte:02X}").expect("a String takes all"),
        }
    }
    encoded
}

/// The records, each with the line on which it begins. Empty lines are none.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TargetError> {
    let (mut records, mut line) = (Vec::new(), 1);
    let mut rest = text;
    while !rest.is_empty() {
        let (began, mut record) = (line, Vec::new());
        loop {
            let (value, after) = value(rest, line)?;
            line += value.matches('\n').count();
            record.push(value);
            rest = after;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        let ended = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'));
        rest = match ended {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return Err(TargetError::new(line, "text follows the quotes of a value")),
        };
        line += 1;
        if record.iter().any(|value| !value.is_empty()) {
            records.push((began, record));
        }
    }
    Ok(records)
}

/// The next value, and what follows it.
fn value(text: &str, line: usize) -> Result<(String, &str), TargetError> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let end = if text[..end].ends_with('\r') { end - 1 } else { end };
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    loop {
        let (before, after) = rest
            .split_once('"')
            .ok_or_else(|| TargetError::new(line, "quotes of a value are not closed"))?;
        value.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return Ok((value, after)),
        }
    }
}
