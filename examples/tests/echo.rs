//! The example server echoes datagrams.

use corelane_tests::until;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn the_example_echoes_to_every_port_of_a_client() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_echo"))
        .args(["127.0.0.1:0", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap_or_default()
        .to_owned();
    // With any key that is not degenerate, sixteen ports reach both buckets.
    let echoed = (0..16_u8).filter(|number| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut answer = [0; 2];
        let mut length = None;
        until("the datagram is echoed", || {
            // Again if the kernel dropped it.
            client.send_to(&[*number], &address).unwrap();
            length = client.recv(&mut answer).ok();
            length.is_some()
        });
        length.is_some_and(|length| answer[..length] == [*number])
    });
    let echoed = echoed.count();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(echoed, 16);
}
