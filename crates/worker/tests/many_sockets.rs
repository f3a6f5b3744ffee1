//! 65,536 sockets to one server although the limit is about 20,000 descriptors: four workers with separate descriptor
//! tables. Also measures the memory per socket.

use corelane_host::cpus;
use corelane_tests::{PATIENCE, undisturbed};
use corelane_worker::engine::Waker;
use corelane_worker::engine::{
    Engine, EngineBody, EngineKind, EngineSettings, Event, Id, Ops, choose, run_engine,
};
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::{Time, WorkerSettings, spawn, spawn_with};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::Duration;

const WORKERS: usize = 4;
const SOCKETS: usize = 16_384;

/// Datagrams in transit from one worker; four windows fit the server's buffer.
const WINDOW: usize = 64;

/// Echoes until it is woken.
struct Server {
    socket: UdpSocket,
    started: mpsc::Sender<Waker>,
}

impl EngineBody<u64> for Server {
    fn run<E: Engine>(self, mut engine: E) -> u64 {
        engine.ops().datagrams(self.socket).unwrap();
        self.started.send(engine.waker()).unwrap();
        let stopped = std::cell::Cell::new(false);
        let mut echo = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| match event {
            Event::Datagrams(datagrams) => {
                for datagram in datagrams {
                    let payload = datagram.payload;
                    let fill = |buffer: &mut [u8]| buffer.copy_from_slice(payload);
                    ops.send_to(id, Some(datagram.peer), payload.len(), fill).unwrap();
                }
            }
            Event::Woken => stopped.set(true),
            other => panic!("{other:?}"),
        };
        while !stopped.get() {
            engine.turn(Time::NEVER, &mut echo).unwrap();
        }
        engine.ops().counters().sent
    }
}

/// Opens all its sockets, sends one datagram on each, and counts the replies that arrive at the right one.
struct Client {
    server: SocketAddr,
    source: Ipv4Addr,
}

impl EngineBody<usize> for Client {
    fn run<E: Engine>(self, mut engine: E) -> usize {
        let mut ids = Vec::with_capacity(SOCKETS);
        for _ in 0..SOCKETS {
            let socket = UdpSocket::bind((self.source, 0)).unwrap();
            socket.connect(self.server).unwrap();
            ids.push(engine.ops().datagrams(socket).unwrap());
        }
        let mut answered = vec![0; SOCKETS];
        let mut complete = 0;
        for window in ids.chunks(WINDOW) {
            let deadline = engine.now() + PATIENCE;
            for id in window {
                let number = (id.slot() as u32).to_be_bytes();
                let fill = |buffer: &mut [u8]| buffer.copy_from_slice(&number);
                engine.ops().send_to(*id, None, 4, fill).unwrap();
            }
            let expected = complete + window.len();
            while complete < expected {
                assert!(engine.now() < deadline, "{complete} answers of {expected}");
                let mut count = |_: &mut Ops, _: Time, id: Id, event: Event<'_>| match event {
                    Event::Datagrams(datagrams) => {
                        for datagram in datagrams {
                            assert_eq!(datagram.payload, (id.slot() as u32).to_be_bytes());
                            answered[id.slot()] += 1;
                            complete += 1;
                        }
                    }
                    other => panic!("{other:?}"),
                };
                engine.turn(deadline, &mut count).unwrap();
            }
        }
        answered.iter().filter(|count| **count == 1).count()
    }
}

/// Resident memory of this process in bytes, without the kernel's sockets.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}

fn worker(name: &str, index: usize) -> WorkerSettings {
    let cpus = cpus::allowed().unwrap().cpus;
    WorkerSettings {
        own_descriptors: true,
        ..WorkerSettings::new(name, cpus[index % cpus.len()])
    }
}

fn every_socket_gets_its_answer(kind: EngineKind) {
    let settings = GroupSettings {
        receive_buffer: Some(4 << 20),
        ..GroupSettings::default()
    };
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let socket = group::udp(anywhere, 1, None, &settings).unwrap().pop().unwrap();
    let server = socket.local_addr().unwrap();
    let (started, has_started) = mpsc::channel();
    let handed = vec![OwnedFd::from(socket)];
    let serving = spawn_with(worker("server", 0), handed, move |mut handed| {
        let socket = handed.pop().unwrap().into();
        let body = Server { socket, started };
        run_engine(EngineKind::Epoll, &EngineSettings::default(), body).unwrap()
    });
    let waker = has_started.recv().unwrap();
    let before = resident_bytes();
    let clients: Vec<_> = (0..WORKERS)
        .map(|index| {
            let source = Ipv4Addr::new(127, 0, 1, index as u8 + 1);
            let body = Client { server, source };
            let run = move || run_engine(kind, &EngineSettings::default(), body).unwrap();
            spawn(worker("client", index), run).unwrap()
        })
        .collect();
    let mut most = before;
    while clients.iter().any(|client| !client.is_finished()) {
        most = most.max(resident_bytes());
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let answered: Vec<usize> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(answered, [SOCKETS; WORKERS]);
    waker.wake();
    let sent = serving.unwrap().join().unwrap();
    assert_eq!(sent, (WORKERS * SOCKETS) as u64);
    // Includes the engines' buffers and the test's own tables.
    let each = (most - before) / (WORKERS * SOCKETS);
    eprintln!("{kind}: {each} bytes of user memory per socket");
    assert!(each <= 1_024, "{each} bytes per socket");
}

#[test]
fn sixty_five_thousand_sockets_get_their_answers_over_epoll_and_io_uring() {
    // One after the other: in parallel, each would also measure the other's memory.
    undisturbed(|| every_socket_gets_its_answer(EngineKind::Epoll));
    match choose(Some(EngineKind::IoUring)).reason {
        Some(reason) => eprintln!("skipped: {reason}"),
        None => undisturbed(|| every_socket_gets_its_answer(EngineKind::IoUring)),
    }
}
