//! `serve::http` from the clients' side: objects, framing, limits, timeouts.

use crate::common::{Answer, connect, engines, exchange, http_plan};
use corelane_proto::http::pattern;
use corelane_serve::Server;
use corelane_serve::http::{HttpLimits, HttpPlan, HttpServed, HttpServer};
use corelane_tests::until;
use corelane_worker::engine::EngineKind;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

fn start(engine: EngineKind, limits: HttpLimits) -> HttpServer {
    let plan = HttpPlan {
        limits,
        ..http_plan(engine, 2)
    };
    HttpServer::start(plan).unwrap()
}

/// Runs the test with a server of each engine.
fn on_each_engine(limits: HttpLimits, test: impl Fn(&mut HttpServer)) -> Vec<HttpServed> {
    let run = |engine| {
        let mut server = start(engine, limits);
        test(&mut server);
        server.stop().unwrap()
    };
    engines().into_iter().map(run).collect()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(pattern::byte).collect()
}

fn get(server: &HttpServer, target: &str) -> Answer {
    let mut stream = connect(server.address());
    write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    Answer::read(&mut stream, false)
}

#[test]
fn objects_are_what_their_target_says() {
    on_each_engine(HttpLimits::default(), |server| {
        for length in [0, 1, 1_024, 4_096, 4_097, 300_000, 20_000_000] {
            let answer = get(server, &format!("/size/{length}"));
            assert_eq!((answer.status, answer.body.len()), (200, length));
            assert!(answer.body == pattern(length), "{length} bytes");
        }
        let chunked = get(server, "/chunks/5/3000");
        assert_eq!(chunked.field("Transfer-Encoding"), Some("chunked"));
        assert!(chunked.body == pattern(15_000));
        assert_eq!(get(server, "/chunks/100000/7").body.len(), 700_000);
        let teapot = get(server, "/size/10?status=418&headers=3");
        assert_eq!((teapot.status, teapot.body.len()), (418, 10));
        assert_eq!(teapot.field("X-Corelane-Field"), Some("1"));
        assert_eq!(teapot.head.matches("X-Corelane-Field").count(), 3);
        let before = Instant::now();
        assert_eq!(get(server, "/delay/50ms").status, 200);
        assert!(before.elapsed() >= Duration::from_millis(50));
        assert_eq!(get(server, "/status/204").body, b"");
        assert_eq!(get(server, "/nothing").status, 404);
        assert!(
            String::from_utf8(get(server, "/").body)
                .unwrap()
                .contains("/size/BYTES")
        );
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    const ALL: usize = 2_000;
    let served = on_each_engine(HttpLimits::default(), |server| {
        let mut stream = connect(server.address());
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            for number in 0..ALL {
                let size = number * 7 % 5_000;
                write!(writer, "GET /size/{size} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            }
        });
        for number in 0..ALL {
            let answer = Answer::read(&mut stream, false);
            assert_eq!((answer.status, answer.body.len()), (200, number * 7 % 5_000));
        }
        writing.join().unwrap();
    });
    for served in served {
        assert_eq!(served.sum(|bucket| bucket.requests), ALL as u64);
        assert!(served.errors().is_empty(), "{:?}", served.errors());
    }
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let request = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n3;x=y\r\n567\r\n0\r\n\r\n";
    on_each_engine(HttpLimits::default(), |server| {
        let mut stream = connect(server.address());
        for cut in 1..request.len() {
            stream.write_all(&request[..cut]).unwrap();
            stream.write_all(&request[cut..]).unwrap();
            let answer = Answer::read(&mut stream, false);
            assert_eq!(
                (answer.status, answer.body.as_slice()),
                (200, &b"01234567"[..]),
                "cut at {cut}"
            );
        }
    });
}

#[test]
fn an_echo_gives_back_any_body_and_knows_the_pattern() {
    let served = on_each_engine(HttpLimits::default(), |server| {
        let mut stream = connect(server.address());
        for length in [0, 1, 100_000, 10_000_000] {
            let body = pattern(length);
            let mut writer = stream.try_clone().unwrap();
            let sent = body.clone();
            let writing = std::thread::spawn(move || {
                write!(
                    writer,
                    "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
                )
                .unwrap();
                writer.write_all(&sent).unwrap();
            });
            let answer = Answer::read(&mut stream, false);
            assert!(answer.body == body, "{length} bytes");
            writing.join().unwrap();
        }
        write!(
            stream,
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nother"
        )
        .unwrap();
        assert_eq!(Answer::read(&mut stream, false).body, b"other");
    });
    for served in served {
        let sum = |count: fn(&corelane_serve::http::BucketHttp) -> u64| {
            served.buckets.iter().map(count).sum::<u64>()
        };
        assert_eq!(sum(|bucket| bucket.bodies), 4, "an empty body does not count");
        assert_eq!(sum(|bucket| bucket.body_bytes), 10_100_006);
        assert_eq!(sum(|bucket| bucket.pattern_bodies), 3);
    }
}

#[test]
fn a_head_alone_is_the_head_of_the_whole() {
    on_each_engine(HttpLimits::default(), |server| {
        let mut stream = connect(server.address());
        for target in ["/size/100000", "/size/10", "/chunks/3/3", "/nothing", "/"] {
            write!(stream, "HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let head = Answer::read(&mut stream, true);
            let whole = get(server, target);
            assert_eq!(head.status, whole.status);
            assert_eq!(head.field("Content-Length"), whole.field("Content-Length"));
            assert_eq!(head.field("Transfer-Encoding"), whole.field("Transfer-Encoding"));
        }
    });
}

#[test]
fn whoever_expects_continue_is_told_before_the_body() {
    on_each_engine(HttpLimits::default(), |server| {
        let mut stream = connect(server.address());
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(Answer::read(&mut stream, false).status, 100);
        stream.write_all(b"abc").unwrap();
        let answer = Answer::read(&mut stream, false);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"abc"[..]));
        let too_long =
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n";
        assert!(exchange(server.address(), too_long.as_bytes()).starts_with(b"HTTP/1.1 413 "));
    });
}

#[test]
fn connections_stay_as_the_version_and_the_client_say() {
    on_each_engine(HttpLimits::default(), |server| {
        let closing = [
            "GET /size/1 HTTP/1.0\r\n\r\n",
            "GET /size/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /size/9000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ];
        for request in closing {
            let answer = exchange(server.address(), request.as_bytes());
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
            assert!(answer.ends_with(b"0") || answer.len() > 9_000_000, "{request}");
        }
        let mut stream = connect(server.address());
        for _ in 0..3 {
            write!(stream, "GET /size/2 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").unwrap();
            let answer = Answer::read(&mut stream, false);
            assert_eq!(answer.field("Connection"), Some("keep-alive"));
        }
        // A client that shuts down its side still gets the responses that it waits for.
        let mut stream = connect(server.address());
        let request = "GET /size/3000000 HTTP/1.1\r\nHost: a\r\n\r\n";
        stream.write_all(request.repeat(3).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.len() > 9_000_000, "{}", all.len());
    });
}

/// Requests that are invalid under RFC 9112 or exceed a limit, each with its status.
fn wrong_requests() -> Vec<(String, u16, &'static str)> {
    let post = |fields: &str, body: &str| format!("POST /echo HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    let plain = |text: &str| text.to_owned();
    vec![
        (
            post("Content-Length: 3\r\nContent-Length: 3", "abc"),
            400,
            "content_length",
        ),
        (
            post("Content-Length: 3\r\nContent-Length: 4", "abcd"),
            400,
            "content_length",
        ),
        (
            post("Content-Length: 3\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
            400,
            "two_framings",
        ),
        (
            post("Transfer-Encoding: gzip, chunked", ""),
            501,
            "unknown_coding",
        ),
        (
            post("Transfer-Encoding: chunked, chunked", ""),
            400,
            "transfer_encoding",
        ),
        (post("A: b\rc", ""), 400, "field"),
        (post("A: b\r\n folded", ""), 400, "field"),
        (post("A : b", ""), 400, "field"),
        (plain("GET / HTTP/1.1\nHost: a\n\n"), 400, "line_end"),
        (plain("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400, "line_end"),
        (plain("GET /\r\nHost: a\r\n\r\n"), 400, "request_line"),
        (plain("\u{16}\u{3}\u{1}\u{2}"), 400, "request_line"),
        (plain("GET / HTTP/1.1\r\n\r\n"), 400, "host"),
        (plain("GET / HTTP/3.0\r\nHost: a\r\n\r\n"), 505, "version"),
        (
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9_000)),
            414,
            "line_too_long",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(17_000)),
            431,
            "head_too_long",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100)),
            431,
            "too_many_fields",
        ),
        (post("Content-Length: 99999999999", ""), 413, "body_too_long"),
        (post("Expect: a miracle", ""), 417, "expectation"),
    ]
}

/// Invalid chunks. An echo that has started cannot be withdrawn, so the connection is closed instead.
fn wrong_chunks() -> impl Iterator<Item = (String, u16, &'static str)> {
    let bodies = [
        "5\nhello",
        "5\r\nhello\n0\r\n\r\n",
        "x\r\n",
        "5\r\nhello!\r\n",
        "5;a\nhello",
        "fffffffffffffffff\r\n",
    ];
    bodies.into_iter().map(|body| {
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        (format!("{head}{body}"), 200, "chunk")
    })
}

#[test]
fn wrong_requests_get_their_status_and_a_closed_connection() {
    for engine in engines() {
        for (request, status, cause) in wrong_requests().into_iter().chain(wrong_chunks()) {
            let server = start(engine, HttpLimits::default());
            let request = request + "GET /size/1 HTTP/1.1\r\nHost: a\r\n\r\n";
            let answer = exchange(server.address(), request.as_bytes());
            let text = String::from_utf8_lossy(&answer);
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request:?}: {text}"
            );
            assert_eq!(
                text.matches("Server: corelane").count(),
                1,
                "{request:?} smuggled another: {text}"
            );
            assert!(
                !text.ends_with("0\r\n\r\n"),
                "{request:?}: the echo looks complete"
            );
            let served = server.stop().unwrap();
            assert_eq!(
                served.errors().get(cause),
                Some(&1),
                "{request:?}: {:?}",
                served.errors()
            );
        }
    }
}

#[test]
fn chunks_that_are_wrong_outside_an_echo_are_answered_400() {
    on_each_engine(HttpLimits::default(), |server| {
        for body in ["5\nhello", "5\r\nhello\n", "x\r\n", "5\r\nhello!\r\n"] {
            let request =
                format!("POST /size/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            let answer = exchange(server.address(), request.as_bytes());
            assert!(answer.starts_with(b"HTTP/1.1 400 "), "{body:?}");
        }
    });
}

#[test]
fn what_ends_too_early_is_answered_400() {
    let served = on_each_engine(HttpLimits::default(), |server| {
        for request in [
            "GET / HTT",
            "POST /size/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nshort",
        ] {
            let mut stream = connect(server.address());
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        }
    });
    for served in served {
        let errors = served.errors();
        assert_eq!(
            (errors.get("head_too_short"), errors.get("body_too_short")),
            (Some(&1), Some(&1))
        );
    }
}

#[test]
fn methods_are_allowed_known_or_neither() {
    on_each_engine(HttpLimits::default(), |server| {
        for (method, status) in [
            ("OPTIONS", 204),
            ("DELETE", 405),
            ("TRACE", 405),
            ("BREW", 501),
            ("get", 501),
        ] {
            let mut stream = connect(server.address());
            write!(stream, "{method} /size/1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let answer = Answer::read(&mut stream, false);
            assert_eq!(answer.status, status, "{method}");
            assert_eq!(answer.field("Allow").is_some(), matches!(status, 204 | 405));
        }
    });
}

#[test]
fn slow_clients_are_timed_out_each_by_its_own_name() {
    let usual = HttpLimits::default();
    let idle = HttpLimits {
        idle_ms: 100,
        ..usual
    };
    let served = on_each_engine(idle, |server| {
        // The server closes without a response.
        assert_eq!(exchange(server.address(), b""), b"");
    });
    for served in served {
        assert_eq!(
            served
                .buckets
                .iter()
                .map(|bucket| bucket.idle_closed)
                .sum::<u64>(),
            1
        );
    }

    let head = HttpLimits {
        head_ms: 150,
        ..usual
    };
    let served = on_each_engine(head, |server| {
        let mut head = connect(server.address());
        // Further bytes do not extend the timeout, which is for the whole head.
        for byte in b"GET / HTTP/1.1\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle() {
            if head.write_all(&[*byte]).is_err() || head.take_error().unwrap().is_some() {
                break;
            }
            head.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let mut answer = [0; 16];
            if let Ok(read) = head.read(&mut answer) {
                assert_eq!(&answer[..read.min(13)], b"HTTP/1.1 408 ");
                break;
            }
        }
    });
    assert_counted(&served, "head_timeout");

    let body = HttpLimits {
        body_ms: 150,
        ..usual
    };
    let served = on_each_engine(body, |server| {
        let body = b"POST /size/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
        assert!(exchange(server.address(), body).starts_with(b"HTTP/1.1 408 "));
    });
    assert_counted(&served, "body_timeout");

    let write = HttpLimits {
        write_ms: 200,
        ..usual
    };
    let served = on_each_engine(write, |server| {
        // A client that stops reading is reset; others are served meanwhile.
        let mut stopped = connect(server.address());
        stopped
            .write_all(b"GET /size/1GiB HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        until("the stopped client is timed out", || {
            assert_eq!(get(server, "/size/1000").body.len(), 1_000);
            server.served().errors().contains_key("write_timeout")
        });
    });
    assert_counted(&served, "write_timeout");
}

/// Asserts one timeout with this cause and no other error. A client that still writes may count as reset, too.
fn assert_counted(served: &[HttpServed], cause: &str) {
    for served in served {
        let errors = served.errors().into_iter();
        let late: Vec<(String, u64)> = errors.filter(|(name, _)| name.ends_with("_timeout")).collect();
        assert_eq!(late, [(cause.to_owned(), 1)]);
    }
}

/// For each limit on requests: a request within it, one beyond it, and the status and cause of the second.
fn at_limits() -> Vec<(&'static str, String, String, u16)> {
    let line = |bytes: usize| {
        let target = "x".repeat(bytes - "GET /size/1? HTTP/1.1".len());
        format!("GET /size/1?{target} HTTP/1.1\r\nHost: a\r\n\r\n")
    };
    let head = |bytes: usize| {
        let rest = "GET /size/1 HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n".len();
        format!(
            "GET /size/1 HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n",
            "x".repeat(bytes - rest)
        )
    };
    let fields = |count: usize| {
        format!(
            "GET /size/1 HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "A: b\r\n".repeat(count - 1)
        )
    };
    let length = |bytes: usize| {
        let body = "x".repeat(bytes);
        format!("POST /size/1 HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{body}")
    };
    let chunks = |count: usize| {
        let body = "5\r\nhello\r\n".repeat(count);
        format!("POST /size/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n")
    };
    let method = |letters: usize| format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(letters));
    vec![
        ("line_too_long", line(64), line(65), 414),
        ("head_too_long", head(128), head(129), 431),
        ("too_many_fields", fields(3), fields(4), 431),
        ("body_too_long", length(10), length(11), 413),
        ("body_too_long", chunks(2), chunks(3), 413),
        // The longest permitted method has 17 letters: not implemented, but parsed.
        ("method_too_long", method(17), method(18), 501),
    ]
}

#[test]
fn each_limit_lets_pass_what_it_allows_and_has_a_status_for_what_it_does_not() {
    let limits = HttpLimits {
        line_bytes: 64,
        head_bytes: 128,
        fields: 3,
        body_bytes: 10,
        ..HttpLimits::default()
    };
    for (cause, within, beyond, status) in at_limits() {
        let served = on_each_engine(limits, |server| {
            let mut stream = connect(server.address());
            stream.write_all(within.as_bytes()).unwrap();
            let answer = Answer::read(&mut stream, false);
            let expected = if cause == "method_too_long" { 501 } else { 200 };
            assert_eq!(answer.status, expected, "{within:?}");
            let refused = exchange(server.address(), beyond.as_bytes());
            let text = String::from_utf8_lossy(&refused);
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{beyond:?}: {text}"
            );
            assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        });
        for served in served {
            let errors: Vec<_> = served.errors().into_iter().collect();
            assert_eq!(errors, [(cause.to_owned(), 1)], "{beyond:?}");
        }
    }
}

#[test]
fn the_last_request_of_a_connection_is_told_so() {
    let limits = HttpLimits {
        requests: 3,
        ..HttpLimits::default()
    };
    on_each_engine(limits, |server| {
        let request = "GET /size/1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5);
        let answer = String::from_utf8(exchange(server.address(), request.as_bytes())).unwrap();
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 3);
        assert_eq!(answer.matches("Connection: close").count(), 1);
    });
}
