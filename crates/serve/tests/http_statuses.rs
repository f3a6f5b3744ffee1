//! Responses whose status excludes content: none is sent, whatever was requested, and the next response can be read.

use crate::common::{Answer, connect, engines, http_plan};
use corelane_serve::Server;
use corelane_serve::http::HttpServer;
use std::io::Write;

#[test]
fn a_status_without_content_has_none() {
    for engine in engines() {
        let server = HttpServer::start(http_plan(engine, 1)).unwrap();
        for status in [204, 205, 304] {
            let requests = [
                format!("GET /status/{status}?size=5 HTTP/1.1\r\nHost: a\r\n\r\n"),
                format!("GET /chunks/3/5?status={status} HTTP/1.1\r\nHost: a\r\n\r\n"),
                format!("HEAD /status/{status}?size=5 HTTP/1.1\r\nHost: a\r\n\r\n"),
                format!("POST /echo?status={status} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"),
                format!(
                    "POST /echo?status={status} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\n12345\r\n0\r\n\r\n"
                ),
            ];
            for request in requests {
                let mut stream = connect(server.address());
                write!(stream, "{request}GET /size/3 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let answer = Answer::read(&mut stream, request.starts_with("HEAD"));
                assert_eq!((answer.status, answer.body.len()), (status, 0), "{request}");
                if status == 205 {
                    assert_eq!(answer.field("Content-Length"), Some("0"), "{request}");
                    assert_eq!(answer.field("Transfer-Encoding"), None, "{request}");
                }
                let next = Answer::read(&mut stream, false);
                assert_eq!((next.status, next.body.len()), (200, 3), "{request}");
            }
        }
        let served = server.stop().unwrap();
        assert!(served.errors().is_empty(), "{:?}", served.errors());
    }
}
