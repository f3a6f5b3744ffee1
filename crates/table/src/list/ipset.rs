//! Dumps of ipset: `create SET TYPE …` and `add SET ELEMENT …`, one command per line.

use super::collector::{Collector, Take};
use super::error::{BadReason, ListError};

/// Passes every element of the selected sets to the collector.
pub(super) fn read<F: Take>(text: &[u8], collector: &mut Collector<'_, F>) -> Result<(), ListError> {
    let value = collector.options.value;
    // The set of the last element, which the next one mostly has, too.
    let (mut last, mut is_wanted): (&[u8], bool) = (b"", false);
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = index as u64 + 1;
        let line = line.trim_ascii();
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        match words.next() {
            Some(b"add") => {
                let (Some(set), Some(element)) = (words.next(), words.next()) else {
                    collector.bad(number, line, BadReason::Command)?;
                    continue;
                };
                if last != set {
                    (last, is_wanted) = (set, collector.begin_set(&[set]));
                }
                if !is_wanted {
                    continue;
                }
                if words
                    .take_while(|word| *word != b"comment")
                    .any(|word| word == b"nomatch")
                {
                    collector.bad(number, line, BadReason::Exception)?;
                } else {
                    collector.text(number, element, Ok(value))?;
                }
            }
            Some(b"create") => {
                if let Some(set) = words.next() {
                    collector.begin_set(&[set]);
                }
            }
            // Other commands of `ipset restore`, without elements.
            None | Some(b"flush" | b"COMMIT" | b"quit") => {}
            Some(word) if word.starts_with(b"#") => {}
            Some(_) => collector.bad(number, line, BadReason::Command)?,
        }
    }
    Ok(())
}
