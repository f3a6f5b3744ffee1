//! Files that change while they are sent: a response is of one version, or visibly incomplete.

use crate::common::{engines, http_plan};
use corelane_serve::Server;
use corelane_serve::http::{HttpPlan, HttpServed, HttpServer};
use corelane_tests::{PATIENCE, until};
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// More than both ends' buffers hold.
const LARGE: usize = 32 << 20;

/// A file of `length` times 'x', which was written long ago.
fn file(folder: &Path, length: usize) -> File {
    let mut file = File::create(folder.join("file")).unwrap();
    file.write_all(&vec![b'x'; length]).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(long_ago).unwrap();
    file
}

/// A client that has requested the file and holds little that it has not read, once the response has begun.
fn client(server: &HttpServer) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(65_536).unwrap();
    socket.connect(&server.address().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    until("the response has begun", || {
        stream.peek(&mut [0; 64]).unwrap() == 64
    });
    stream
}

/// Reads a response to the end of its connection; returns what came of its body.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let head = response.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert!(response.starts_with(b"HTTP/1.1 200 "));
    response.split_off(head)
}

/// Runs the test with a server of the folder on each engine; returns what each served.
fn on_each_engine(root: &Path, test: impl Fn(&HttpServer)) -> Vec<HttpServed> {
    let served = |engine| {
        let plan = HttpPlan {
            root: Some(root.to_owned()),
            ..http_plan(engine, 1)
        };
        let server = HttpServer::start(plan).unwrap();
        test(&server);
        server.stop().unwrap()
    };
    engines().into_iter().map(served).collect()
}

/// Each response ended early, and is counted once.
fn assert_cut(served: &[HttpServed]) {
    for served in served {
        let errors = served.errors();
        assert_eq!(errors.values().sum::<u64>(), 1, "{errors:?}");
        assert!(
            errors.contains_key("file") || errors.contains_key("truncated"),
            "{errors:?}"
        );
        assert_eq!(served.buckets[0].answers[&200], 1);
    }
}

#[test]
fn a_file_that_was_queued_whole_arrives_as_it_was() {
    const LENGTH: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let served = on_each_engine(folder.path(), |server| {
        let file = file(folder.path(), LENGTH);
        let stream = client(server);
        file.set_len(40_001).unwrap();
        let body = rest(stream);
        assert_eq!(body.len(), LENGTH);
        assert!(body.iter().all(|byte| *byte == b'x'), "a byte is not the file's");
    });
    for served in served {
        assert!(served.errors().is_empty(), "{:?}", served.errors());
    }
}

#[test]
fn a_large_file_that_is_truncated_ends_short() {
    let folder = tempfile::tempdir().unwrap();
    let served = on_each_engine(folder.path(), |server| {
        let file = file(folder.path(), LARGE);
        let stream = client(server);
        file.set_len(1 << 20).unwrap();
        assert!(rest(stream).len() < LARGE);
    });
    assert_cut(&served);
}

#[test]
fn a_large_file_that_is_written_again_ends_short() {
    let folder = tempfile::tempdir().unwrap();
    let served = on_each_engine(folder.path(), |server| {
        let file = file(folder.path(), LARGE);
        let stream = client(server);
        file.write_all_at(b"y", LARGE as u64 - 1).unwrap();
        assert!(rest(stream).len() < LARGE);
    });
    assert_cut(&served);
}
