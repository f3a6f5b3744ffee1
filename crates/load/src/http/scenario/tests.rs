//! Scenarios are parsed as written, errors name the setting, and the committed schema has exactly the same fields.

use super::*;
use crate::http::{HttpLoadError, PlannedBody};
use crate::streams::Model;
use corelane_tests::assert_same_fields;

/// A file with every field, except those that are mutually exclusive.
const EVERYTHING: &str = r#"
requests = "10k"

[[client]]
name = "quick"
urls = "objects"
server = "origin"
connections = 64
rate = "5k"
requests_a_connection = 100
abort = "1%"
sources = "127.1.0.0/16"
align = "even"
align_by = "both"
ca = "authorities.pem"
certificate = "client.pem"
key = "client.key"
resumption = false
status = "200,204,300-399"
strict = true
follow = 3

[[client]]
name = "slow"
urls = "uploads"
server = "origin"
connections = "1k"
think = "10ms"
read_rate = "64KiB"
write_rate = 1000
insecure = true
first_pause = "100ms"

[[urls]]
name = "objects"
[[urls.entry]]
path = "/size/{size}"
weight = 9
check = true
sizes = { distribution = "uniform", min = "1KiB", max = "64KiB", mean = 5, classes = 8 }
[[urls.entry]]
path = "/status/204"
method = "HEAD"
headers = { Accept = "text/html" }

[[urls]]
name = "uploads"
[[urls.entry]]
path = "/echo"
body = "hello"
chunked = false
[[urls.entry]]
path = "/echo"
body_size = "1MiB"
expect_continue = true
[[urls.entry]]
path = "/echo"
body_file = "/proc/self/cmdline"

[[server]]
name = "origin"
addresses = ["127.0.0.1:8080", "127.0.0.2:8080"]
host = "example.org"
tls = true

[[phase]]
name = "ramp"
from = "0%"
to = 1.0
duration = "10s"
[[phase]]
name = "hold"
requests = "1M"
failures = 100

[timeouts]
connect = "1s"
continue = "500ms"
first_byte = "2s"
request = "3s"
drain = "4s"
"#;

#[test]
fn a_scenario_becomes_pools_and_phases() {
    let scenario = Scenario::parse(EVERYTHING).unwrap();
    let pools = scenario
        .client
        .iter()
        .map(|client| scenario.pools(client).unwrap());
    let pools: Vec<_> = pools.collect();
    let [quick, slow] = &pools[..] else {
        panic!("{} pools", pools.len());
    };
    assert_eq!([quick.len(), slow.len()], [2, 2], "one part per server address");
    let (quick, slow) = (&quick[0], &slow[0]);
    assert_eq!(
        (quick.connections, quick.model),
        (32, Model::Open { per_second: 2_500.0 })
    );
    assert_eq!(
        (slow.connections, slow.model),
        (500, Model::Closed { think_s: 0.01 })
    );
    let (objects, uploads) = (&quick.protocol.requests, &slow.protocol.requests);
    assert_eq!((objects.len(), quick.protocol.statuses.len()), (9, 3));
    assert_eq!(quick.behaviour.abort_share, 0.01);
    assert_eq!(objects[0].target, "/size/5056");
    assert!(objects[0].head.contains("Host: example.org\r\n"));
    let weights: f64 = objects.iter().map(|request| request.weight).sum();
    assert!((weights - 10.0).abs() < 1e-9);
    assert_eq!([&objects[8].method, &uploads[0].method], ["HEAD", "POST"]);
    assert_eq!(slow.behaviour.read_bytes_per_second, Some(65_536));
    let [quick, slow] = [quick, slow].map(|pool| pool.tls.as_ref().unwrap());
    assert_eq!(quick.server_name, "example.org");
    assert!(!quick.resumption && !quick.insecure && slow.insecure && slow.resumption);
    assert!(uploads[1].expect_continue && !uploads[0].expect_continue);
    assert_eq!(uploads[1].body, PlannedBody::Generated { bytes: 1 << 20 });
    let phases = &scenario.phase;
    assert_eq!(
        (phases[0].from, phases[0].to, phases[0].until.duration_s),
        (0.0, 1.0, Some(10.0))
    );
    assert_eq!(
        (phases[1].until.requests, phases[1].until.failures),
        (Some(1_000_000), Some(100))
    );
    let timeouts = scenario.timeouts;
    assert_eq!((timeouts.request, timeouts.r#continue), (Some(3.0), Some(0.5)));
}

/// A replacement in the file with everything, and part of the error that it causes.
const SPOILT: &[(&str, &str, &str)] = &[
    (
        "rate = \"5k\"",
        "rate = \"5k\"\nthink = \"1ms\"",
        "'quick': rate (open loop) and think",
    ),
    (
        "urls = \"objects\"",
        "urls = \"none\"",
        "names the urls pool 'none'",
    ),
    (
        "server = \"origin\"",
        "server = \"none\"",
        "names the server pool 'none'",
    ),
    (
        "/size/{size}",
        "/size/1",
        "sizes and {size} in the path go together",
    ),
    (
        "/status/204",
        "/{size}",
        "sizes and {size} in the path go together",
    ),
    (
        "addresses = [\"127.0.0.1:8080\", \"127.0.0.2:8080\"]",
        "addresses = []",
        "server pool 'origin': it has no address",
    ),
    ("weight = 9", "weight = 0", "a weight must be more than 0"),
    ("chunked = false", "chunked = true", "chunked and write_rate"),
    (
        "body = \"hello\"",
        "body = \"hello\"\nbody_size = 5",
        "body, body_file and body_size",
    ),
    ("host = \"example.org\"", "host = \"a b\"", "server pool 'origin'"),
    ("duration = \"10s\"", "", "only the last phase"),
    ("abort = \"1%\"", "abort = \"101%\"", "not a share such as"),
    ("connections = 64", "connections = 0", "not a number such as 10k"),
    ("think = \"10ms\"", "think = 10", "not a time such as 10ms"),
    ("status = \"200,", "status = \"42,", "not a list of statuses"),
    (
        "connections = 64",
        "connections = 64\nspeed = 3",
        "unknown field `speed`",
    ),
    ("/status/204", "/a b", "%20"),
    ("tls = true", "", "need tls = true of server pool 'origin'"),
    (
        "insecure = true",
        "insecure = true\nca = \"a\"",
        "insecure and ca",
    ),
    ("key = \"client.key\"\n", "", "certificate and key go together"),
    ("body_size = \"1MiB\"", "", "expect_continue needs a body"),
];

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    for (good, bad, reason) in SPOILT {
        let text = EVERYTHING.replacen(good, bad, 1);
        assert_ne!(text, EVERYTHING, "{good}");
        let pools = Scenario::parse(&text)
            .map_err(HttpLoadError::from)
            .and_then(|scenario| {
                let pools = scenario.client.iter().map(|client| scenario.pools(client));
                pools.collect::<Result<Vec<_>, _>>()
            });
        let error = pools.unwrap_err().to_string();
        assert!(error.contains(reason), "{bad}: {error}");
    }
}

#[test]
fn the_schema_knows_exactly_the_fields_that_there_are() {
    assert_same_fields(EVERYTHING, "load-http.schema.json");
}
