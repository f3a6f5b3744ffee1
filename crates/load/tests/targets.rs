//! Requests of files: the plain and the JSON format of vegeta, values of a CSV file, and what is refused, by line.

use corelane_load::http::scenario::{ClientPool, Scenario, TargetFiles, UrlEntry};
use corelane_load::http::targets::{Targets, Values};
use corelane_load::http::{HttpPlan, Order, PlannedBody, Timeouts};
use corelane_load::sources::{Steerings, WorkerRequest};
use std::path::PathBuf;

/// As vegeta's README has it.
const PLAIN: &str = "# all of them\nGET http://goku:9090/path/to/dragon?item=ball\nX-Account-ID: 8675309\n\n\
    DELETE http://goku:9090/path/to/remove\nConfirmation-Token: 90215\nAuthorization: Token: DEADBEEF\n\
    POST http://goku:9090/things\r\n@/path/to/newthing.json\n\n\n  PATCH http://goku:9090/thing/71988591\n";

const JSON: &str = r#"{"method": "POST", "url": "http://goku:9090/things", "body": "eyJhIjoxfQ==", "header": {"Content-Type": ["application/json"], "X": ["1", "2"]}}

{"method":"GET","url":"http://goku:9090"}
"#;

/// Method, path, headers and body.
type Request = (
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str)>,
    Option<&'static str>,
);

fn check(targets: &Targets, expected: &[Request]) {
    assert_eq!(targets.server.to_string(), "http://goku:9090/");
    assert_eq!(targets.entries.len(), expected.len());
    for (entry, (method, path, headers, body)) in targets.entries.iter().zip(expected) {
        assert_eq!(
            (entry.method.as_deref(), entry.path.as_str()),
            (Some(*method), *path)
        );
        let found: Vec<_> = entry
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, *headers, "{path}");
        let file = entry.body_file.as_ref().and_then(|file| file.to_str());
        assert_eq!(entry.body.as_deref().or(file), *body, "{path}");
    }
}

#[test]
fn targets_are_read_as_vegeta_writes_them() {
    let plain = Targets::read(PLAIN, None).unwrap();
    check(
        &plain,
        &[
            (
                "GET",
                "/path/to/dragon?item=ball",
                vec![("X-Account-ID", "8675309")],
                None,
            ),
            (
                "DELETE",
                "/path/to/remove",
                vec![
                    ("Confirmation-Token", "90215"),
                    ("Authorization", "Token: DEADBEEF"),
                ],
                None,
            ),
            ("POST", "/things", vec![], Some("/path/to/newthing.json")),
            ("PATCH", "/thing/71988591", vec![], None),
        ],
    );
    let headers = vec![("Content-Type", "application/json"), ("X", "1"), ("X", "2")];
    let json = Targets::read(JSON, None).unwrap();
    check(
        &json,
        &[
            ("POST", "/things", headers, Some("{\"a\":1}")),
            ("GET", "/", vec![], None),
        ],
    );
    let server = "http://goku:9090/ignored".parse().unwrap();
    let paths = Targets::read("GET /a\nGET http://goku:9090/b", Some(&server)).unwrap();
    check(
        &paths,
        &[("GET", "/a", vec![], None), ("GET", "/b", vec![], None)],
    );
}

#[test]
fn what_is_no_target_is_refused_with_its_line() {
    for (text, error) in [
        ("", "line 1: there is no target"),
        ("# none\n\n", "line 1: there is no target"),
        ("GET /a\n", "line 1: a path needs a server"),
        (
            "GET http://a/\n\nGET http://b/\n",
            "line 3: b is another server than a",
        ),
        (
            "GET http://a/\nGET https://a/\n",
            "line 2: a is another server than a",
        ),
        (
            "GET http://a/\nno field\n",
            "line 2: 'no field': write a field as 'Name: value'",
        ),
        ("http://a/\n", "line 1: 'http://a/': write METHOD URL"),
        ("GET http://a/\n\nX: y\n", "line 3: 'X: y': write METHOD URL"),
        ("@body\n", "line 1: '@body': a body follows the line METHOD URL"),
        ("GET http://a/ b\n", "line 1: the path or query has spaces"),
        ("GET ftp://a/\n", "line 1: 'ftp://a/' does not start with http"),
        (
            "{\"method\":\"GET\",\"url\":\"http://a/\"}\n{\"method\":\"GET\"}\n",
            "line 2: missing field `url`",
        ),
        (
            "{\"method\":\"GET\",\"url\":\"http://a/\",\"more\":1}\n",
            "line 1: unknown field `more`",
        ),
        (
            "{\"method\":\"GET\",\"url\":\"http://a/\",\"body\":\"?\"}\n",
            "line 1: body: ",
        ),
        (
            "{\"method\":\"GET\",\"url\":\"http://a/\",\"body\":\"/w==\"}\n",
            "line 1: body: only text",
        ),
    ] {
        let found = Targets::read(text, None).unwrap_err().to_string();
        assert!(found.starts_with(error), "{text:?}: {found}");
    }
    let many = "GET http://a/\n".repeat(100_001);
    assert_eq!(Targets::read(&many, None).unwrap_err().line, 100_001);
}

fn entry(path: &str, header: &str, body: &str) -> UrlEntry {
    UrlEntry {
        path: path.to_owned(),
        headers: vec![("X".to_owned(), header.to_owned())],
        body: Some(body.to_owned()),
        ..UrlEntry::default()
    }
}

#[test]
fn values_of_a_row_replace_the_names_of_columns() {
    let values =
        Values::read("\u{feff}id,name\r\n1,\"a \"\"b\"\", c/\u{e4}\"\r\n\r\n{name},\"two\nlines\"\n")
            .unwrap();
    let entries = [
        entry("/u/{id}?n={name}", "{name}", "{\"n\": \"{name}\", {id}, {other}"),
        entry("/plain", "", ""),
    ];
    let filled = values.fill(&entries).unwrap();
    assert_eq!(
        filled,
        [
            entry(
                "/u/1?n=a%20%22b%22%2C%20c%2F%C3%A4",
                "a \"b\", c/\u{e4}",
                "{\"n\": \"a \"b\", c/\u{e4}\", 1, {other}"
            ),
            entries[1].clone(),
            // A value is not searched for names.
            entry(
                "/u/%7Bname%7D?n=two%0Alines",
                "two\nlines",
                "{\"n\": \"two\nlines\", {name}, {other}"
            ),
            entries[1].clone(),
        ]
    );
    for (text, error) in [
        ("", "line 1: there is no line of column names"),
        ("a,b\n", "line 2: there is no row"),
        ("a,b\n1,2\n3\n", "line 3: 1 values, not 2"),
        ("a\n\"x\ny\"\n1,2\n", "line 4: 2 values, not 1"),
        ("a\n\"1\n", "line 2: quotes of a value are not closed"),
        ("a\n\"1\"2\n", "line 2: text follows the quotes"),
    ] {
        let found = Values::read(text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{text:?}: {found}");
    }
    let values_of_none = Values::read("id,name\n,\n\n\"\",2\n").unwrap();
    let filled = values_of_none.fill(&[entry("/{id}{name}", "", "")]).unwrap();
    let paths: Vec<&str> = filled.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["/", "/2"], "a row of empty values is no empty line");
    let unused = values.fill(&[entry("/", "", "")]).unwrap_err();
    assert_eq!(unused, "no URL, header or body has {id} or {name}");
    let many = Values::read(&format!("id\n{}", "1\n".repeat(50_001))).unwrap();
    let error = many
        .fill(&[entry("/{id}", "", ""), entry("/", "", "")])
        .unwrap_err();
    assert_eq!(error, "50001 rows for 2 requests are over 100000 requests");
}

fn plan(entries: Vec<UrlEntry>) -> Result<HttpPlan, String> {
    let client = ClientPool {
        connections: 1,
        ..ClientPool::default()
    };
    let mut scenario = Scenario::of_url(
        &"http://127.0.0.1:8080/".parse().unwrap(),
        client,
        UrlEntry::default(),
    );
    scenario.urls[0].entry = entries;
    scenario.urls[0].targets = Some(TargetFiles {
        files: vec![PathBuf::from("targets.txt")],
        order: Order::InTurn,
    });
    let workers = WorkerRequest {
        steering: Steerings::default(),
        buckets: None,
        cpus: vec![0],
        descriptor_limit: 1_000,
    };
    scenario
        .plan(&workers, Timeouts::default())
        .map_err(|error| error.to_string())
}

#[test]
fn a_plan_has_the_number_of_the_requests_of_files_and_values_cannot_add_fields() {
    let targets = Targets::read(
        "PUT /a\nX: y\n\nGET /b\n",
        Some(&"http://127.0.0.1:8080".parse().unwrap()),
    )
    .unwrap();
    let planned = plan(targets.entries).unwrap();
    let http = &planned.pools[0].protocol;
    let targets = http.targets.as_ref().unwrap();
    assert!(http.requests.is_empty());
    assert_eq!((targets.requests, targets.all.len()), (2, 2));
    assert!(
        targets.all[0]
            .head
            .starts_with("PUT /a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")
    );
    assert!(
        targets.all[0].head.contains("X: y\r\nContent-Length: 0\r\n"),
        "{}",
        targets.all[0].head
    );
    assert_eq!(
        (targets.all[1].method.as_str(), &targets.all[1].body),
        ("GET", &PlannedBody::Nothing)
    );
    let written = serde_json::to_value(&planned).unwrap();
    let expected = serde_json::json!({"files": ["targets.txt"], "requests": 2, "order": "in-turn"});
    assert_eq!(written["pools"][0]["targets"], expected);
    let values = Values::read("v\n\"a\r\nHost: b\"\n").unwrap();
    let filled = values.fill(&[entry("/{v}", "{v}", "")]).unwrap();
    assert_eq!(filled[0].path, "/a%0D%0AHost%3A%20b");
    assert!(plan(filled).is_err(), "a line end in a field");
}
