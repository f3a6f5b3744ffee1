//! Requests about the whole server.

use corelane_proto::memcached::control::{Action, Allowed, Dump, Stats};
use corelane_proto::memcached::request::{Event, Parser, Reason};
use corelane_proto::memcached::time::Clock;

const ALL: Allowed = Allowed {
    flush: true,
    dump: true,
    watch: true,
    shutdown: true,
    crawler: true,
};

const NONE: Allowed = Allowed {
    flush: false,
    dump: false,
    watch: false,
    shutdown: false,
    crawler: true,
};

const CLOCK: Clock = Clock {
    now: 100,
    epoch: 1_700_000_000,
};

/// What a line asks for, and whether there is no answer.
fn action(line: &str, allowed: Allowed) -> (Action, bool) {
    let line = format!("{line}\r\n");
    let step = Parser::new().next(line.as_bytes());
    assert_eq!(step.used, line.len());
    let Event::Control(control) = step.event else {
        panic!("{line:?}: {:?}", step.event);
    };
    (control.action(allowed, CLOCK), control.quiet)
}

#[test]
fn lines_ask_for_actions() {
    let bad = "CLIENT_ERROR bad command line format\r\n";
    let cases = [
        ("version", Action::Version),
        ("stats", Action::Stats(Stats::General)),
        ("stats r", Action::Stats(Stats::Reset)),
        ("stats s", Action::Stats(Stats::Settings)),
        ("stats slabs", Action::Stats(Stats::Slabs)),
        ("stats slab", Action::Answer("ERROR\r\n")),
        ("stats detail on", Action::Stats(Stats::Detail(true))),
        (
            "stats cachedump 1 0",
            Action::Stats(Stats::CacheDump { class: 1, most: 0 }),
        ),
        (
            "stats cachedump 64 0",
            Action::Answer("CLIENT_ERROR Illegal slab id\r\n"),
        ),
        ("verbosity 9", Action::Verbosity(2)),
        ("verbosity", Action::Answer(bad)),
        ("cache_memlimit 64", Action::MemoryLimit { mebibytes: 64 }),
        (
            "cache_memlimit 7",
            Action::Answer("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        ),
        ("lru mode flat", Action::Setting),
        ("lru tune 10 20 0.2 2.0", Action::Setting),
        ("lru tune 10 20 0.2 x", Action::Answer("ERROR\r\n")),
        ("lru_crawler metadump all", Action::Dump(Dump::Items)),
        ("lru_crawler mgdump hash", Action::Dump(Dump::Requests)),
        ("lru_crawler metadump 1,2", Action::Dump(Dump::Items)),
        (
            "lru_crawler metadump x",
            Action::Answer("BADCLASS invalid class id\r\n"),
        ),
        ("slabs automove 1", Action::Setting),
        ("slabs automove 3", Action::Answer("ERROR\r\n")),
        (
            "slabs reassign 1 1",
            Action::Answer("SAME src and dst class are identical\r\n"),
        ),
        ("shutdown graceful", Action::Shutdown { graceful: true }),
        (
            "shutdown now",
            Action::Answer("CLIENT_ERROR invalid shutdown mode\r\n"),
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(action(line, ALL), (expected, false), "{line}");
    }
}

#[test]
fn a_flush_has_a_moment() {
    let flush = |moment| Action::FlushAll { moment };
    let cases = [
        ("flush_all", flush(99)),
        (" flush_all 0", flush(99)),
        ("flush_all -5", flush(99)),
        ("flush_all 10", flush(109)),
        ("flush_all 1700000200", flush(199)),
        ("flush_all 1700000000", flush(0)),
        (
            "flush_all x",
            Action::Answer("CLIENT_ERROR invalid exptime argument\r\n"),
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(action(line, ALL), (expected, false), "{line}");
    }
}

#[test]
fn what_is_not_allowed_is_answered_first() {
    let cases = [
        ("flush_all x", "CLIENT_ERROR flush_all not allowed\r\n"),
        ("watch x", "CLIENT_ERROR watch commands not allowed\r\n"),
        ("stats cachedump", "CLIENT_ERROR stats cachedump not allowed\r\n"),
        ("stats detail", "CLIENT_ERROR stats detail not allowed\r\n"),
        ("lru_crawler metadump x", "ERROR metadump not allowed\r\n"),
        ("lru_crawler mgdump all", "ERROR key dump not allowed\r\n"),
        ("shutdown x", "SERVER_ERROR: shutdown not enabled\r\n"),
    ];
    for (line, answer) in cases {
        assert_eq!(action(line, NONE), (Action::Answer(answer), false), "{line}");
    }
}

#[test]
fn the_crawler_is_enabled_once() {
    let disabled = Allowed {
        crawler: false,
        ..NONE
    };
    let cases = [
        ("lru_crawler disable", NONE, Action::Crawler(false)),
        ("lru_crawler disable", disabled, Action::Crawler(false)),
        ("lru_crawler enable", disabled, Action::Crawler(true)),
        (
            "lru_crawler enable",
            ALL,
            Action::Answer("ERROR failed to start lru crawler thread\r\n"),
        ),
        (
            "lru_crawler metadump x",
            disabled,
            Action::Answer("CLIENT_ERROR lru crawler disabled\r\n"),
        ),
        ("lru_crawler sleep 1", disabled, Action::Setting),
    ];
    for (line, allowed, expected) in cases {
        assert_eq!(action(line, allowed).0, expected, "{line}");
    }
}

#[test]
fn noreply_is_seen_and_is_no_delay() {
    let flush = |moment| Action::FlushAll { moment };
    assert_eq!(action("flush_all noreply", ALL), (flush(99), true));
    assert_eq!(action("flush_all 10 noreply", ALL), (flush(109), true));
    assert_eq!(action("verbosity 1 noreply", ALL), (Action::Verbosity(1), true));
    assert_eq!(
        action("stats reset noreply", ALL),
        (Action::Stats(Stats::Reset), false)
    );
}

#[test]
fn streams_are_watched_by_the_beginnings_of_their_names() {
    let streams = |line| match action(line, ALL).0 {
        Action::Watch(watched) => {
            ["rawcmds", "fetchers", "mutations", "deletions"].map(|name| watched.has(name))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(streams("watch"), [false, true, false, false]);
    assert_eq!(streams("watch mut d"), [false, false, true, true]);
    assert_eq!(action("watch fetchers foo", ALL).0, Action::Answer("ERROR\r\n"));
}

#[test]
fn some_lines_close_the_connection() {
    let long = "x".repeat(2_049);
    let cases = [
        ("quit now\r\n", Reason::Quit),
        ("GET / HTTP/1.1\r\n", Reason::Http),
        ("\u{80}", Reason::Binary),
        (&long, Reason::LineTooLong),
    ];
    for (line, reason) in cases {
        // The first byte of the character is another one.
        let bytes = line.as_bytes().strip_prefix(b"\xc2").unwrap_or(line.as_bytes());
        let mut parser = Parser::new();
        assert_eq!(parser.next(bytes).event, Event::Close(reason), "{line}");
        assert_eq!(parser.next(b"get a\r\n").event, Event::Nothing);
    }
    let keys = format!("get {long}");
    assert_eq!(Parser::new().next(keys.as_bytes()).event, Event::Nothing);
    let whole = format!("{long}\r\n");
    assert_eq!(
        Parser::new().next(whole.as_bytes()).event,
        Event::Answer("ERROR\r\n")
    );
}
