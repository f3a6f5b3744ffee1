//! `serve::memcached` with clients that stop in the middle, ask for much at once, do not read or do not close.

use crate::common::connect;
use crate::memcached::{ask, start, stats};
use std::io::{Read, Write};
use std::net::Shutdown;

/// Also values of keys that other workers own are given up, and their clients are closed.
#[test]
fn an_upload_that_ends_in_the_middle_leaves_nothing() {
    for server in start() {
        for key in 0..16 {
            let mut client = connect(server.address());
            let mut request =
                format!("set before{key} 0 0 1\r\n1\r\nset key{key} 0 0 100000\r\n").into_bytes();
            request.resize(request.len() + 50_000, b'x');
            client.write_all(&request).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, b"STORED\r\n");
        }
        let mut client = connect(server.address());
        corelane_tests::until("only this connection is open", || {
            stats(&mut client, "stats")["curr_connections"] == "1"
        });
        assert_eq!(stats(&mut client, "stats")["curr_items"], "16");
        ask(
            &mut client,
            b"get key0 before0\r\n",
            b"VALUE before0 0 1\r\n1\r\nEND\r\n",
        );
    }
}
