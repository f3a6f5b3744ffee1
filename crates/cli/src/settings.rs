//! Settings in one flag, such as `hybrid,ip=deferred/flow,limit=1024`: the fields of a section of a file.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Reads settings as the section that they are in a file; see [`section`].
pub fn settings<T: DeserializeOwned>(text: &str, bare: Option<&str>) -> Result<T, String> {
    Value::Table(section(text, bare)?)
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())
}

/// The section that settings are in a file: a word without `=` is the value of the field `bare`, or true for the field of
/// its name.
pub fn section(text: &str, bare: Option<&str>) -> Result<Table, String> {
    let mut table = Table::new();
    for setting in text.split(',').filter(|setting| !setting.is_empty()) {
        let (name, value) = match (setting.split_once('='), bare) {
            (Some((name, value)), _) => (name, read(value)),
            (None, Some(bare)) => (bare, read(setting)),
            (None, None) => (setting, Value::Boolean(true)),
        };
        if table.insert(name.trim().to_owned(), value).is_some() {
            return Err(format!("'{name}' is given twice"));
        }
    }
    Ok(table)
}

/// A number, true or false, or text.
fn read(value: &str) -> Value {
    let value = value.trim();
    match (value.parse(), value.parse()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(truth)) => Value::Boolean(truth),
        _ => Value::String(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Section {
        name: String,
        #[serde(default)]
        count: u32,
        #[serde(default)]
        strict: bool,
    }

    #[test]
    fn settings_are_read_as_a_section_of_a_file() {
        let section = |name: &str, count, strict| {
            Ok(Section {
                name: name.to_owned(),
                count,
                strict,
            })
        };
        assert_eq!(settings("a,count=3", Some("name")), section("a", 3, false));
        assert_eq!(settings("name=b,strict", None), section("b", 0, true));
        assert_eq!(settings("name=b, strict=false", None), section("b", 0, false));
        for (text, message) in [
            ("count=3", "missing field `name`"),
            ("name=a,name=b", "'name' is given twice"),
            (
                "name=a,other=1",
                "unknown field `other`, expected one of `name`, `count`, `strict`",
            ),
            ("name=a,count=-1", "invalid value: integer `-1`, expected u32"),
        ] {
            assert_eq!(settings::<Section>(text, None), Err(message.to_owned()), "{text}");
        }
    }
}
