//! A plan in a file.

use corelane_stage::reassembly::{Overlap, OverlapIpv6, Placement, Plan};

#[test]
fn a_plan_is_read_as_it_is_written_and_a_wrong_value_is_refused_by_name() {
    let read = |text: &str| toml::from_str::<Plan>(text).map_err(|error| error.message().to_owned());
    assert_eq!(read(""), Ok(Plan::default()));
    let text = "at = \"owner\"\noverlap_ipv4 = \"trim\"\noverlap_ipv6 = \"drop\"\nmemory = \"1MiB\"\ndatagrams = \"1k\"\nfragments = 16\ntimeout = \"500ms\"";
    let plan = Plan {
        at: Placement::Owner,
        overlap_ipv4: Overlap::Trim,
        overlap_ipv6: OverlapIpv6::Drop,
        memory: 1 << 20,
        datagrams: 1000,
        fragments: 16,
        timeout: 0.5,
    };
    assert_eq!(read(text), Ok(plan.clone()));
    assert_eq!(
        serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(),
        plan
    );
    for (text, error) in [
        // RFC 5722: a datagram of IPv6 is never made of overlapping fragments.
        (
            "overlap_ipv6 = \"trim\"",
            "unknown variant `trim`, expected `linux` or `drop`",
        ),
        ("memory = 0", "'0' is not a size such as 64KiB"),
        ("timeout = -1", "'-1' is not a time such as 30s, a day at most"),
        (
            "timeout = \"2 days\"",
            "'2 days' is not a time such as 30s, a day at most",
        ),
    ] {
        assert_eq!(read(text), Err(error.to_owned()));
    }
    assert!(read("overlap = \"drop\"").is_err());
}
