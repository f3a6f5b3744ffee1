//! How much of a file one connection may queue and send per turn, on the engines over the kernel.

use super::*;
use crate::http::producer::PIECE;
use crate::http::protocol::Http;
use crate::streams::Protocol;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_tests::until;
use corelane_worker::engine::{Engine, EngineBody, EngineKind, choose, run_engine};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

const LENGTH: u64 = 16 << 20;

struct Turns {
    bucket: Bucket,
    listener: TcpListener,
}

impl EngineBody<()> for Turns {
    fn run<E: Engine>(self, mut engine: E) {
        let Turns { mut bucket, listener } = self;
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        client
            .write_all(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .unwrap();
        let now = engine.now();
        bucket.begin(engine.ops(), now, vec![listener.into()]).unwrap();
        let (mut received, mut sent) = (0, 0);
        let mut buffer = vec![0; 1 << 20];
        until("the file has arrived", || {
            let now = engine.now();
            engine.turn(now, &mut bucket).unwrap();
            for (id, _) in bucket.connections.iter() {
                let queued = engine.ops().queued(id);
                assert!(queued <= PIECE, "{queued} bytes are queued");
            }
            let before = std::mem::replace(&mut sent, engine.ops().counters().streams.bytes_sent);
            assert!(sent - before <= PIECE, "{} bytes in a turn", sent - before);
            match client.read(&mut buffer) {
                Ok(read) => received += read as u64,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            received > LENGTH
        });
    }
}

#[test]
fn a_connection_sends_one_piece_of_a_file_per_turn() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("large")).unwrap();
    file.set_len(LENGTH).unwrap();
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 1).unwrap(),
        cpus: vec![0],
        generation: 0,
    };
    for engine in [EngineKind::Epoll, EngineKind::IoUring] {
        let chosen = choose(Some(engine));
        if let Some(reason) = chosen.reason {
            eprintln!("skipped: {reason}");
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = HttpPlan {
            root: Some(folder.path().to_owned()),
            ..HttpPlan::new(listener.local_addr().unwrap(), steering.clone())
        };
        let settings = Http::engine(&plan).1;
        let turns = Turns {
            bucket: Bucket::new(Arc::new(plan), None, Arc::default(), None),
            listener,
        };
        run_engine(engine, &settings, turns).unwrap();
    }
}
