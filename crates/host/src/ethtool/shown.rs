//! What `ethtool -x` shows of a device, as text or as JSON (`ethtool --json -x`): hash, key and table, also of another machine.

use std::collections::BTreeMap;

use corelane_measure::words::read_word;
use serde::Deserialize;
use serde_json::Value;

use super::steering::{HashFunction, Rss, Transform};

/// The first words of the text.
const TABLE: &str = "RX flow hash indirection table for ";

/// What the output of `ethtool -x` says; `None` if `text` is something else.
#[must_use]
pub fn shown(text: &str) -> Option<Rss> {
    let rss = match text.lines().any(|line| line.starts_with(TABLE)) {
        true => of_text(text),
        false => of_json(text)?,
    };
    // A driver that reports a key of zeros has none to report.
    let key = Some(rss.key).filter(|key| key.contains(|digit| digit != '0'));
    Some(Rss {
        key: key.unwrap_or_default(),
        ..rss
    })
}

/// Sections, each behind a line that names it. What the driver does not support is "Operation not supported".
fn of_text(text: &str) -> Rss {
    let (mut rss, mut section) = (Rss::default(), "");
    for line in text.lines() {
        let line = line.trim();
        let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        match (section, line.split_once(':')) {
            _ if line.starts_with(TABLE) => section = TABLE,
            (_, Some((name, ""))) if name.starts_with("RSS ") => section = name,
            (TABLE, Some((_, queues))) => {
                let queues = queues
                    .split_whitespace()
                    .map_while(|queue| queue.parse::<u32>().ok());
                rss.table.extend(queues);
            }
            ("RSS hash key", _) if is_hexadecimal(line) => rss.key.push_str(&line.replace(':', "")),
            ("RSS hash function", Some((name, state))) if state.trim() == "on" => {
                rss.function = function(name);
            }
            ("RSS input transformation", Some((name, state))) if state.trim() == "on" => {
                rss.transforms.push(transform(name));
            }
            _ => {}
        }
    }
    rss
}

/// The document of one device.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    rss_indirection_table: Option<Vec<u32>>,
    rss_hash_key: Option<Vec<u8>>,
    rss_hash_function: Option<String>,
    #[serde(default)]
    rss_input_transformation: BTreeMap<String, Value>,
}

fn of_json(text: &str) -> Option<Rss> {
    let [device]: [Document; 1] = serde_json::from_str(text).ok()?;
    let (table, key) = (device.rss_indirection_table, device.rss_hash_key);
    if table.is_none() && key.is_none() {
        return None;
    }
    let transforms = device.rss_input_transformation.iter();
    let on = transforms.filter(|(_, state)| **state == Value::Bool(true));
    Some(Rss {
        function: device
            .rss_hash_function
            .as_deref()
            .map_or(HashFunction::Untold, function),
        transforms: on.map(|(name, _)| transform(name)).collect(),
        key: key.iter().flatten().map(|byte| format!("{byte:02x}")).collect(),
        table: table.unwrap_or_default(),
        ..Rss::default()
    })
}

fn function(name: &str) -> HashFunction {
    read_word(name).unwrap_or(HashFunction::Other)
}

fn transform(name: &str) -> Transform {
    read_word(&name.replace('-', "_")).unwrap_or(Transform::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ethtool 5: the key on one line.
    const TEXT: &str = "RX flow hash indirection table for eth0 with 4 RX ring(s):
    0:      0     1     2     3     0     1     2     3
    8:      3     2     1     0     3     2     1     0
RSS hash key:
6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb:ae:7b:30:b4:77:cb:2d:a3:80:30:f2:0c:6a:42:b7:3b:be:ac:01:fa
RSS hash function:
    toeplitz: on
    xor: off
    crc32: off
";

    const JSON: &str = r#"[ {
    "ifname": "eth0",
    "rss-indirection-table": [ 0,1,2,3,0,1,2,3,3,2,1,0,3,2,1,0 ],
    "rss-hash-key": [ 109,90,86,218,37,91,14,194,65,103,37,61,67,163,143,176,208,202,43,203,174,123,48,180,119,203,45,163,128,48,242,12,106,66,183,59,190,172,1,250 ],
    "rss-hash-function": "toeplitz",
    "rss-input-transformation": { "symmetric-xor": true, "symmetric-or-xor": false, "raw": 1 }
    } ]"#;

    #[test]
    fn text_and_json_show_the_same_device() {
        let text = shown(TEXT).unwrap();
        assert_eq!(text.key(), Ok(corelane_rss::Key::VERIFICATION));
        assert_eq!(text.table, [0, 1, 2, 3, 0, 1, 2, 3, 3, 2, 1, 0, 3, 2, 1, 0]);
        assert_eq!(
            (text.function, &text.transforms[..]),
            (HashFunction::Toeplitz, &[][..])
        );
        let with_transform =
            format!("{TEXT}RSS input transformation:\n    symmetric-xor: on\n    symmetric-or-xor: off\n");
        assert_eq!(shown(&with_transform), shown(JSON));
        assert_eq!(shown(JSON).unwrap().transforms, [Transform::SymmetricXor]);
    }

    #[test]
    fn what_a_driver_does_not_support_is_absent() {
        let unsupported = "RX flow hash indirection table for eth0 with 1 RX ring(s):\nOperation not supported\nRSS hash key:\n\
            Operation not supported\nRSS hash function:\n    toeplitz: off\n    xor: off\n    crc32: off\n";
        assert_eq!(shown(unsupported), Some(Rss::default()));
        let older = TEXT.split("RSS hash function").next().unwrap();
        assert_eq!(shown(older).unwrap().function, HashFunction::Untold);
    }

    #[test]
    fn a_key_of_zeros_and_a_key_on_several_lines_are_known() {
        let (before, rest) = TEXT.split_once("RSS hash key:\n").unwrap();
        let (key, after) = rest.split_once('\n').unwrap();
        let folded = format!("{before}RSS hash key:\n{}\n{}\n{after}", &key[..60], &key[60..]);
        assert_eq!(shown(&folded), shown(TEXT));
        let zeros = format!("{before}RSS hash key:\n{}\n{after}", ["00"; 40].join(":"));
        assert_eq!(
            shown(&zeros).unwrap().key().unwrap_err(),
            "the driver reports no RSS key"
        );
    }

    #[test]
    fn other_documents_are_none_of_it() {
        for text in [
            "",
            "[]",
            "{}",
            "[{\"ifname\": \"eth0\"}]",
            "{\"rss-hash-key\": [1]}",
            "RSS hash key:\n00",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
