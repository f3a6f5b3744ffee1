//! Properties of the list reader for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use corelane_table::{
    AddressMap, BadLines, IpPrefix, ListError, ListFormat, ListOptions, Placement, Seed, Value, read_list,
};

/// The most entries of which a map is built as well, and only if all are single addresses: a map of prefixes needs 64
/// MiB and has tests of its own.
const MOST_IN_A_MAP: usize = 64;

/// Reads `text` in every format, and asserts the documented properties.
pub fn holds(text: &[u8]) {
    for format in [
        ListFormat::Detect,
        ListFormat::Plain,
        ListFormat::Ipset,
        ListFormat::Nftables,
    ] {
        let options = |bad_lines, set: &Option<String>| ListOptions {
            format,
            bad_lines,
            set: set.clone(),
            ..ListOptions::default()
        };
        match read_list(text, &options(BadLines::Skip, &None), |_, _| Ok(())) {
            // Each is read by its name, unless that is the last word of another's.
            Err(ListError::SeveralSets { found }) => {
                let is_last = |set: &String| found.iter().any(|other| other.ends_with(&format!(" {set}")));
                for set in found.iter().filter(|set| !is_last(set)) {
                    the_set_holds(text, |bad_lines| options(bad_lines, &Some(set.clone())));
                }
            }
            _ => the_set_holds(text, |bad_lines| options(bad_lines, &None)),
        }
    }
}

fn the_set_holds(text: &[u8], options: impl Fn(BadLines) -> ListOptions) {
    let mut entries: Vec<(IpPrefix, Value)> = Vec::new();
    let skipping = read_list(text, &options(BadLines::Skip), |prefix, value| {
        entries.push((prefix, value));
        Ok(())
    });
    let summary = skipping.expect("with skipping, only a missing set is an error, and this one was found");
    assert_eq!(summary.prefixes, entries.len() as u64);
    assert!(
        summary.elements <= summary.prefixes,
        "every element becomes a prefix"
    );
    assert_eq!(summary.skipped > 0, summary.first_skipped.is_some());
    let lines = text.split(|byte| *byte == b'\n').count() as u64;
    if let Some(bad) = &summary.first_skipped {
        assert!((1..=lines).contains(&bad.line), "line {} of {lines}", bad.line);
    }
    match read_list(text, &options(BadLines::Refuse), |_, _| Ok(())) {
        Ok(strict) => assert_eq!(strict, summary),
        Err(ListError::Line(bad)) => assert_eq!(Some(bad), summary.first_skipped),
        Err(error) => panic!("{error}"),
    }
    for (prefix, _) in &entries {
        assert_eq!(prefix.to_string().parse().as_ref(), Ok(prefix));
    }
    let hosts = entries.iter().all(|(prefix, _)| match prefix {
        IpPrefix::V4(prefix) => prefix.is_host(),
        IpPrefix::V6(prefix) => prefix.is_host(),
    });
    if hosts && (1..=MOST_IN_A_MAP).contains(&entries.len()) {
        the_map_holds(text, &options(BadLines::Skip), &entries);
    }
}

/// If two entries have the same prefix, the later one counts.
fn the_map_holds(text: &[u8], options: &ListOptions, entries: &[(IpPrefix, Value)]) {
    let (map, _) = AddressMap::from_list(text, options, Seed::default(), Placement::default())
        .expect("a list that was read can be loaded");
    let expected: std::collections::BTreeMap<_, _> = entries.iter().copied().collect();
    let found: std::collections::BTreeMap<_, _> = map.iter().collect();
    assert_eq!(found, expected);
    assert_eq!(map.len(), expected.len());
}
