//! What is answered when there is no room for a value.

use crate::memcached_answers::transcript;
use crate::memcached_server::{Connection, Server};

/// A server whose values may have 10 bytes in all.
fn small() -> Server {
    let mut server = Server::default();
    server.items.room = Some(10);
    server
}

#[test]
fn a_value_without_room_takes_the_old_one_with_it_if_it_would_be_out_of_date() {
    transcript(
        &mut small(),
        &[
            ("set a 0 0 4\nabcd", "STORED"),
            ("set b 0 0 4\nabcd", "STORED"),
            (
                "replace a 0 0 9\n123456789",
                "SERVER_ERROR out of memory storing object",
            ),
            ("get a", "VALUE a 0 4\nabcd\nEND"),
            ("set a 0 0 9 noreply\n123456789", ""),
            ("get a", "END"),
            ("ms b 9\n123456789", "SERVER_ERROR out of memory storing object"),
            ("mg b v", "EN"),
        ],
    );
}

#[test]
fn what_makes_or_lengthens_an_item_says_that_there_is_no_room() {
    let mut server = small();
    transcript(
        &mut server,
        &[
            ("set n 0 0 1\n9", "STORED"),
            ("set a 0 0 8\n12345678", "STORED"),
            ("append a 0 0 3\nxyz", "NOT_STORED"),
            ("get a", "VALUE a 0 8\n12345678\nEND"),
            ("incr n 1", "SERVER_ERROR out of memory"),
            ("ma n", "SERVER_ERROR out of memory"),
            ("ma m N0 J12", "SERVER_ERROR Out of memory allocating new item"),
            ("set m 0 0 1\nx", "STORED"),
            ("mg e N30 v", "VA 0 W\n"),
        ],
    );
    assert_eq!(server.counts.no_memory, 0, "only values of requests count");
}

#[test]
fn a_value_in_parts_is_refused_when_its_line_is_there() {
    let mut server = small();
    let mut connection = Connection::default();
    let refused = b"SERVER_ERROR out of memory storing object\r\n";
    assert_eq!(server.serve(&mut connection, b"set a 0 0 11\r\n12"), refused);
    assert_eq!(server.serve(&mut connection, b"345678901\r"), b"");
    assert_eq!(server.serve(&mut connection, b"\nmn\r\n"), b"MN\r\n");
    assert_eq!(server.serve(&mut connection, b"set b 0 0 9\r\n123"), b"");
    assert_eq!(
        server.serve(&mut connection, b"456789\r\nget b\r\n"),
        b"STORED\r\nVALUE b 0 9\r\n123456789\r\nEND\r\n"
    );
    assert_eq!((server.counts.no_memory, server.counts.sets), (1, 2));
}

#[test]
fn an_item_that_is_too_large_is_refused_by_its_size_in_memcached() {
    let mut server = Server {
        largest_item: 48 + 8 + 2 + 10 + 2,
        ..Server::default()
    };
    transcript(
        &mut server,
        &[
            ("set a 0 0 10\n0123456789", "STORED"),
            (
                "set a 1 0 10\n0123456789",
                "SERVER_ERROR object too large for cache",
            ),
            ("get a", "END"),
            ("add a 0 0 11 noreply\n0123456789a", ""),
            (
                "ms a 11 q\n0123456789a",
                "SERVER_ERROR object too large for cache",
            ),
            ("set a 0 0 9\n012345678", "STORED"),
            ("append a 0 0 2\nxy", "NOT_STORED"),
            ("append a 0 0 1\nx", "STORED"),
        ],
    );
    assert_eq!(server.counts.too_large, 3);
}
