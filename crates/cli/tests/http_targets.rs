//! `load http` with requests of files: targets in order, from a file or standard input, and values of a CSV file.

use crate::common::{corelane, refused, run_json};
use crate::raw_http::{Answer, RawServer};
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// A server that keeps the request line of each request, and the value of its field `X`.
fn keeping() -> (RawServer, Arc<Mutex<Vec<String>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&kept);
    let server = RawServer::by_head(move |head| {
        let head = String::from_utf8_lossy(head);
        let x = head
            .lines()
            .find_map(|line| line.strip_prefix("X: "))
            .unwrap_or_default();
        let line = head
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches(" HTTP/1.1");
        keeps
            .lock()
            .unwrap()
            .push(format!("{line} {x}").trim_end().to_owned());
        Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    (server, kept)
}

#[test]
fn targets_are_made_in_turn_with_the_values_of_each_row() {
    let (server, kept) = keeping();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let targets = file("targets.txt", "GET /a/{id}\nX: {name}\n\nDELETE /b\n");
    let data = file("data.csv", "id,name\n1,one\n2,\"two, too\"\n");
    let url = server.url();
    let load = [
        "load",
        "http",
        &url,
        "--targets",
        &targets,
        "-c",
        "1",
        "--drain",
        "5s",
        "--json",
    ];
    let document = run_json(&[&load[..], &["--data", &data, "-H", "X: all", "-n", "6"]].concat());
    assert_eq!(document["requests"]["ok"], 6);
    let planned = &document["plan"]["pools"][0];
    assert_eq!(planned["targets"]["requests"], 4);
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    let four = [
        "GET /a/1 one",
        "DELETE /b all",
        "GET /a/2 two, too",
        "DELETE /b all",
    ];
    assert_eq!(kept, [&four[..], &four[..2]].concat());
}

#[test]
fn json_lines_from_standard_input_are_made_once_each_over_all_connections() {
    let (server, kept) = keeping();
    let mut command = corelane("load http --targets - -c 4 -n 20 --drain 5s --json");
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for place in 0..20 {
        let url = format!("{}{place:02}", server.url());
        writeln!(input, r#"{{"method":"GET","url":"{url}"}}"#).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut kept = std::mem::take(&mut *kept.lock().unwrap());
    kept.sort_unstable();
    let expected: Vec<String> = (0..20).map(|place| format!("GET /{place:02}")).collect();
    assert_eq!(kept, expected);
}

#[test]
fn a_wrong_line_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("targets.txt");
    std::fs::write(&path, "GET http://127.0.0.1:1/\n\nno target\n").unwrap();
    let given = path.to_str().unwrap();
    let error = refused(&["load", "http", "--targets", given], 2);
    assert!(error.contains("--targets") && error.contains("line 3"), "{error}");
    // Also if only the plan finds it.
    for text in [
        "GET /a b\n",
        "GET /\n@/nonexistent\n",
        "GET /\nContent-Length: 1\n",
    ] {
        std::fs::write(&path, text).unwrap();
        let error = refused(&["load", "http", "http://127.0.0.1:1/", "--targets", given], 2);
        assert!(error.contains("--targets") && error.contains(given), "{error}");
    }
    let error = refused(&["load", "http", "http://127.0.0.1:1/", "--order", "random"], 2);
    assert!(error.contains("--order"), "{error}");
}
