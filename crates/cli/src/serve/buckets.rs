//! Shared by the bucket servers: the flags for steering and duration and, for connection servers, the flags for the
//! listener.

use super::device::Followed;
use super::foreground::Refused;
use super::live_table::LiveTable;
use crate::names::address;
use crate::outcome::{cannot_run, usage};
use crate::shared::{
    ENGINE_OF_STREAMS, EngineArgument, MemoryArguments, RuleArguments, ServerRunArguments, check_memory,
};
use crate::steering;
use crate::values::moves;
use clap::Args;
use corelane_host::ethtool::FlowType;
use corelane_measure::quantity;
use corelane_rss::balance::Policy;
use corelane_rss::steer::Families;
use corelane_rss::{HashFields, Protocol};
use corelane_serve::{Listening, ServeError, SocketPlan, SteeringPlan};
use corelane_worker::group::{self, GroupError};
use corelane_worker::tls::CertificateError;
use std::fmt::Display;
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Steering and run of a server.
#[derive(Debug, Args)]
pub struct ServingArguments {
    #[command(flatten)]
    pub rule: RuleArguments,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    /// CPUs to use, such as 0-3,6 [default: those allowed for this process, one per core]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// Steering document to use instead of key, table, buckets and CPUs; SIGHUP reads it again and applies its table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub steering: Option<PathBuf>,
    /// Use the steering of this device and follow its table changes: key, fields and table, with one bucket per queue
    /// on the queue's CPU; a --steering document, if also given, must match
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub dev: Option<String>,
    /// Move entries of the table from loaded to idle buckets while serving, at most N per second [default: 10]; datagrams
    /// follow at once, connections stay and only new ones follow
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = moves)]
    #[arg(conflicts_with = "dev")]
    pub rebalance: Option<Policy>,
    /// Write the steering document, for clients, to FILE once the server is ready, and again when its table changes;
    /// replaced atomically, and not deleted when the server ends
    #[arg(long, value_name = "FILE")]
    pub write_steering: Option<PathBuf>,
    /// Allow a listen address that no device has, such as one of a prefix routed to this machine
    #[arg(long)]
    pub free_bind: bool,
    /// Serve IPv6 only on [::], which otherwise serves IPv4, too
    #[arg(long)]
    pub ipv6_only: bool,
    #[command(flatten)]
    pub run: ServerRunArguments,
}

impl ServingArguments {
    /// What changes the table of a server: the device of `--dev`, for flows to these addresses, or a file.
    pub fn table(&self, served: &[(Protocol, SocketAddr)]) -> anyhow::Result<LiveTable> {
        let follow = |device: &String| {
            let given = steering::given(self.steering.as_ref())?;
            Followed::new(device, flow_types(served, self.ipv6_only), given.as_ref())
        };
        let followed = self.dev.as_ref().map(follow).transpose()?;
        let table = LiveTable::new(followed, self.steering.as_deref(), self.write_steering.clone());
        Ok(table?)
    }

    /// Where the server listens.
    ///
    /// # Errors
    /// A usage error if only IPv6 is to be served, and the address is no IPv6 address.
    pub fn socket(&self, address: SocketAddr) -> anyhow::Result<SocketPlan> {
        if self.ipv6_only && address.ip().to_canonical().is_ipv4() {
            let reason = format!("{address} is an IPv4 address: leave the flag out, or listen on [::]");
            return Err(usage("--ipv6-only", reason));
        }
        Ok(SocketPlan {
            address,
            free_bind: self.free_bind,
            ipv6_only: self.ipv6_only,
        })
    }

    /// How its sockets are steered: as the device, the document or the flags say. Unless these say how many buckets there are, there
    /// are at most so many.
    pub fn steered(&self, table: &LiveTable, most: usize) -> anyhow::Result<SteeringPlan> {
        let steering = match (table.of_device(), &self.steering) {
            (Some(steering), _) => steering.clone(),
            (None, Some(path)) => steering::from_file(path)?,
            (None, None) => {
                let (cpus, buckets) = (self.cpus.as_deref(), self.rule.buckets);
                let mut cpus = steering::bucket_cpus(cpus, buckets, self.share_cpus)?;
                cpus.truncate(buckets.unwrap_or(most));
                steering::from_rule(&self.rule, self.hash, cpus)?
            }
        };
        Ok(SteeringPlan {
            steering,
            rebalance: self.rebalance,
        })
    }
}

/// The types of the flows to these addresses.
fn flow_types(served: &[(Protocol, SocketAddr)], ipv6_only: bool) -> Vec<FlowType> {
    let of = |(protocol, address): &(Protocol, SocketAddr)| {
        let both = group::families(*address, ipv6_only) == Families::Both;
        let other = both.then(|| FlowType::of(*protocol, Ipv4Addr::UNSPECIFIED.into()));
        iter::once(FlowType::of(*protocol, address.ip().to_canonical())).chain(other)
    };
    served.iter().flat_map(of).collect()
}

/// Listener of a connection server, and its serving flags.
#[derive(Debug, Args)]
#[command(mut_arg("engine", |engine| engine.help(ENGINE_OF_STREAMS)))]
pub struct BucketArguments {
    /// Listen address; 0.0.0.0, or [::] for both families, accepts on every address of this machine, including those
    /// of prefixes routed to it
    #[arg(default_value = "127.0.0.1:8080", value_parser = address)]
    pub address: SocketAddr,
    #[command(flatten)]
    pub engine: EngineArgument,
    /// Accept backlog of each listener, limited by net.core.somaxconn
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub backlog: u16,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub serving: ServingArguments,
}

impl BucketArguments {
    /// The listener settings of these flags, and what changes the table.
    pub fn listening(&self) -> anyhow::Result<(Listening, LiveTable)> {
        let table = self.serving.table(&[(Protocol::Tcp, self.address)])?;
        check_memory(&self.placing)?;
        let listening = Listening {
            socket: self.serving.socket(self.address)?,
            steered: self.serving.steered(&table, usize::MAX)?,
            kernel_hash: false,
            engine: self.engine.engine,
            backlog: self.backlog,
            own_descriptors: true,
            memory: self.placing.memory,
            buffer_memory: self.placing.buffer_memory,
        };
        Ok((listening, table))
    }
}

impl Refused for ServeError {
    fn refused(self) -> anyhow::Error {
        let flag = match &self {
            Self::Group(error) => return group("ADDRESS", error),
            Self::Steer(_) => "--table-size",
            Self::NoTable => "--rebalance",
            Self::Engine(_) => return cannot_run(format!("--engine: {self}")),
            Self::Tls(CertificateError::Write { .. }) => "--write-certificate",
            Self::Tls(_) => "--certificate",
            _ => return self.into(),
        };
        usage(flag, self)
    }
}

/// The address of `flag` has no sockets.
pub fn group(flag: &str, error: &GroupError) -> anyhow::Error {
    // Settings of a group have the names of the flags.
    let error = error.to_string();
    let error = error.replace("(free_bind)", "(--free-bind)");
    usage(flag, error.replace("(ipv6_only)", "(--ipv6-only)"))
}

/// One line per cause.
pub fn by_cause<'a, C: Display + 'a>(
    what: &str,
    counts: impl IntoIterator<Item = (&'a C, &'a u64)>,
) -> String {
    let line = |(cause, count): (&C, &u64)| {
        let cause = cause.to_string().replace('_', " ");
        format!("{what}, {cause}: {}\n", quantity::count(*count))
    };
    counts.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_judged_by_the_flows_of_each_protocol_and_family() {
        let [v4, both] = ["127.0.0.1:1", "[::]:1"].map(|address| address.parse().unwrap());
        let served = [(Protocol::Tcp, v4), (Protocol::Udp, both)];
        let types = [FlowType::Tcp4, FlowType::Udp6, FlowType::Udp4];
        assert_eq!(flow_types(&served, false), types);
        assert_eq!(flow_types(&served, true), types[..2]);
    }
}
