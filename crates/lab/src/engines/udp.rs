//! One measurement of one way to move datagrams: server and client as fresh processes in the bed, a warm-up that is not
//! counted, and the server's CPU time and answers before and after.

use super::document::UdpTrial;
use super::run::Comparison;
use super::ways::UdpWay;
use crate::child::{LoadProcess, ServerProcess};
use crate::error::LabError;
use crate::named::Named;
use corelane_host::counters::ProcessCpu;
use corelane_load::pace::Pace;
use corelane_load::sources::{Align, SourceRequest, WorkerRequest};
use corelane_load::udp::{Probes, UdpLoad, UdpLoadError, UdpPlan as UdpLoadPlan, Until};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::udp::UdpPlan as UdpServePlan;
use corelane_serve::udp::{Mode, UdpServer};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

/// The posts' payload ("Receive side scaling: testing UDP throughput").
pub const PAYLOAD_BYTES: usize = 510;

/// Datagrams on the way at once, over all sockets of the client: several batches, so that the server rarely waits.
pub(super) const OUTSTANDING: u32 = 512;

/// Receive buffer of the server: the window fits, whatever the kernel charges for a datagram.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Length of the traffic before each measurement that is not counted: it faults memory in and fills the kernel's
/// caches.
const WARM_UP_S: f64 = 0.05;

/// Answers under which a measurement gives no figure: ten windows, so that the start is a small part of it.
const FEWEST_ANSWERS: u64 = 10 * OUTSTANDING as u64;

/// Measures `way` in round `round`.
pub(super) fn trial(
    comparison: &Comparison,
    way: UdpWay,
    round: u32,
    interrupt: &AtomicBool,
) -> Result<UdpTrial, LabError> {
    let (bed, program) = (&comparison.bed, &comparison.program);
    let (serve, load) = (server(comparison, way)?, client(comparison, way)?);
    let mut server = ServerProcess::<UdpServer>::start(program, &bed.server, &serve)?;
    let warm_up = UdpLoadPlan {
        until: Until {
            duration_s: Some(WARM_UP_S),
            datagrams: None,
        },
        ..load.clone()
    };
    LoadProcess::<UdpLoad>::start(program, &bed.client)?.run(&warm_up, interrupt, |_| ())?;
    let (answered_before, cpu_before) = reading(&mut server)?;
    let loaded = LoadProcess::<UdpLoad>::start(program, &bed.client)?.run(&load, interrupt, |_| ())?;
    // The client ended once everything had come back, or nothing more came: the server is idle.
    let (answered, cpu) = reading(&mut server)?;
    let answered = answered.saturating_sub(answered_before);
    let why = (answered < FEWEST_ANSWERS).then(|| {
        format!("only {answered} datagrams were answered, too few for a figure: give a longer --duration")
    });
    Ok(UdpTrial {
        name: way.name().to_owned(),
        round,
        answered,
        server_cpu_ns: cpu.since(&cpu_before).total_ns,
        sending_s: loaded.sending_s,
        lost: loaded.total.lost,
        why,
    })
}

fn reading(server: &mut ServerProcess<UdpServer>) -> Result<(u64, ProcessCpu), LabError> {
    let served = server.served()?;
    Ok((served.answered(), ProcessCpu::read(server.pid())?))
}

/// A server of one bucket.
fn server(comparison: &Comparison, way: UdpWay) -> Result<UdpServePlan, LabError> {
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::TwoTuple,
        table: IndirectionTable::round_robin(128, 1)?,
        cpus: vec![comparison.request.server_cpu],
        generation: 0,
    };
    let moving = way.server();
    Ok(UdpServePlan {
        mode: Mode::Echo,
        engine: Some(way.engine()),
        batch: moving.datagram_batch,
        coalesce: moving.coalesce,
        gro: moving.gro,
        receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
        ..UdpServePlan::new(target(comparison), steering)
    })
}

/// A client that keeps the window full.
pub(super) fn client(comparison: &Comparison, way: UdpWay) -> Result<UdpLoadPlan, LabError> {
    let request = &comparison.request;
    let sources = SourceRequest {
        target: target(comparison),
        pool: None,
        align: Align::Kernel,
        sockets: (OUTSTANDING / way.window()) as usize,
    };
    let workers = WorkerRequest {
        steering: None,
        buckets: None,
        cpus: vec![request.client_cpu],
        descriptor_limit: comparison.descriptor_limit,
    };
    let workers = sources.udp(&workers).map_err(UdpLoadError::from)?;
    let (probes, moving) = (
        Probes::new(PAYLOAD_BYTES).map_err(UdpLoadError::from)?,
        way.client(),
    );
    Ok(UdpLoadPlan {
        pace: Pace::Window {
            datagrams: way.window(),
        },
        until: Until {
            duration_s: Some(request.duration_s),
            datagrams: None,
        },
        batch: moving.datagram_batch,
        coalesce: moving.coalesce,
        gro: moving.gro,
        ..UdpLoadPlan::new(sources.target, probes, workers)
    })
}

fn target(comparison: &Comparison) -> SocketAddr {
    SocketAddr::new(comparison.bed.server.address(), comparison.port)
}
