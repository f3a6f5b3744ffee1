//! JSON as a reader wants it: indented, with the scalars of an array beside each other.

use serde::Serialize;

/// Columns of a line of scalars.
const WIDTH: usize = 100;

/// A document as JSON, indented by two, ending in a newline. An array of numbers, strings and other scalars, such as an
/// indirection table, fills lines instead of taking one per element.
///
/// # Errors
/// Any error of serde; a valid document causes none.
pub fn pretty(document: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let indented = serde_json::to_string_pretty(document)?;
    let mut text = String::with_capacity(indented.len());
    let mut lines = indented.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        if line.ends_with('[') {
            let scalars = scalars(lines.clone());
            let indent = line.len() - line.trim_start().len() + 2;
            let mut column = line.len();
            for (index, scalar) in lines.by_ref().take(scalars).map(str::trim_start).enumerate() {
                if index > 0 && column + scalar.len() >= WIDTH {
                    text.push('\n');
                    text.extend(std::iter::repeat_n(' ', indent));
                    column = indent;
                } else if index > 0 {
                    text.push(' ');
                    column += 1;
                }
                text.push_str(scalar);
                column += scalar.len();
            }
            if scalars > 0 {
                text.push_str(lines.next().unwrap_or_default().trim_start());
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// The number of lines until the array ends, if each is a scalar; otherwise 0. A line of JSON ends in a bracket only where an
/// object or array begins or ends: strings end in a quotation mark.
fn scalars<'a>(mut lines: impl Iterator<Item = &'a str>) -> usize {
    let mut nested = false;
    let end = lines.position(|line| {
        nested = line.ends_with(['[', '{']);
        nested || line.trim_start().starts_with(']')
    });
    end.filter(|_| !nested).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_of_an_array_fill_lines_and_the_value_stays() {
        let long: Vec<u32> = (0..128).collect();
        let document = json!({
            "table": long,
            "empty": [],
            "words": ["a, [b", "{", "]", null, true, 1.5],
            "nested": [[1, 2], [], {"a": [3]}],
            "text": "[\n1,\n2\n]",
        });
        let text = pretty(&document).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            document
        );
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(
            text.contains(r#""words": ["a, [b", "{", "]", null, true, 1.5]"#),
            "{text}"
        );
        assert!(
            text.contains("  \"nested\": [\n    [1, 2],\n    [],\n    {\n      \"a\": [3]\n    }\n  ]"),
            "{text}"
        );
        assert!(text.lines().count() < 25, "{text}");
        assert_eq!(pretty(&[1, 2]).unwrap(), "[1, 2]\n");
        assert_eq!(pretty(&7).unwrap(), "7\n");
    }
}
