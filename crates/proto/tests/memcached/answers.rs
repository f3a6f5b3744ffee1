//! Transcripts: requests and their answers, as memcached 1.6.45 gives them.

use crate::memcached_server::{Connection, START, Server};

/// The answer to bytes of a new connection.
fn ask(server: &mut Server, bytes: &[u8]) -> Vec<u8> {
    server.serve(&mut Connection::default(), bytes)
}

/// Sends each request, and compares its answer. Line ends are those of the protocol.
pub fn transcript(server: &mut Server, lines: &[(&str, &str)]) {
    for (request, answer) in lines {
        let request = format!("{}\r\n", request.replace('\n', "\r\n"));
        let mut expected = answer.replace('\n', "\r\n");
        if !expected.is_empty() {
            expected += "\r\n";
        }
        let got = ask(server, request.as_bytes());
        assert_eq!(String::from_utf8_lossy(&got), expected, "{request:?}");
    }
}

#[test]
fn values_are_stored_and_returned() {
    transcript(
        &mut Server::default(),
        &[
            ("get a", "END"),
            ("set a 5 0 3\nabc", "STORED"),
            ("get a", "VALUE a 5 3\nabc\nEND"),
            ("gets a", "VALUE a 5 3 1\nabc\nEND"),
            ("set b 0 0 0\n", "STORED"),
            ("get x a  b y ", "VALUE a 5 3\nabc\nVALUE b 0 0\n\nEND"),
            ("add a 0 0 1\nx", "NOT_STORED"),
            ("add c 0 0 1\nx", "STORED"),
            ("replace d 0 0 1\nx", "NOT_STORED"),
            ("replace c 0 0 1\ny", "STORED"),
            ("append c 9 9 2\nzz", "STORED"),
            ("prepend c 9 9 1\nw", "STORED"),
            ("append d 0 0 1\nx", "NOT_STORED"),
            ("gets c", "VALUE c 0 4 6\nwyzz\nEND"),
            ("cas c 1 0 1 5\nq", "EXISTS"),
            ("cas c 1 0 1 6\nq", "STORED"),
            ("cas d 1 0 1 6\nq", "NOT_FOUND"),
            ("delete c", "DELETED"),
            ("delete c", "NOT_FOUND"),
            (
                "set e 0 0 1 noreply\nx\ndelete e noreply\nadd a 0 0 1 noreply\nx",
                "",
            ),
            ("get e", "END"),
        ],
    );
}

#[test]
fn values_expire() {
    let mut server = Server::default();
    transcript(
        &mut server,
        &[
            ("set a 0 10 1\nx", "STORED"),
            ("set b 0 -1 1\nx", "STORED"),
            ("set c 0 1700000072 1\nx", "STORED"),
            ("set d 0 10 1\nx", "STORED"),
            ("get a b c", "VALUE a 0 1\nx\nVALUE c 0 1\nx\nEND"),
            ("touch a 20", "TOUCHED"),
            ("touch b 20", "NOT_FOUND"),
            ("gat 30 d b", "VALUE d 0 1\nx\nEND"),
            ("gats 0 c", "VALUE c 0 1 3\nx\nEND"),
        ],
    );
    server.clock.now = START + 20;
    transcript(
        &mut server,
        &[("get a c d", "VALUE c 0 1\nx\nVALUE d 0 1\nx\nEND")],
    );
    server.clock.now = START + 30;
    transcript(&mut server, &[("get a c d", "VALUE c 0 1\nx\nEND")]);
}

#[test]
fn numbers_are_changed() {
    transcript(
        &mut Server::default(),
        &[
            ("incr a 1", "NOT_FOUND"),
            ("set a 7 0 2\n10", "STORED"),
            ("incr a 5", "15"),
            ("decr a 6", "9"),
            ("get a", "VALUE a 7 2\n9 \nEND"),
            ("incr a 991", "1000"),
            ("get a", "VALUE a 7 4\n1000\nEND"),
            ("decr a 2000", "0"),
            ("incr a 18446744073709551615", "18446744073709551615"),
            ("incr a 1", "0"),
            ("incr a -1", "CLIENT_ERROR invalid numeric delta argument"),
            ("set b 0 0 2\n1x", "STORED"),
            (
                "incr b 1",
                "CLIENT_ERROR cannot increment or decrement non-numeric value",
            ),
            ("incr a 2 noreply", ""),
            ("get a", "VALUE a 7 20\n2                   \nEND"),
        ],
    );
}

#[test]
fn errors_have_the_lines_that_clients_know() {
    let long = "k".repeat(251);
    let bad = "CLIENT_ERROR bad command line format";
    let cases = [
        ("", bad),
        ("a", bad),
        ("ab", "ERROR"),
        ("get", bad),
        ("get ", bad),
        ("GET a", "ERROR"),
        (" get a", "ERROR"),
        ("foo noreply", ""),
        ("set a 0 0", bad),
        ("set a 0 0 -1", bad),
        ("set a 0 0 x", bad),
        ("set a x 0 1\nb", bad),
        ("set a 0 x 1\nb", bad),
        ("set a 0 x 1 noreply\nb", ""),
        ("cas a 0 0 1\nb", bad),
        (&format!("set {long} 0 0 1\nb"), bad),
        (&format!("get a {long}"), &format!("{bad}\n")),
        (&format!("get {long} noreply"), ""),
        (&format!("delete {long}"), bad),
        (
            "set a 0 0 1\nbb",
            "CLIENT_ERROR bad data chunk\nCLIENT_ERROR bad command line format",
        ),
        ("touch a x", "CLIENT_ERROR invalid exptime argument"),
        ("gat x a", "CLIENT_ERROR invalid exptime argument"),
        ("gat 0", bad),
        ("set a 0 0 9999999999", bad),
        ("set a 0 0 2147483646", bad),
        ("set a 4294967295 0 0\n", "STORED"),
        ("set a 9999999999 9999999999 0\n", "STORED"),
        ("set a 0 0 1048576\n", "SERVER_ERROR object too large for cache"),
    ];
    for (request, answer) in cases {
        let answer = if answer.is_empty() && request.starts_with("get") {
            "\n"
        } else {
            answer
        };
        if answer == "\n" {
            assert_eq!(
                ask(&mut Server::default(), format!("{request}\r\n").as_bytes()),
                b"\r\n"
            );
        } else {
            transcript(&mut Server::default(), &[(request, answer)]);
        }
    }
}

#[test]
fn answers_do_not_depend_on_where_requests_are_split() {
    let requests: &[u8] =
        b"set a 1 0 4\r\nabcd\r\nget a b\r\nset b 0 0 3\r\nabcde\r\nms c 2 c k Oxy\r\nhi\r\n\
        append a 0 0 2\r\n\r\n\r\nset c x 0 2\r\nhi\r\nmg c v k\r\ngets a\n";
    let whole = ask(&mut Server::default(), requests);
    assert!(
        whole.ends_with(b"VALUE a 1 6 3\r\nabcd\r\n\r\nEND\r\n"),
        "{}",
        whole.escape_ascii()
    );
    for split in 0..requests.len() {
        let mut server = Server::default();
        let mut connection = Connection::default();
        let mut answers = server.serve(&mut connection, &requests[..split]);
        answers.extend(server.serve(&mut connection, &requests[split..]));
        assert_eq!(
            answers.escape_ascii().to_string(),
            whole.escape_ascii().to_string(),
            "{split}"
        );
    }
    let mut server = Server::default();
    let mut connection = Connection::default();
    let bytes = requests
        .iter()
        .flat_map(|byte| server.serve(&mut connection, &[*byte]));
    assert_eq!(bytes.collect::<Vec<u8>>(), whole);
}

#[test]
fn a_long_line_of_keys_can_arrive_in_small_pieces() {
    let keys: Vec<String> = (0..2_000).map(|key| format!("key-{key}")).collect();
    let mut server = Server::default();
    ask(
        &mut server,
        b"set key-0 0 0 1\r\na\r\nset key-1999 0 0 1\r\nb\r\n",
    );
    let request = format!("gets {}\r\n", keys.join(" "));
    let mut connection = Connection::default();
    let mut answers = Vec::new();
    for piece in request.as_bytes().chunks(7) {
        assert_eq!(answers, b"", "a key is read when the line is there");
        answers.extend(server.serve(&mut connection, piece));
    }
    assert_eq!(
        answers,
        b"VALUE key-0 0 1 1\r\na\r\nVALUE key-1999 0 1 2\r\nb\r\nEND\r\n"
    );
}
