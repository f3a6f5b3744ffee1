//! Values of a CSV file (RFC 4180, with a line of names first) in requests: `{column}` in a path, a header field or a
//! body is replaced by the value of a row. What is in braces and no column stays as it is.

use super::MOST_REQUESTS;
use super::target::TargetError;
use crate::http::scenario::UrlEntry;

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
        let wrong = |line, reason: &str| Err(TargetError::new(line, reason));
        let Some((_, columns)) = records.next() else {
            return wrong(1, "there is no line of column names");
        };
        let mut rows = Vec::new();
        for (line, row) in records {
            if row.len() != columns.len() {
                let (found, wanted) = (row.len(), columns.len());
                let reason = format!("{found} values, not {wanted} as in the first line");
                return wrong(line, &reason);
            }
            rows.push(row);
        }
        match rows.is_empty() {
            true => wrong(2, "there is no row of values"),
            false => Ok(Self { columns, rows }),
        }
    }

    /// The requests with the values of each row, row after row.
    ///
    /// # Errors
    /// If there would be over [`MOST_REQUESTS`], or no request names a column.
    pub fn fill(&self, entries: &[UrlEntry]) -> Result<Vec<UrlEntry>, String> {
        let (rows, requests) = (self.rows.len(), entries.len());
        if rows.saturating_mul(requests) > MOST_REQUESTS {
            return Err(format!(
                "{rows} rows for {requests} requests are over {MOST_REQUESTS} requests"
            ));
        }
        let rows = self.rows.iter();
        let filled = rows.flat_map(|row| entries.iter().map(move |entry| self.filled(entry, row)));
        let filled: Vec<UrlEntry> = filled.collect();
        match filled.iter().eq(entries.iter().cycle().take(filled.len())) {
            true => Err(format!(
                "no URL, header or body has {{{}}}",
                self.columns.join("} or {")
            )),
            false => Ok(filled),
        }
    }

    /// The request with the values of a row.
    fn filled(&self, entry: &UrlEntry, row: &[String]) -> UrlEntry {
        let as_it_is = |text: &String| self.replaced(text, row, str::to_owned);
        let field = |(name, value): &(String, String)| (name.clone(), as_it_is(value));
        UrlEntry {
            path: self.replaced(&entry.path, row, encoded),
            headers: entry.headers.iter().map(field).collect(),
            body: entry.body.as_ref().map(as_it_is),
            ..entry.clone()
        }
    }

    /// The text with its columns replaced, once from left to right: values are not searched again.
    fn replaced(&self, text: &str, row: &[String], written: fn(&str) -> String) -> String {
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            replaced.push_str(before);
            let named = after.split_once('}').and_then(|(name, after)| {
                let place = self.columns.iter().position(|column| column == name)?;
                Some((written(&row[place]), after))
            });
            let (value, after) = named.unwrap_or_else(|| ("{".to_owned(), after));
            replaced.push_str(&value);
            rest = after;
        }
        replaced + rest
    }
}

/// Percent-encoded, except unreserved characters (RFC 3986 2.3).
fn encoded(value: &str) -> String {
    let encoded = value.bytes().map(|byte| match byte {
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// The records, each with the line on which it begins. Empty lines are none.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TargetError> {
    let (mut records, mut line, mut rest) = (Vec::new(), 1, text);
    while !rest.is_empty() {
        if let Some(after) = after_end(rest) {
            (rest, line) = (after, line + 1);
            continue;
        }
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
        rest = match after_end(rest) {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return Err(TargetError::new(line, "text follows the quotes of a value")),
        };
        line += 1;
        records.push((began, record));
    }
    Ok(records)
}

/// What follows the end of a line, if the text begins with one.
fn after_end(text: &str) -> Option<&str> {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n'))
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
