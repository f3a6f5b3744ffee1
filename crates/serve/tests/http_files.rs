//! `serve::http` with a folder: whole files, ranges, conditional requests, and nothing outside the folder.

use crate::common::{Answer, connect, engines, http_plan};
use corelane_proto::http::date;
use corelane_serve::Server;
use corelane_serve::http::{HttpPlan, HttpServer};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs the test with a server of the folder on each engine.
fn on_each_engine(root: &Path, test: impl Fn(&HttpServer)) {
    for engine in engines() {
        let plan = HttpPlan {
            root: Some(root.to_owned()),
            ..http_plan(engine, 2)
        };
        let server = HttpServer::start(plan).unwrap();
        test(&server);
        let served = server.stop().unwrap();
        assert!(served.errors().is_empty(), "{:?}", served.errors());
    }
}

fn request(server: &HttpServer, line: &str, fields: &str) -> Answer {
    let mut stream = connect(server.address());
    write!(stream, "{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").unwrap();
    Answer::read(&mut stream, line.starts_with("HEAD"))
}

/// Requests a file with this name and content as a whole and in ranges.
fn comes_whole_and_in_parts(server: &HttpServer, name: &str, content: &[u8]) {
    let (get, length) = (format!("GET /{name}"), content.len());
    let whole = request(server, &get, "");
    assert_eq!((whole.status, whole.field("Accept-Ranges")), (200, Some("bytes")));
    assert!(whole.body == *content);
    assert_eq!(whole.field("Content-Type"), Some("application/octet-stream"));
    let tag = whole.field("ETag").unwrap().to_owned();
    let modified = whole.field("Last-Modified").unwrap().to_owned();
    let part = request(server, &get, "Range: bytes=1000-1999\r\n");
    assert_eq!(
        (part.status, part.field("Content-Range")),
        (206, Some(format!("bytes 1000-1999/{length}").as_str()))
    );
    assert!(part.body == content[1_000..2_000]);
    let end = request(server, &get, "Range: bytes=-5\r\n");
    assert_eq!(end.body, content[length - 5..]);
    let beyond = request(server, &get, &format!("Range: bytes={length}-\r\n"));
    assert_eq!(
        (beyond.status, beyond.field("Content-Range")),
        (416, Some(format!("bytes */{length}").as_str()))
    );
    for field in [
        format!("If-None-Match: {tag}\r\n"),
        format!("If-Modified-Since: {modified}\r\n"),
    ] {
        let known = request(server, &get, &field);
        assert_eq!((known.status, known.field("ETag")), (304, Some(tag.as_str())));
    }
    assert_eq!(request(server, &get, "If-Match: \"other\"\r\n").status, 412);
    let head = request(server, &format!("HEAD /{name}"), "");
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some(length.to_string().as_str()))
    );
}

#[test]
fn files_come_whole_in_parts_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..3_000_000u32).map(|index| (index % 251) as u8).collect();
    // The largest file that is kept in memory, the smallest that is not, and one of many pieces.
    let files = [
        ("small.bin", 4_096),
        ("larger.bin", 4_097),
        ("big.bin", content.len()),
    ];
    for (name, length) in files {
        std::fs::write(root.path().join(name), &content[..length]).unwrap();
    }
    std::fs::write(root.path().join("index.html"), "<p>hello</p>").unwrap();
    std::fs::write(root.path().join("empty.txt"), "").unwrap();
    on_each_engine(root.path(), |server| {
        for (name, length) in files {
            comes_whole_and_in_parts(server, name, &content[..length]);
        }
        let index = request(server, "GET /", "");
        assert_eq!(index.body, b"<p>hello</p>");
        assert_eq!(index.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(request(server, "GET /empty.txt", "").body, b"");
        for (line, status) in [
            ("GET /../../etc/passwd", 404),
            ("GET /%2e%2e/etc/passwd", 404),
            ("GET /nothing", 404),
            ("GET /%00", 400),
            ("POST /big.bin", 405),
        ] {
            assert_eq!(request(server, line, "").status, status, "{line}");
        }
    });
}

#[test]
fn many_files_in_a_row_are_pipelined() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..10 {
        std::fs::write(root.path().join(number.to_string()), vec![number; 100_000]).unwrap();
    }
    on_each_engine(root.path(), |server| {
        let mut stream = connect(server.address());
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            for number in 0..200 {
                write!(writer, "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", number % 10).unwrap();
            }
        });
        for number in 0..200 {
            let answer = Answer::read(&mut stream, false);
            assert_eq!(answer.body, vec![number % 10; 100_000]);
        }
        writing.join().unwrap();
    });
}

#[test]
fn methods_that_are_refused_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
    on_each_engine(folder.path(), |server| {
        for (line, status) in [
            ("OPTIONS *", 204),
            ("OPTIONS /a", 204),
            ("POST /a", 405),
            ("DELETE /a", 405),
        ] {
            let answer = request(server, line, "");
            assert_eq!(
                (answer.status, answer.field("Allow")),
                (status, Some("GET, HEAD, OPTIONS")),
                "{line}"
            );
        }
    });
}

#[test]
fn a_file_that_is_written_again_comes_with_its_own_tag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    on_each_engine(folder.path(), |server| {
        let mut tags = Vec::new();
        for version in 0..3_u8 {
            let content = vec![version; 10_000];
            let mut file = std::fs::OpenOptions::new();
            let mut file = file.write(true).create(true).truncate(false).open(&path).unwrap();
            file.write_all(&content).unwrap();
            // Distinct, whatever the file system's granularity is.
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + u64::from(version));
            file.set_modified(moment).unwrap();
            let answer = request(server, "GET /a.bin", "");
            assert!(answer.body == content);
            tags.push(answer.field("ETag").unwrap().to_owned());
        }
        tags.dedup();
        assert_eq!(tags.len(), 3);
    });
}

#[test]
fn a_file_of_the_future_was_not_modified_after_its_response() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("a")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(1_000_000))
        .unwrap();
    on_each_engine(folder.path(), |server| {
        let answer = request(server, "GET /a", "");
        let moment = |name| date::read(answer.field(name).unwrap().as_bytes()).unwrap();
        assert!(moment("Last-Modified") <= moment("Date"), "{}", answer.head);
    });
}
