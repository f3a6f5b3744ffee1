//! A scalable UDP echo server: one pinned worker and one socket per bucket, steered by the RSS hash.
//!
//! `cargo run --release -p corelane-examples --bin echo -- 127.0.0.1:7777 2` serves two buckets on CPUs 0 and 1.

use corelane_rss::{HashFields, IndirectionTable, Key, Steering, steer};
use corelane_worker::engine::{Engine, EngineBody, EngineSettings, Event, Id, Ops, choose, run_engine};
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::{Time, WorkerSettings, spawn};
use std::error::Error;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Sends every datagram back to its sender.
struct Echo(UdpSocket);

impl EngineBody<io::Result<()>> for Echo {
    fn run<E: Engine>(self, mut engine: E) -> io::Result<()> {
        engine.ops().datagrams(self.0)?;
        let mut answer = |ops: &mut Ops, _now: Time, id: Id, event: Event<'_>| {
            if let Event::Datagrams(datagrams) = event {
                for datagram in datagrams {
                    let payload = datagram.payload;
                    // A full arena drops the answer, as a full queue does in any network.
                    let (from, to) = (datagram.destination, Some(datagram.peer));
                    let _ = ops.send_from(id, from, to, payload.len(), |out| {
                        out.copy_from_slice(payload);
                    });
                }
            }
        };
        loop {
            let until = engine.now() + Duration::from_secs(1);
            engine.turn(until, &mut answer)?;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().unwrap_or("127.0.0.1:7777".to_owned()).parse()?;
    let buckets: usize = arguments.next().unwrap_or("2".to_owned()).parse()?;
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, buckets)?,
        cpus: (0..buckets as u32).collect(),
        generation: 0,
    };
    // On a wildcard address, [::] for both families, answers leave from the address that was asked.
    let settings = GroupSettings {
        destinations: address.ip().is_unspecified(),
        ..GroupSettings::default()
    };
    let program = steer::program(&steering, group::families(address, settings.ipv6_only))?;
    let sockets = group::udp(address, buckets, Some(&program), &settings)?;
    let engine_settings = EngineSettings {
        destinations: settings.destinations,
        ..EngineSettings::default()
    };
    println!("listening on {}", sockets[0].local_addr()?);
    let kind = choose(None).kind;
    let mut workers = Vec::new();
    for (cpu, socket) in steering.cpus.iter().zip(sockets) {
        let thread = WorkerSettings::new(format!("echo {cpu}"), *cpu);
        let engine_settings = engine_settings.clone();
        workers.push(spawn(thread, move || {
            run_engine(kind, &engine_settings, Echo(socket))?
        })?);
    }
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    Ok(())
}
