//! The statistics of `serve memcached` have the names that tools read of memcached.

use crate::common::{anywhere, steering};
use corelane_serve::Server;
use corelane_serve::memcached::{MemcachedPlan, MemcachedServer};
use corelane_tests::PATIENCE;
use corelane_tests::memcached::Upstream;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// The names of each group.
fn names(address: SocketAddr, group: &str) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(format!("set a 0 0 1\r\n1\r\nstats{group}\r\n").as_bytes())
        .unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines
        .take_while(|line| line != "END")
        .filter_map(|line| Some(line.strip_prefix("STAT ")?.split(' ').next()?.to_owned()))
        .collect()
}

#[test]
fn no_name_of_memcacheds_statistics_is_missing() {
    let Some(upstream) = Upstream::start() else { return };
    let server = MemcachedServer::start(MemcachedPlan::new(anywhere(), steering(1))).unwrap();
    for group in ["", " settings", " items", " slabs"] {
        let of_upstream = names(upstream.addresses().stream, group);
        let here = names(server.address(), group);
        let missing: Vec<_> = of_upstream.difference(&here).collect();
        assert!(
            missing.is_empty() && of_upstream.len() > 10,
            "stats{group}: {missing:?}"
        );
    }
}
