//! Lists in every format: which entries are accepted, with which values, and which line is rejected.

use corelane_table::{
    BadLines, BadReason, ListError, ListFormat, ListOptions, ListSummary, Value, read_list,
};
use proptest::prelude::*;

fn read_with(text: &[u8], options: &ListOptions) -> Result<(Vec<String>, ListSummary), ListError> {
    let mut found = Vec::new();
    let summary = read_list(text, options, |prefix, value| {
        found.push(format!("{prefix}={value}"));
        Ok(())
    })?;
    Ok((found, summary))
}

fn read(text: &str) -> (Vec<String>, ListSummary) {
    read_with(text.as_bytes(), &ListOptions::default()).unwrap()
}

/// The line and the reason for which a list is rejected.
fn refused(text: &str) -> (u64, BadReason) {
    match read_with(text.as_bytes(), &ListOptions::default()) {
        Err(ListError::Line(bad)) => (bad.line, bad.reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plain_list_has_addresses_prefixes_ranges_values_and_comments() {
    let (found, summary) = read(
        "# blocked\r\n\
         192.0.2.1\r\n\
         \n\
         198.51.100.7/24 ; SBL1\n\
         10.0.0.254-10.0.1.1 17 // a range\n\
         \t2001:db8::/32\t4095\n\
         ::1 # loopback",
    );
    assert_eq!(
        found,
        [
            "192.0.2.1=0",
            "198.51.100.0/24=0",
            "10.0.0.254/31=17",
            "10.0.1.0/31=17",
            "2001:db8::/32=4095",
            "::1=0"
        ]
    );
    assert_eq!(
        (summary.format, summary.elements, summary.prefixes),
        (ListFormat::Plain, 5, 6)
    );
}

#[test]
fn a_wrong_line_is_refused_with_its_number() {
    assert_eq!(refused("10.0.0.1\n10.0.0\n"), (2, BadReason::NotAnAddress));
    assert_eq!(refused("\n\n10.0.0.1/40"), (3, BadReason::Length { longest: 32 }));
    assert_eq!(refused("10.0.0.1 1 2"), (1, BadReason::Trailing));
    assert!(matches!(refused("10.0.0.1 5000"), (1, BadReason::Value(_))));
    let error = read_with(b"10.0.0.1\nexample.org\n", &ListOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("line 2: \"example.org\": not an address"),
        "{error}"
    );
}

#[test]
fn wrong_lines_are_counted_when_they_are_skipped() {
    let options = ListOptions {
        bad_lines: BadLines::Skip,
        value: Value::new(3).unwrap(),
        ..Default::default()
    };
    let (found, summary) = read_with(b"10.0.0.1\nx\n\xff\xfe\n10.0.0.2\n10.0.0.300\n", &options).unwrap();
    assert_eq!(found, ["10.0.0.1=3", "10.0.0.2=3"]);
    assert_eq!((summary.elements, summary.skipped), (2, 3));
    assert_eq!(summary.first_skipped.unwrap().line, 2);
}

const IPSET: &str = "\
create blocked hash:ip family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x1f6c3d2a
add blocked 192.0.2.1
add blocked 192.0.2.9 timeout 300 comment \"nomatch is a word\"
create nets hash:net family inet6 hashsize 1024 maxelem 65536
add nets 2001:db8::/32
";

/// The elements of a set.
fn read_set(text: &str, set: &str) -> Result<Vec<String>, String> {
    let options = ListOptions {
        set: Some(set.to_owned()),
        ..Default::default()
    };
    let read = read_with(text.as_bytes(), &options);
    read.map(|(found, _)| found).map_err(|error| error.to_string())
}

/// The sets of a text that has several.
fn several(text: &str) -> Vec<String> {
    match read_with(text.as_bytes(), &ListOptions::default()) {
        Err(ListError::SeveralSets { found }) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dump_of_ipset_gives_the_elements_of_one_set() {
    let (found, summary) = read("create one hash:ip\nadd one 192.0.2.1\nadd one 192.0.2.2\n");
    assert_eq!(found, ["192.0.2.1=0", "192.0.2.2=0"]);
    assert_eq!(summary.format, ListFormat::Ipset);
    assert_eq!(read_set(IPSET, "nets").unwrap(), ["2001:db8::/32=0"]);
    assert_eq!(
        read_set(IPSET, "allowed").unwrap_err(),
        "there is no set \"allowed\" in this file; it has blocked, nets"
    );
    // An empty set counts as well: which of them is meant?
    assert_eq!(several(IPSET), ["blocked", "nets"]);
    assert_eq!(
        several("create a hash:ip\nadd b 192.0.2.1\nadd a 192.0.2.2\nadd b 192.0.2.3"),
        ["a", "b"]
    );
    assert_eq!(several("add a 192.0.2.1\ncreate b hash:ip"), ["a", "b"]);
}

#[test]
fn a_plain_list_has_no_sets() {
    assert_eq!(
        read_set("192.0.2.1\n", "blocked").unwrap_err(),
        "there is no set \"blocked\" in this file; it has no sets"
    );
}

#[test]
fn what_ipset_can_hold_and_a_table_cannot_is_refused() {
    assert_eq!(refused("add s 10.0.0.1,tcp:80"), (1, BadReason::Concatenation));
    assert_eq!(
        refused("create s hash:net\nadd s 10.0.0.0/8 nomatch"),
        (2, BadReason::Exception)
    );
    assert_eq!(refused("add s"), (1, BadReason::Command));
    assert_eq!(refused("add s 10.0.0.1\ndel s 10.0.0.1"), (2, BadReason::Command));
}

const NFT: &str = "\
table inet filter {
\tset blocked { # with { braces }
\t\ttype ipv4_addr
\t\tflags interval,timeout
\t\tcomment \"elements = { 1.1.1.1 }\"
\t\telements = { 10.0.0.0/8, 192.0.2.1-192.0.2.2,
\t\t\t     198.51.100.1 timeout 1d expires 23h59m comment \"a, b } c\",
\t\t\t     198.51.100.2 counter packets 3 bytes 180 }
\t}

\tmap classes {
\t\ttype ipv6_addr : mark
\t\telements = { 2001:db8::1 : 0x0000001f,
\t\t             2001:db8::2 counter packets 0 bytes 0 : 7, fe80::/10 }
\t}

\tchain input {
\t\ttype filter hook input priority filter; policy accept;
\t\tip saddr @blocked drop
\t}
}
";

#[test]
fn a_dump_of_nftables_gives_the_elements_of_one_set_or_map() {
    let blocked = [
        "10.0.0.0/8=0",
        "192.0.2.1=0",
        "192.0.2.2=0",
        "198.51.100.1=0",
        "198.51.100.2=0",
    ];
    assert_eq!(read_set(NFT, "blocked").unwrap(), blocked);
    let classes = ["2001:db8::1=31", "2001:db8::2=7", "fe80::/10=0"];
    assert_eq!(read_set(NFT, "inet filter classes").unwrap(), classes);
    assert_eq!(several(NFT), ["inet filter blocked", "inet filter classes"]);
    let (found, summary) = read("table ip t {\n set s {\n elements = { 192.0.2.1 }\n }\n}\n");
    assert_eq!(
        (found, summary.format),
        (vec!["192.0.2.1=0".to_owned()], ListFormat::Nftables)
    );
    assert_eq!(read("elements = { 192.0.2.1 }").0, ["192.0.2.1=0"]);
}

#[test]
fn sets_of_one_name_in_two_tables_are_two() {
    let set =
        |family, address| format!("table {family} t {{\n set s {{\n elements = {{ {address} }}\n }}\n}}\n");
    let both = set("ip", "192.0.2.1") + &set("ip6", "2001:db8::1");
    assert_eq!(several(&both), ["ip t s", "ip6 t s"]);
    let named = read_set(&both, "s").unwrap_err();
    assert!(named.ends_with("name one of them: ip t s, ip6 t s"), "{named}");
    assert_eq!(read_set(&both, "ip6 t s").unwrap(), ["2001:db8::1=0"]);
}

#[test]
fn a_rule_that_sets_a_mark_is_no_set() {
    let rule = "chain c {\n meta mark set 0x1 accept\n ct mark set meta mark\n }\n";
    let text = format!("table ip t {{\n set s {{\n elements = {{ 192.0.2.1 }}\n }}\n {rule}}}\n");
    assert_eq!(read(&text).0, ["192.0.2.1=0"]);
}

#[test]
fn a_map_to_verdicts_or_names_is_refused_by_its_line() {
    let map = |element: &str| {
        format!("table ip t {{\n map m {{\n elements = {{ 10.0.0.1 : 1,\n {element} }}\n }}\n}}\n")
    };
    for element in [
        "10.0.0.2 : drop",
        "10.0.0.2 counter : jump other",
        "10.0.0.2 : \"eth0\"",
        "10.0.0.2 : accept",
    ] {
        assert_eq!(refused(&map(element)), (4, BadReason::Verdict), "{element}");
        let options = ListOptions {
            bad_lines: BadLines::Skip,
            ..Default::default()
        };
        let (found, summary) = read_with(map(element).as_bytes(), &options).unwrap();
        assert_eq!(
            (found, summary.skipped),
            (vec!["10.0.0.1=1".to_owned()], 1),
            "{element}"
        );
    }
    assert_eq!(
        read(&map("10.0.0.2 comment \"a : b\" : 5")).0,
        ["10.0.0.1=1", "10.0.0.2=5"]
    );
}

#[test]
fn what_nftables_can_hold_and_a_table_cannot_is_refused_with_its_line() {
    let set = |elements: &str| {
        format!("table ip t {{\n\tset s {{\n\t\telements = {{ 10.0.0.1,\n{elements} }}\n\t}}\n}}\n")
    };
    assert_eq!(refused(&set("10.0.0.1 . 80")), (4, BadReason::Concatenation));
    assert_eq!(refused(&set("10.0.0.2,\n10.0.0.x")), (5, BadReason::NotAnAddress));
    assert_eq!(refused(&set("* : drop")), (4, BadReason::Wildcard));
    assert!(matches!(
        refused(&set("10.0.0.2 : 0x1000")),
        (4, BadReason::Value(_))
    ));
    assert_eq!(
        refused("set s {\n elements = { 10.0.0.1, 10.0"),
        (2, BadReason::CutOff)
    );
}

proptest! {
    #[test]
    fn no_text_whatever_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [ListFormat::Detect, ListFormat::Plain, ListFormat::Ipset, ListFormat::Nftables] {
            for bad_lines in [BadLines::Refuse, BadLines::Skip] {
                let options = ListOptions { format, bad_lines, ..Default::default() };
                let _ = read_with(&bytes, &options);
            }
        }
    }

    #[test]
    fn no_text_of_the_formats_words_makes_a_reader_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "add", "create", "set", "map", "elements", "=", "{", "}", ",", ":", ".", "\"", "#", ";", "\n", "\r\n", "-", "/",
            "10.0.0.1", "10.0.0.0/8", "::1", "::/0", "nomatch", "comment", "*", "0x1f", "4096", "\u{e9}",
        ]), 0..60),
        spaced: bool,
    ) {
        let text = words.join(if spaced { " " } else { "" });
        for format in [ListFormat::Plain, ListFormat::Ipset, ListFormat::Nftables] {
            let options = ListOptions { format, bad_lines: BadLines::Skip, ..Default::default() };
            let _ = read_with(text.as_bytes(), &options);
        }
    }
}
