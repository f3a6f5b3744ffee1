//! Properties of memcached's requests for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use crate::memcached_server::{Connection, Server};
use corelane_proto::memcached::request::{Data, Event, LONGEST_LINE, Parser, Request};
use corelane_proto::memcached::udp;

/// Sends the bytes behind the first one over a connection, as a whole and in pieces whose lengths the first byte chooses.
/// The answers are the same. Each request is one by itself, too.
pub fn holds(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    framed(input);
    requests_stand_alone(bytes);
    spaces_do_not_matter(bytes);
    // A longer line closes the connection or not by how much of it is there.
    if bytes
        .split(|byte| *byte == b'\n')
        .any(|line| line.len() > LONGEST_LINE)
    {
        return;
    }
    let whole = answers(&[bytes]);
    let mut length = usize::from(*choice);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        length = (length * 31 + 7) % 61;
        let (piece, behind) = rest.split_at(rest.len().min(1 + length));
        pieces.push(piece);
        rest = behind;
    }
    assert_eq!(
        answers(&pieces),
        whole,
        "{:?}",
        pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>()
    );
}

/// The answers to the pieces, and whether the connection was closed.
fn answers(pieces: &[&[u8]]) -> (String, bool) {
    let mut server = Server::default();
    let mut connection = Connection::default();
    let answers = pieces
        .iter()
        .flat_map(|piece| server.serve(&mut connection, piece));
    let answers = answers.collect::<Vec<u8>>().escape_ascii().to_string();
    (answers, connection.closed.is_some())
}

/// The bytes of a request are a request to another parser, which is how they are handed over.
fn requests_stand_alone(bytes: &[u8]) {
    let mut parser = Parser::new();
    let mut rest = bytes;
    loop {
        let between = parser.is_idle();
        let step = parser.next(rest);
        let (used, behind) = rest.split_at(step.used);
        match step.event {
            Event::Request(Request::Get(get)) => {
                assert!(used.windows(get.key.len()).any(|key| key == get.key));
            }
            Event::Request(Request::Store(store)) if store.data == Data::Later => {
                assert!(behind.len() < store.length as usize + 2);
            }
            Event::Request(_) | Event::Control(_) => {
                assert!(between);
                assert_eq!(Parser::new().next(used), step);
            }
            Event::Close(_) => return,
            Event::Nothing if step.used == 0 => return,
            _ => {}
        }
        rest = behind;
    }
}

/// Requests with a space more are read by the same rules, though another way.
fn spaces_do_not_matter(bytes: &[u8]) {
    if let Some((command @ (b"get " | b"set "), rest)) = bytes.split_at_checked(4) {
        let spaced = [command, b" ", rest].concat();
        let (plain, other) = (Parser::new().next(bytes), Parser::new().next(&spaced));
        if plain.used > 0 {
            // A key is used with the spaces behind it, or without.
            assert!(matches!(plain.event, Event::Request(Request::Get(_))) || other.used == plain.used + 1);
            assert_eq!(plain.event, other.event);
        }
    }
}

/// The bytes as a datagram.
fn framed(input: &[u8]) {
    if let Some((header, rest)) = udp::Header::read(input) {
        assert_eq!(header.bytes()[..6], input[..6]);
        assert_eq!(rest.len(), input.len() - udp::HEADER_BYTES);
        let several = udp::Header { total: 2, ..header };
        assert_ne!(
            udp::request(&[&several.bytes(), rest].concat()),
            Ok((header.request, rest))
        );
    }
    let sent: Vec<_> = udp::datagrams(7, input).collect();
    assert!(
        sent.iter()
            .all(|(header, _)| usize::from(header.total) == sent.len())
    );
    assert_eq!(
        sent.iter().map(|(_, part)| part.len()).sum::<usize>(),
        input.len()
    );
}
