//! `serve::http` and clients that send unusual requests, or leave early.

use crate::common::{Answer, connect, engines, exchange, http_plan};
use corelane_serve::Server;
use corelane_serve::http::HttpServer;
use corelane_tests::until;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

fn on_each_engine(test: impl Fn(&mut HttpServer)) {
    for engine in engines() {
        let mut server = HttpServer::start(http_plan(engine, 1)).unwrap();
        test(&mut server);
    }
}

#[test]
fn empty_lines_around_requests_are_no_requests() {
    const GET: &str = "GET /size/3 HTTP/1.1\r\nHost: a\r\n\r\n";
    on_each_engine(|server| {
        for (request, answers) in [
            (format!("{GET}\r\n"), 1),
            (format!("\r\n\r\n{GET}\r\n\r\n{GET}\r\n\r"), 2),
            ("\r\n".to_owned(), 0),
            ("\r".to_owned(), 0),
        ] {
            let mut stream = connect(server.address());
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert_eq!(
                answer.matches("HTTP/1.1 ").count(),
                answers,
                "{request:?}: {answer}"
            );
            assert_eq!(
                answer.matches("HTTP/1.1 200 ").count(),
                answers,
                "{request:?}: {answer}"
            );
        }
        assert!(
            server.served().errors().is_empty(),
            "{:?}",
            server.served().errors()
        );
    });
}

#[test]
fn a_client_that_resets_during_a_delay_is_noticed_before_its_end() {
    on_each_engine(|server| {
        let mut stream = connect(server.address());
        write!(stream, "GET /delay/1h HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        until("the request arrives", || server.served().buckets[0].requests > 0);
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        until("the connection is closed", || {
            server.served().buckets[0].connections.open == 0
        });
    });
}

#[test]
fn a_refused_request_gets_no_continue() {
    on_each_engine(|server| {
        for (method, target, status) in [
            ("POST", "/nothing", 404),
            ("DELETE", "/size/1", 405),
            ("BREW", "/", 501),
        ] {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
            );
            let mut stream = connect(server.address());
            stream.write_all(request.as_bytes()).unwrap();
            let answer = Answer::read(&mut stream, false);
            assert_eq!(
                (answer.status, answer.field("Connection")),
                (status, Some("close"))
            );
        }
    });
}

#[test]
fn a_refusal_of_head_has_no_content() {
    on_each_engine(|server| {
        for (request, status) in [
            ("HEAD / HTTP/1.1\r\n\r\n", 400),
            (
                "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
                413,
            ),
            (
                "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx",
                400,
            ),
            ("HEAD / HTTP/1.1\r\nHost", 400),
        ] {
            let mut stream = connect(server.address());
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request:?}: {answer}"
            );
            assert!(answer.ends_with("\r\n\r\n"), "{request:?}: {answer}");
        }
    });
}

#[test]
fn a_host_is_a_host() {
    on_each_engine(|server| {
        for (host, status) in [
            ("a.example:80", 200),
            ("[::1]:80", 200),
            ("a:b", 400),
            ("a:80:80", 400),
            ("[::1", 400),
            ("::1", 400),
            ("[zz]", 400),
            ("a%zz", 400),
        ] {
            for request in [
                format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
                format!("GET http://{host}/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            ] {
                let answer = exchange(server.address(), request.as_bytes());
                let line = format!("HTTP/1.1 {status} ");
                assert!(answer.starts_with(line.as_bytes()), "{request:?}");
            }
        }
    });
}

#[test]
fn a_chunk_extension_follows_its_grammar() {
    on_each_engine(|server| {
        let post =
            "POST /size/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        for (line, status) in [
            ("5 ; a=\"b\"", 200),
            ("5 5", 400),
            ("5;", 400),
            ("5;bad[=x", 400),
            ("5;a=\"b", 400),
        ] {
            let request = format!("{post}{line}\r\nhello\r\n0\r\n\r\n");
            let answer = exchange(server.address(), request.as_bytes());
            assert!(
                answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()),
                "{line:?}"
            );
        }
    });
}
