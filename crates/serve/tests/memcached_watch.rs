//! `serve::memcached` as those who look after a server see it: watchers, connections, counts by prefix, limits.

use crate::common::{anywhere, connect, engines, steering};
use crate::http_tls;
use crate::memcached::{ask, plan, start, stats};
use corelane_serve::Server;
use corelane_serve::memcached::{Behaviour, MemcachedPlan, MemcachedServer};
use rustls::Stream;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A server of one worker on each engine, whose requests may do this.
fn behaving(behaviour: &Behaviour) -> impl Iterator<Item = MemcachedServer> {
    engines().into_iter().map(|engine| {
        let behaviour = behaviour.clone();
        let plan = MemcachedPlan {
            behaviour,
            ..plan(engine)
        };
        MemcachedServer::start(plan).unwrap()
    })
}

/// A watcher of these streams.
fn watch(server: &MemcachedServer, streams: &str) -> BufReader<TcpStream> {
    let mut client = connect(server.address());
    client
        .write_all(format!("watch {streams}\r\n").as_bytes())
        .unwrap();
    let mut reader = BufReader::new(client);
    assert_eq!(next(&mut reader), "OK\r\n");
    reader
}

fn next(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

/// Reads lines until each of these was in one.
fn expect(reader: &mut impl BufRead, parts: &[&str]) {
    let mut missing = parts.to_vec();
    while !missing.is_empty() {
        let line = next(reader);
        assert!(
            line.starts_with("ts=") && line.ends_with('\n'),
            "{line:?}, not {missing:?}"
        );
        missing.retain(|part| !line.contains(part));
    }
}

#[test]
fn watchers_get_a_line_per_event_of_all_workers() {
    for server in start() {
        let mut watcher = watch(&server, "fetchers mutations deletions connevents rawcmds");
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 0 9 3\r\none\r\nget a b\r\nadd a 0 0 1\r\n2\r\nms d 1 MP\r\n1\r\ncas e 0 0 1 5\r\n1\r\ndelete a\r\n",
            b"STORED\r\nVALUE a 0 3\r\none\r\nEND\r\nNOT_STORED\r\nNS\r\nNOT_FOUND\r\nDELETED\r\n",
        );
        let large = [&b"set l 0 0 100000\r\n"[..], &[b'x'; 100_000], b"\r\n"].concat();
        ask(&mut client, &large, b"STORED\r\n");
        drop(client);
        expect(
            &mut watcher,
            &[
                "type=conn_new rip=127.0.0.1 rport=",
                " get a b\n",
                "type=item_store key=a status=stored cmd=set ttl=9 clsid=1 cfd=",
                "type=item_get key=a status=found clsid=1 cfd=",
                "type=item_get key=b status=not_found clsid=0 cfd=",
                "type=item_store key=a status=not_stored cmd=add ttl=0 clsid=1 cfd=",
                "type=item_store key=d status=not_stored cmd=prepend",
                "type=item_store key=e status=not_found cmd=cas",
                "type=deleted key=a cmd=delete clsid=1 size=3\n",
                "type=item_store key=l status=stored cmd=set ttl=0 clsid=1 cfd=",
                " reason=normal cfd=",
            ],
        );
        let mut client = connect(server.address());
        assert_eq!(stats(&mut client, "stats")["log_watchers"], "1");
        drop(watcher);
        corelane_tests::until("the watcher is gone", || {
            stats(&mut client, "stats")["log_watchers"] == "0"
        });
    }
}

#[test]
fn a_watcher_that_reads_nothing_delays_nobody_and_evictions_are_seen() {
    for engine in engines() {
        let plan = MemcachedPlan {
            memory_bytes: 8 << 20,
            ..plan(engine)
        };
        let server = MemcachedServer::start(plan).unwrap();
        let mut lazy = watch(&server, "mutations");
        let mut evictions = watch(&server, "evictions");
        let mut client = connect(server.address());
        let value = "v".repeat(1_000);
        for round in 0..20 {
            let sets: String = (0..1_000)
                .map(|key| format!("set key{} 0 0 1000 noreply\r\n{value}\r\n", round * 1_000 + key))
                .collect();
            ask(&mut client, sets.as_bytes(), b"");
        }
        expect(&mut evictions, &["type=eviction key=key", " fetch=no ttl=-1 la="]);
        let mut skipped = || {
            stats(&mut client, "stats")["log_watcher_skipped"]
                .parse::<u64>()
                .unwrap()
        };
        assert!(skipped() < 20_000);
        let line = next(&mut lazy);
        assert!(line.contains("type=item_store key=key0 "), "{line}");
    }
}

#[test]
fn connections_are_listed() {
    for server in start() {
        let mut clients: Vec<_> = (0..5).map(|_| connect(server.address())).collect();
        clients.iter_mut().for_each(|client| ask(client, b"", b""));
        let listed = stats(&mut clients[0], "stats conns");
        let of = |name: &str, value: &str| {
            let is = |(place, found): &(&String, &String)| place.ends_with(name) && *found == value;
            listed.iter().filter(is).count()
        };
        for client in &clients {
            let address = format!("tcp:{}", client.local_addr().unwrap());
            assert_eq!(of(":addr", &address), 1, "{address} in {listed:?}");
        }
        assert_eq!(of(":listen_addr", &format!("tcp:{}", server.address())), 5);
        assert_eq!(of(":state", "conn_read"), 5, "{listed:?}");
        assert!(of(":state", "conn_listening") >= 1);
    }
}

#[test]
fn requests_are_counted_by_prefix_if_that_is_wanted() {
    let requests = b"set a/b 0 0 1\r\n1\r\nget a/b a/c c\r\nms a/d 1\r\n1\r\ndelete a/b\r\ndelete b/\r\n";
    let answers = b"STORED\r\nVALUE a/b 0 1\r\n1\r\nEND\r\nHD\r\nDELETED\r\nNOT_FOUND\r\n";
    let counted = b"PREFIX a get 2 hit 1 set 1 del 1\r\nPREFIX b get 0 hit 0 set 0 del 1\r\nEND\r\n";
    let behaviour = Behaviour {
        prefix_delimiter: Some('/'),
        ..Behaviour::default()
    };
    for server in behaving(&behaviour) {
        let mut client = connect(server.address());
        ask(&mut client, requests, answers);
        ask(&mut client, b"stats detail dump\r\n", counted);
        ask(&mut client, b"stats detail off\r\n", b"OK\r\n");
        ask(&mut client, requests, answers);
        ask(&mut client, b"stats detail dump\r\n", counted);
        ask(
            &mut client,
            b"stats reset\r\nstats detail dump\r\n",
            b"RESET\r\nEND\r\n",
        );
    }
    for server in start() {
        let mut client = connect(server.address());
        let settings = stats(&mut client, "stats settings");
        assert_eq!(
            (&*settings["detail_enabled"], &*settings["stat_key_prefix"]),
            ("no", ":")
        );
        ask(
            &mut client,
            b"get a:b\r\nstats detail dump\r\n",
            b"END\r\nEND\r\n",
        );
        ask(&mut client, b"stats detail on\r\nget a:b\r\n", b"OK\r\nEND\r\n");
        ask(
            &mut client,
            b"stats detail dump\r\n",
            b"PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n",
        );
    }
}

/// A list of prefixes comes in parts; each request for one gets all of it.
#[test]
fn many_prefixes_are_listed_in_parts() {
    for server in start() {
        let mut client = connect(server.address());
        let keys: Vec<_> = (0..500).map(|key| format!("p{key}:x")).collect();
        let get = format!("stats detail on\r\nget {}\r\n", keys.join(" "));
        ask(&mut client, get.as_bytes(), b"OK\r\nEND\r\n");
        let mut lists: Vec<_> = (0..3)
            .map(|_| {
                client.write_all(b"stats detail dump\r\n").unwrap();
                let mut reader = BufReader::new(client.try_clone().unwrap());
                let mut lines = Vec::new();
                while lines.last().is_none_or(|line| line != "END\r\n") {
                    lines.push(next(&mut reader));
                }
                lines
            })
            .collect();
        lists.dedup();
        let mut listed = lists.swap_remove(0);
        assert!(lists.is_empty() && listed.pop().is_some());
        let mut expected: Vec<_> = keys
            .iter()
            .map(|key| format!("PREFIX {} get 1 hit 0 set 0 del 0\r\n", &key[..key.len() - 2]))
            .collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }
}

#[test]
fn certificates_are_read_again_when_a_client_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, before) = http_tls::certificate(folder.path());
    let plan = MemcachedPlan {
        tls: Some(tls),
        ..MemcachedPlan::new(anywhere(), steering(2))
    };
    let server = MemcachedServer::start(plan).unwrap();
    let ask_by = |trusting, request: &[u8], answer: &[u8]| {
        let (mut session, mut socket) = (http_tls::session(trusting), connect(server.address()));
        ask(&mut Stream::new(&mut session, &mut socket), request, answer);
    };
    let (_, after) = http_tls::certificate(folder.path());
    ask_by(&before, b"refresh_certs noreply\r\nrefresh_certs\r\n", b"OK\r\n");
    ask_by(&after, b"get a\r\n", b"END\r\n");
    let key = folder.path().join("key.pem");
    std::fs::remove_file(&key).unwrap();
    let (mut session, mut socket) = (http_tls::session(&after), connect(server.address()));
    let mut client = Stream::new(&mut session, &mut socket);
    client.write_all(b"refresh_certs noreply\r\n").unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"Error ");
    ask_by(&after, b"get a\r\n", b"END\r\n");
}

#[test]
fn what_flags_forbid_is_refused() {
    let behaviour = Behaviour {
        no_flush: true,
        no_dump: true,
        no_watch: true,
        no_cas: true,
        ..Behaviour::default()
    };
    for server in behaving(&behaviour) {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 0 0 1\r\n1\r\nflush_all\r\nstats detail on\r\nlru_crawler metadump all\r\nwatch\r\ngets a\r\n",
            b"STORED\r\nCLIENT_ERROR flush_all not allowed\r\nCLIENT_ERROR stats detail not allowed\r\n\
            ERROR metadump not allowed\r\nCLIENT_ERROR watch commands not allowed\r\n\
            VALUE a 0 1 0\r\n1\r\nEND\r\n",
        );
        let settings = stats(&mut client, "stats settings");
        let found = ["flush_enabled", "dump_enabled", "cas_enabled"].map(|name| &*settings[name]);
        assert_eq!(found, ["no"; 3]);
    }
}

/// Whichever worker its key belongs to.
#[test]
fn a_client_that_stops_within_a_value_is_not_idle() {
    for engine in engines() {
        let mut plan = plan(engine);
        plan.behaviour.idle_timeout = Some(1);
        plan.listening.steered = MemcachedPlan::new(anywhere(), steering(2)).listening.steered;
        let server = MemcachedServer::start(plan).unwrap();
        let mut within: Vec<_> = (0..8)
            .map(|key| {
                let mut client = connect(server.address());
                ask(&mut client, b"", b"");
                client
                    .write_all(format!("set key{key} 0 0 10\r\n12345").as_bytes())
                    .unwrap();
                client
            })
            .collect();
        // Twice: what began before the first of these was looked at before the second one ends.
        for _ in 0..2 {
            let mut idle = connect(server.address());
            ask(&mut idle, b"", b"");
            assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "the server closes it");
        }
        within
            .iter_mut()
            .for_each(|client| ask(client, b"67890\r\n", b"STORED\r\n"));
    }
}

#[test]
fn an_idle_connection_is_closed_and_counted() {
    let behaviour = Behaviour {
        idle_timeout: Some(1),
        ..Behaviour::default()
    };
    for server in behaving(&behaviour) {
        let mut watcher = watch(&server, "connevents");
        let mut idle = connect(server.address());
        ask(&mut idle, b"get a\r\n", b"END\r\n");
        assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "the server closes it");
        expect(&mut watcher, &[" reason=idle_timeout cfd="]);
        let mut client = connect(server.address());
        assert_eq!(stats(&mut client, "stats")["idle_kicks"], "1");
    }
}

#[test]
fn the_memory_for_items_can_be_less_than_at_the_start_for_a_time() {
    for server in start() {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"cache_memlimit 65\r\ncache_memlimit 32\r\n",
            b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\nOK\r\n",
        );
        assert_eq!(
            stats(&mut client, "stats")["limit_maxbytes"],
            (32 << 20).to_string()
        );
        assert_eq!(
            stats(&mut client, "stats settings")["maxbytes"],
            (32 << 20).to_string()
        );
        let value = "v".repeat(100_000);
        let set = |key| format!("set key{key} 0 0 100000 noreply\r\n{value}\r\n");
        corelane_tests::until("half of the memory is withheld", || {
            (0..400).for_each(|key| client.write_all(set(key).as_bytes()).unwrap());
            let pages = stats(&mut client, "stats slabs")["1:total_pages"]
                .parse::<u64>()
                .unwrap();
            pages <= 32 << 3
        });
        ask(&mut client, b"cache_memlimit 64\r\n", b"OK\r\n");
        corelane_tests::until("all of it is used again", || {
            (0..800).for_each(|key| client.write_all(set(key).as_bytes()).unwrap());
            let pages = stats(&mut client, "stats slabs")["1:total_pages"]
                .parse::<u64>()
                .unwrap();
            pages > 50 << 3
        });
    }
}

/// As memcached 1.6.45 counts them.
#[test]
fn items_are_counted_by_size_if_that_is_asked_for() {
    let start = |track_sizes| {
        let mut plan = MemcachedPlan::new(anywhere(), steering(3));
        plan.behaviour.track_sizes = track_sizes;
        MemcachedServer::start(plan).unwrap()
    };
    let server = start(true);
    let mut client = connect(server.address());
    ask(&mut client, b"stats sizes\r\n", b"END\r\n");
    let long = "x".repeat(100);
    for (request, answer, sizes) in [
        ("set a 0 0 1\r\n1\r\n", "STORED", "64 1"),
        ("set b 0 0 1\r\n1\r\n", "STORED", "64 2"),
        (&*format!("set b 0 0 100\r\n{long}\r\n"), "STORED", "64 1, 160 1"),
        (
            &*format!("set c 1 0 100\r\n{long}\r\n"),
            "STORED",
            "64 1, 160 1, 192 1",
        ),
        ("touch b -1\r\nget b\r\n", "TOUCHED\r\nEND", "64 1, 192 1"),
        (
            &*format!("append c 0 0 40\r\n{}\r\n", &long[..40]),
            "STORED",
            "64 1, 224 1",
        ),
        ("incr a 5\r\n", "6", "64 1, 224 1"),
        ("delete a\r\n", "DELETED", "224 1"),
    ] {
        let sizes: String = sizes.split(", ").map(|size| format!("STAT {size}\r\n")).collect();
        let expected = format!("{answer}\r\n{sizes}END\r\n");
        ask(
            &mut client,
            format!("{request}stats sizes\r\n").as_bytes(),
            expected.as_bytes(),
        );
    }
    let server = start(false);
    let mut client = connect(server.address());
    ask(
        &mut client,
        b"stats sizes\r\n",
        b"STAT sizes_status disabled\r\nEND\r\n",
    );
}
