//! `corelane serve memcached`: the cache, in the foreground or the background.

mod arguments;
mod extended;
mod file;
mod listen;
mod process;

pub use arguments::ServeMemcachedArguments;
pub use file::expanded;

use super::buckets::{self, group};
use super::foreground::{self, Foreground, Lines, Refused};
use super::tls::handshakes;
use crate::log::log_line;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::ready;
use crate::rebalanced::rebalanced;
use crate::shared::check_memory;
use crate::terminal::width;
use corelane_link::LinkError;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::{Protocol, Steering};
use corelane_serve::memcached::metrics::{
    EVICTED, HANDED_OVER, HANDOFF, ITEMS, LOCAL_KEYS, READ_DIRECTLY, REQUESTS,
};
use corelane_serve::memcached::{
    Behaviour, BucketMemcached, LEAST_PARTITION, MemcachedError, MemcachedPlan, MemcachedServed,
    MemcachedServer, UdpSteering, UnixSocket,
};
use corelane_serve::metrics::{ACCEPTED, RECEIVED, SENT};
use corelane_serve::{Listening, ServeError, SteeringPlan};
use extended::Extended;
use nix::unistd::User;
use signal_hook::consts::SIGHUP;
use std::net::SocketAddr;

/// Least memory per worker unless the flag says otherwise, in MiB.
const MEMORY_PER_WORKER: u64 = 8;

/// `corelane serve memcached`.
pub fn run(arguments: &ServeMemcachedArguments) -> Outcome {
    if let Some((flag, instead)) = arguments.refused.given() {
        return Err(usage(flag, instead));
    }
    let process = &arguments.process;
    if process.daemon && arguments.serving.run.json.on_stdout() {
        return Err(usage("--daemon", "it has no standard output: write --json=FILE"));
    }
    let extended = Extended::of(&arguments.tuning.extended).map_err(|error| usage("--extended", error))?;
    if process.daemon && !process.in_background && !arguments.serving.run.dry_run {
        return process::start_in_background(arguments.verbose > 0);
    }
    if arguments.verbose > 0 {
        let flags = arguments.tuning.without_effect();
        flags
            .iter()
            .chain(&extended.without_effect)
            .for_each(|line| log_line(line));
    }
    if arguments.unix_socket.is_some() && arguments.tls.certificate().is_some() {
        log_line("--tls has no effect on a Unix socket, which is plaintext as in memcached");
    }
    let addresses = Addresses::of(arguments)?;
    check_memory(&arguments.placing)?;
    let table = arguments
        .serving
        .table(&addresses.steered(arguments.steer_keys))?;
    let plan = plan(
        arguments,
        addresses,
        arguments.serving.steered(&table, arguments.most_workers())?,
        &extended,
    )?;
    let workers = plan.workers();
    if arguments.verbose > 0
        && arguments.serving.rule.buckets.is_none()
        && workers == arguments.most_workers()
    {
        log_line(&format!(
            "{workers} workers, as many as the memory (-m) has room for"
        ));
    }
    let user = match arguments.serving.run.dry_run {
        true => None,
        false => process::prepare(process, arguments.conn_limit)?,
    };
    let running = Running { arguments, user };
    let outcome = foreground::serve(&running, plan, &arguments.serving.run, table);
    if let Some(path) = &process.pidfile {
        process::remove_number(path);
    }
    outcome
}

/// Where a server listens.
struct Addresses {
    /// The first of TCP, or what it would be.
    first: SocketAddr,
    tcp: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
}

impl Addresses {
    /// Those whose packets the table steers.
    fn steered(&self, by_key: bool) -> Vec<(Protocol, SocketAddr)> {
        let tcp = self.tcp.iter().map(|address| (Protocol::Tcp, *address));
        let udp = self.udp.iter().filter(|_| !by_key);
        let steered: Vec<_> = tcp.chain(udp.map(|address| (Protocol::Udp, *address))).collect();
        match steered.is_empty() {
            true => vec![(Protocol::Tcp, self.first)],
            false => steered,
        }
    }

    fn of(arguments: &ServeMemcachedArguments) -> anyhow::Result<Self> {
        // As memcached: a UDP port is that of TCP, too, unless that is given.
        let (udp_port, port) = (arguments.udp_port, arguments.tcp_port());
        let is_unix = arguments.unix_socket.is_some();
        let loopback = ["127.0.0.1".to_owned()];
        let given = match &arguments.listen[..] {
            [] => &loopback,
            given => given,
        };
        let listen = listen::addresses(given).map_err(|error| usage("--listen", error))?;
        let at = |port| listen.iter().map(|listen| listen.at(port)).collect::<Vec<_>>();
        let on = |port| {
            if port == 0 || is_unix {
                Vec::new()
            } else {
                at(port)
            }
        };
        let (tcp, udp) = (on(port), on(udp_port));
        if tcp.is_empty() && udp.is_empty() && !is_unix {
            return Err(usage("--port", "there is nothing to listen on: give a port"));
        }
        if arguments.steer_keys && udp.is_empty() {
            return Err(usage("--steer-keys", "it steers datagrams: give their port (-U)"));
        }
        Ok(Self {
            first: at(port)[0],
            tcp,
            udp,
        })
    }
}

fn plan(
    arguments: &ServeMemcachedArguments,
    addresses: Addresses,
    steered: SteeringPlan,
    extended: &Extended,
) -> anyhow::Result<MemcachedPlan> {
    let workers = steered.steering.table.buckets() as u64;
    let memory = arguments.memory_limit;
    let memory = memory.unwrap_or(64.max(workers * MEMORY_PER_WORKER));
    Ok(MemcachedPlan {
        listening: Listening {
            socket: arguments.serving.socket(addresses.first)?,
            steered,
            kernel_hash: false,
            engine: arguments.engine.engine,
            backlog: arguments.listen_backlog,
            own_descriptors: true,
            memory: arguments.placing.memory,
            buffer_memory: arguments.placing.buffer_memory,
        },
        tcp: !addresses.tcp.is_empty(),
        more_addresses: addresses.tcp.into_iter().skip(1).collect(),
        udp: addresses.udp,
        steer_keys: arguments.steer_keys,
        unix: arguments.unix_socket.clone().map(|path| UnixSocket {
            path,
            mode: arguments.unix_mask,
        }),
        memory_bytes: memory.saturating_mul(1 << 20),
        connections: arguments.conn_limit,
        largest_item: arguments.max_item_size,
        seed: None,
        verbosity: arguments.verbose,
        behaviour: behaviour(arguments, extended),
        remote_reads: arguments.remote_reads,
        no_prefetch: arguments.no_prefetch,
        tls: arguments.tls.certificate(),
        write_certificate: arguments.tls.write_certificate.clone(),
    })
}

fn behaviour(arguments: &ServeMemcachedArguments, extended: &Extended) -> Behaviour {
    let requests = &arguments.requests;
    Behaviour {
        no_flush: requests.disable_flush_all,
        no_dump: requests.disable_dumping,
        no_watch: requests.disable_watch,
        no_crawler: extended.no_crawler,
        shutdown: requests.enable_shutdown,
        no_cas: requests.disable_cas,
        no_evictions: requests.disable_evictions,
        track_sizes: extended.track_sizes,
        prefix_delimiter: requests.prefix_delimiter,
        idle_timeout: extended.idle_timeout,
    }
}

impl ServeMemcachedArguments {
    fn tcp_port(&self) -> u16 {
        let otherwise = if self.udp_port == 0 { 11_211 } else { self.udp_port };
        self.port.unwrap_or(otherwise)
    }

    /// How many workers have room in the memory that was given.
    fn most_workers(&self) -> usize {
        let each = LEAST_PARTITION.max(2 * u64::from(self.max_item_size));
        let bytes = self.memory_limit.map(|memory| memory.saturating_mul(1 << 20));
        bytes.map_or(usize::MAX, |bytes| (bytes / each).max(1) as usize)
    }
}

impl Refused for MemcachedError {
    fn refused(self) -> anyhow::Error {
        match self {
            Self::Serve(ServeError::Group(error)) => group("--listen", &error),
            Self::Serve(error) => error.refused(),
            Self::Udp(error) => group("--udp-port", &error),
            Self::Unix { .. } => usage("--unix-socket", self),
            Self::Memory { .. } => usage("--memory-limit", self),
            Self::Keys(error @ LinkError::Unavailable(_)) => cannot_run(format!("--steer-keys: {error}")),
            Self::Keys(_) => usage("--steer-keys", self),
            Self::Item { .. } => usage("--max-item-size", self),
            error => error.into(),
        }
    }
}

/// A server that is to run.
struct Running<'a> {
    arguments: &'a ServeMemcachedArguments,
    /// The user that it becomes.
    user: Option<User>,
}

impl Foreground for Running<'_> {
    type Server = MemcachedServer;

    fn started(&self) -> Outcome {
        let unix_socket = self.arguments.unix_socket.as_deref();
        process::settle(&self.arguments.process, self.user.as_ref(), unix_socket)
    }

    fn announced(&self) -> Outcome {
        match self.arguments.process.in_background {
            true => process::detach(self.arguments.verbose > 0),
            false => Ok(()),
        }
    }

    /// A process in the background has no terminal that could go.
    fn signal(&self) -> Option<i32> {
        self.arguments.process.in_background.then_some(SIGHUP)
    }

    fn lines(&self, json: bool) -> Lines {
        match json || self.arguments.process.in_background {
            true => Lines::Hidden,
            false => Lines::Output,
        }
    }

    fn ready(&self, served: &MemcachedServed) -> String {
        let by = match served.own.udp_steering {
            Some(UdpSteering::Key) => ", steered by key",
            _ => "",
        };
        let udp = served
            .own
            .udp
            .iter()
            .map(|address| format!("UDP on {address}{by}\n"));
        let udp: String = udp.collect();
        match (&self.arguments.unix_socket, served.own.udp.first()) {
            (Some(path), _) => ready::of_streams_on(served, format!("unix:{}", path.display())),
            (None, Some(address)) if self.arguments.tcp_port() == 0 => {
                ready::of_streams_on(served, address) + &udp
            }
            _ => ready::of_streams(served) + &udp,
        }
    }

    fn steering(served: &MemcachedServed) -> Option<&Steering> {
        Some(&served.steering)
    }

    fn line(&self, served: &MemcachedServed, last: &MemcachedServed) -> String {
        let requests = |served: &MemcachedServed| served.sum(BucketMemcached::requests);
        let rate = requests(served).saturating_sub(requests(last));
        format!(
            "{:>12} requests/s  open {:>9}  items {:>12}  evicted {:>12}",
            quantity::count(rate),
            quantity::count(served.sum(|bucket| bucket.connections.open)),
            quantity::count(served.sum(|bucket| bucket.items)),
            quantity::count(served.sum(|bucket| bucket.evicted)),
        )
    }

    fn summary(served: &MemcachedServed) -> String {
        let table = Rows::of(&served.buckets)
            .right("bucket", |bucket| bucket.connections.bucket.to_string())
            .right("cpu", |bucket| bucket.connections.cpu.to_string())
            .metrics(&[&ACCEPTED, &RECEIVED, &SENT], |bucket| &bucket.connections)
            .metrics(
                &[
                    &REQUESTS,
                    &ITEMS,
                    &EVICTED,
                    &LOCAL_KEYS,
                    &READ_DIRECTLY,
                    &HANDED_OVER,
                    &HANDOFF,
                ],
                |bucket| bucket,
            )
            .table();
        let handshakes = handshakes(served.buckets.iter().map(|bucket| bucket.handshakes));
        let errors = buckets::by_cause("error", &served.errors());
        table.render(width().tables) + &handshakes + &errors + &rebalanced(served.rebalanced.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_to_steer_datagrams_as_connections_unless_their_key_does() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let steered = |tcp: usize, udp: usize, by_key| {
            let addresses = Addresses {
                first: address,
                tcp: vec![address; tcp],
                udp: vec![address; udp],
            };
            let steered = addresses.steered(by_key).into_iter();
            steered.map(|(protocol, _)| protocol).collect::<Vec<_>>()
        };
        assert_eq!(steered(1, 1, false), [Protocol::Tcp, Protocol::Udp]);
        assert_eq!(steered(1, 1, true), [Protocol::Tcp]);
        assert_eq!(steered(0, 1, false), [Protocol::Udp]);
        assert_eq!(steered(0, 0, false), [Protocol::Tcp], "a Unix socket");
    }
}
