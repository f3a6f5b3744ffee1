//! `serve http --engine io_uring` on a kernel before Linux 6.17, in a guest: that kernel rejects bounded receives.

use crate::common::number;
use corelane_guest::{GuestPlan, boot};
use corelane_tests::guest_parts;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Requests of 41 bytes, 4,198,400 bytes in total; receive buffers of the kernel have room for all of them. The client
/// never reads, and its first response alone fills the buffers on the way. Once everything was sent, other clients make
/// the server turn often enough to receive whatever it would. /proc/net/tcp then shows what it has not received.
const SCRIPT: &str = r#"
uname -r
echo "4096 16777216 16777216" > /proc/sys/net/ipv4/tcp_rmem
corelane serve http 127.0.0.1:8000 --cpus 0 --engine io_uring --write-timeout 1h --json > /tmp/served 2> /tmp/error &
server=$!
until grep -q ':1F40 .* 0A ' /proc/net/tcp; do kill -0 $server || { cat /tmp/error; exit 10; }; usleep 20000; done
for i in $(seq 100); do printf 'GET /size/999999999 HTTP/1.1\r\nHost: a\r\n\r\n'; done > /tmp/part
for i in $(seq 1024); do cat /tmp/part; done > /tmp/requests
printf '#!/bin/sh\ncat /tmp/requests; touch /tmp/sent; exec sleep 1000\n' > /tmp/client
chmod +x /tmp/client
nc 127.0.0.1 8000 -e /tmp/client &
until [ -e /tmp/sent ]; do kill -0 $! || exit 11; usleep 20000; done
for i in $(seq 16); do wget -q -O /dev/null http://127.0.0.1:8000/size/10 || exit 12; done
stat -c %s /tmp/requests
awk '$4 == "01" { print ($2 ~ /:1F40/ ? "left" : "unsent"), $5 }' /proc/net/tcp
kill -INT $server; wait $server
cat /tmp/served
"#;

/// The bytes of a queue in `tx:rx`, as /proc/net/tcp has it.
fn queue(queues: &str, index: usize) -> u64 {
    u64::from_str_radix(queues.split(':').nth(index).unwrap(), 16).unwrap()
}

#[test]
fn a_client_that_pipelines_and_never_reads_holds_32_kib_of_requests() {
    let Some(parts) = guest_parts() else { return };
    let plan = GuestPlan {
        cpus: 2,
        node_bytes: 1 << 30,
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_corelane"))],
        limit: Duration::from_secs(900),
        ..GuestPlan::new(SCRIPT)
    };
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(guest.status, 0, "{}", guest.output);
    let release: Vec<u32> = guest
        .output
        .split(['.', '-', '\n'])
        .map_while(|part| part.parse().ok())
        .collect();
    assert!(
        release < vec![6, 17],
        "the guest's kernel takes bounded receives: {release:?}"
    );
    let (lines, document) = guest.output.split_once('{').expect("a document");
    let field = |name: &str| -> &str {
        let line = lines.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {}", guest.output))
    };
    let sent: u64 = lines.lines().nth(1).unwrap().parse().unwrap();
    let held = sent - queue(field("left "), 1) - queue(field("unsent "), 0);
    assert!(held <= 32 << 10, "{held} bytes are held: {}", guest.output);
    let served: Value = serde_json::from_str(&format!("{{{document}")).unwrap();
    assert_eq!(served["engine"], "io_uring");
    // The other clients' requests, and the first of those that were pipelined.
    assert_eq!(number(&served["buckets"][0]["requests"]), 17);
}
