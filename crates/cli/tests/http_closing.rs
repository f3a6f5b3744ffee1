//! Connections that a server announces to close and leaves to the client.

use crate::common::run_json;
use crate::raw_http::{Answer, RawServer};

#[test]
fn a_server_that_announces_the_end_and_does_not_close_is_not_waited_for() {
    // As nginx answers a body that is too large.
    let head = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let server = RawServer::start(move |_| Answer::BytesThenSilence(head.into()));
    let url = server.url();
    let flags = "--status 413 --method POST --body-size 1MiB --expect-continue --requests 20 --connections 1 --workers 1";
    let loaded = run_json(&format!("load http {url} --json {flags}"));
    let (requests, connections) = (&loaded["requests"], &loaded["connections"]);
    assert_eq!(
        (&requests["ok"], &requests["body_refused"]),
        (&20.into(), &20.into()),
        "{requests}"
    );
    assert_eq!(
        (
            &connections["opened"],
            &connections["closed_by_client"],
            &connections["closed_by_server"]
        ),
        (&20.into(), &20.into(), &0.into()),
        "{connections}"
    );
    assert_eq!(server.count(), 20);
}
