//! Transcripts of the meta commands.

use crate::memcached_answers::transcript;
use crate::memcached_server::{Connection, START, Server};

#[test]
fn flags_return_what_is_known_of_an_item() {
    let mut server = Server::default();
    transcript(
        &mut server,
        &[
            ("mg a v", "EN"),
            ("mg a v k Oabc q", ""),
            ("mg a v k Oabc", "EN ka Oabc"),
            ("ms a 3 F7 T100 c s k Ox\nabc", "HD c1 s3 ka Ox"),
            ("mg a h l t", "HD h0 l0 t100"),
            ("mg a", "HD"),
            ("mg a v", "VA 3\nabc"),
            ("mg a s v f c k O1 t h l", "VA 3 s3 f7 c1 ka O1 t100 h1 l0\nabc"),
            ("mg a v C1 s", "HD s3"),
            ("mg a v C2 s", "VA 3 s3\nabc"),
            ("mg a T50 t", "HD t50"),
            ("mg a t T-1 t", "CLIENT_ERROR duplicate flag"),
            ("mg a T0 t", "HD t-1"),
            ("me a", "ME a exp=-1 la=0 cas=1 fetch=yes cls=1 size=67"),
            ("me b", "EN"),
        ],
    );
    server.clock.now = START + 5;
    transcript(&mut server, &[("mg a l", "HD l5"), ("mg a h l", "HD h1 l5")]);
}

#[test]
fn the_second_read_moves_the_last_access_and_u_is_no_read() {
    let mut server = Server::default();
    transcript(&mut server, &[("set a 0 0 1\nx", "STORED")]);
    server.clock.now = START + 3;
    transcript(
        &mut server,
        &[
            ("mg a h l u", "HD h0 l3"),
            ("get a", "VALUE a 0 1\nx\nEND"),
            ("mg a h l u", "HD h1 l3"),
            ("get a", "VALUE a 0 1\nx\nEND"),
            ("mg a h l u", "HD h1 l0"),
        ],
    );
    server.clock.now = START + 9;
    transcript(
        &mut server,
        &[("get a", "VALUE a 0 1\nx\nEND"), ("mg a h l u", "HD h1 l6")],
    );
}

#[test]
fn modes_of_ms_store_as_the_text_commands_do() {
    transcript(
        &mut Server::default(),
        &[
            ("ms a 1 MR\nx", "NS"),
            ("ms a 1 ME\nx", "HD"),
            ("ms a 1 ME\ny", "NS"),
            ("ms a 2 MA s c\nyz", "HD s3 c2"),
            ("ms a 1 MP s\nw", "HD s4"),
            ("mg a v", "VA 4\nwxyz"),
            ("ms b 1 MA\nx", "NS"),
            ("ms b 1 MA N60\nx", "HD"),
            ("mg b v t", "VA 1 t60\nx"),
            ("ms b 1 MS\ny", "HD"),
            ("ms b 1 MX\ny", "CLIENT_ERROR invalid mode for ms M token"),
            ("ms b 1 C99\nz", "EX"),
            ("ms b 1 C5 E100 c\nz", "HD c100"),
            ("ms c 1 C5\nz", "NF"),
            ("ms b 1 q\nz", ""),
            ("ms b 1 q ME\nz", "NS"),
            (
                "ms b 1 q\nzz",
                "CLIENT_ERROR bad data chunk\nCLIENT_ERROR bad command line format",
            ),
            (
                "ms b x\n",
                "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format",
            ),
        ],
    );
}

#[test]
fn a_stale_item_is_renewed_by_one_client() {
    transcript(
        &mut Server::default(),
        &[
            ("ms a 1 T100\nx", "HD"),
            ("md a I T30", "HD"),
            ("mg a v c t", "VA 1 c2 t30 X W\nx"),
            ("mg a v", "VA 1 Z X\nx"),
            ("ms a 1 C1 I\ny", "HD"),
            ("mg a v t", "VA 1 t30 Z X\ny"),
            ("ms a 1 C3 T0\nz", "HD"),
            ("mg a v t", "VA 1 t-1\nz"),
            // Soon to expire.
            ("mg a T20", "HD"),
            ("mg a R30 v", "VA 1 W\nz"),
            ("mg a R30 v", "VA 1 Z\nz"),
        ],
    );
}

#[test]
fn a_missing_item_is_made_and_one_client_asked_for_its_value() {
    transcript(
        &mut Server::default(),
        &[
            ("mg a N30 v t s", "VA 0 t30 s0 W\n"),
            ("mg a N30 v", "VA 0 Z\n"),
            ("ma n", "NF"),
            ("ma n N0 J13 v c", "VA 2 c2\n13"),
            ("ma n v D5", "VA 2\n18"),
            ("ma n MD D20 v t", "VA 1 t-1\n0"),
            ("ma n M+ q", ""),
            ("ma n C1", "EX"),
            ("ma n Mx", "CLIENT_ERROR invalid mode for ma M token"),
            ("ma n t T90", "HD t-1"),
            ("mg n t v", "VA 2 t90\n2 "),
            // A longer number is another item, and what is given then is given to the one before.
            ("ma n D99 T5 t v", "VA 3 t5\n101"),
            ("mg n t v", "VA 3 t90\n101"),
            ("ma n C99 k Oq", "EX kn Oq"),
            ("set t 0 0 1\nx", "STORED"),
            (
                "ma t",
                "CLIENT_ERROR cannot increment or decrement non-numeric value",
            ),
        ],
    );
}

#[test]
fn items_are_deleted_or_emptied() {
    transcript(
        &mut Server::default(),
        &[
            ("md a k Ox", "NF ka Ox"),
            ("set a 5 0 1\nx", "STORED"),
            ("md a C7", "EX"),
            ("md a x T10", "HD"),
            ("mg a v f t c", "VA 0 f0 t10 c1\n"),
            ("md a q", ""),
            ("md a q", "NF"),
        ],
    );
}

#[test]
fn keys_can_be_base64() {
    transcript(
        &mut Server::default(),
        &[
            ("ms Zm9v 1 b k\nx", "HD kZm9v b"),
            ("get foo", "VALUE foo 0 1\nx\nEND"),
            ("mg Zm9v b k v", "VA 1 kZm9v b\nx"),
            ("mg foo k", "HD kZm9v b"),
            ("me foo", "ME Zm9v exp=-1 la=0 cas=1 fetch=yes cls=1 size=63"),
            ("mg Zm9 b", "CLIENT_ERROR error decoding key"),
            ("md Zm9v b k", "HD kZm9v b"),
            ("me Zm9v b t", "EN"),
            ("me Zm9 b t", "CLIENT_ERROR bad command line format"),
        ],
    );
}

#[test]
fn errors_of_flags_have_their_lines() {
    let long = format!("mg a O{}", "o".repeat(32));
    let many = format!("mg a{}", " P".repeat(19));
    transcript(
        &mut Server::default(),
        &[
            ("mg", "CLIENT_ERROR bad command line format"),
            ("mg a -", "CLIENT_ERROR bad command line format"),
            ("mg a z", "CLIENT_ERROR invalid flag"),
            ("mg a 1", "CLIENT_ERROR invalid flag"),
            ("mg a v v", "CLIENT_ERROR duplicate flag"),
            ("mg a T", "CLIENT_ERROR bad token in command line format"),
            ("mg a Tx", "CLIENT_ERROR bad token in command line format"),
            ("mg a F-1", "CLIENT_ERROR bad command line format"),
            ("mg a Jx Dx", "CLIENT_ERROR invalid numeric delta value"),
            ("ma a Jx", "CLIENT_ERROR invalid or duplicate flag"),
            (&long, "CLIENT_ERROR opaque token too long"),
            (&many, "CLIENT_ERROR options flags are too long"),
            ("ms a 1 z\nx", "CLIENT_ERROR invalid flag"),
            ("mn", "MN"),
        ],
    );
}

/// The server of the tests compares with a copy of the item whenever a read changes nothing.
#[test]
fn reads_with_any_flags_are_answered_alike_with_a_copy_of_the_item() {
    const FLAGS: [&str; 16] = [
        "v", "s", "t", "c", "f", "l", "h", "k", "u", "q", "R30", "N60", "C1", "E7", "T9", "Oabc",
    ];
    let setups = [
        "",
        "set a 3 20 3\r\nabc\r\nget a\r\n",
        "set a 3 20 3\r\nabc\r\nget a\r\nget a\r\n",
        "set a 0 0 0\r\n\r\nmg a\r\nmg a\r\n",
        "set a 3 20 3\r\nabc\r\nget a\r\nget a\r\nmd a I\r\n",
        "set a 3 20 3\r\nabc\r\nget a\r\nget a\r\nmd a I\r\nmg a\r\n",
    ];
    for (setup, kind) in setups.iter().flat_map(|setup| [(setup, ""), (setup, "b ")]) {
        for chosen in (0..1 << FLAGS.len()).step_by(37) {
            let mut server = Server::default();
            let key = if kind.is_empty() { "a" } else { "YQ==" };
            let flags = FLAGS.iter().enumerate();
            let flags = flags.filter(|(place, _)| chosen >> place & 1 == 1);
            let flags: Vec<_> = flags.map(|(_, flag)| *flag).collect();
            let requests = format!("{setup}mg {key} {kind}{}\r\ngets a b\r\n", flags.join(" "));
            server.serve(&mut Connection::default(), requests.as_bytes());
        }
    }
}
