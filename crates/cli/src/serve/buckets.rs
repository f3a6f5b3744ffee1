//! What the servers on buckets share: the flags that say by which steering they serve and for how long, and those of
//! connections where they listen.

use super::device::Followed;
use super::foreground::{self, Foreground, Plan};
use crate::outcome::{Outcome, usage};
use crate::shared::{OutputArguments, RuleArguments};
use crate::steering::{self, Asking};
use crate::values::duration;
use clap::Args;
use corelane_host::ethtool::FlowType;
use corelane_measure::quantity;
use corelane_rss::{HashFields, Protocol, Steering};
use corelane_serve::http::TlsError;
use corelane_serve::{Listening, ServeError};
use corelane_worker::engine::EngineKind;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// By which steering to serve, and for how long.
#[derive(Debug, Args)]
pub struct ServingArguments {
    #[command(flatten)]
    pub rule: RuleArguments,
    /// What is hashed
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    /// CPUs to use, such as 0-3,6 [default: those this process may use, one of each core]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// A steering document to serve by, instead of key, table, buckets and CPUs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub steering: Option<PathBuf>,
    /// A device whose steering to serve by, and to follow: its key, fields and table, a bucket a queue, on the queue's CPU; a
    /// --steering document given besides has to be the same
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub dev: Option<String>,
    /// Listen on an address that no device has, such as one of a prefix routed to this machine
    #[arg(long)]
    pub free_bind: bool,
    /// End after so long [default: on SIGINT]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub output: OutputArguments,
}

impl ServingArguments {
    /// Runs a server by these flags.
    pub fn serve<F: Foreground>(&self, shown: F, plan: Plan<F>, followed: Option<Followed>) -> Outcome {
        foreground::serve(shown, plan, &self.output, self.duration, followed)
    }

    /// The device that is followed, if one is, for flows of `protocol` to `address`.
    pub fn followed(&self, protocol: Protocol, address: SocketAddr) -> anyhow::Result<Option<Followed>> {
        let Some(device) = &self.dev else {
            return Ok(None);
        };
        let given = self.steering.as_deref().map(steering::from_file).transpose()?;
        Followed::new(device, FlowType::of(protocol, address.ip()), given.as_ref()).map(Some)
    }

    /// The steering document that these flags name, or mean.
    pub fn steering(&self, followed: Option<&Followed>) -> anyhow::Result<Steering> {
        if let Some(followed) = followed {
            return Ok(followed.steering().clone());
        }
        if let Some(path) = &self.steering {
            return steering::from_file(path);
        }
        let asking = Asking::Buckets {
            share: self.share_cpus,
        };
        let cpus = steering::place(self.cpus.as_deref(), self.rule.buckets, asking)?;
        steering::from_rule(&self.rule, self.hash, cpus)
    }
}

/// Where a server of connections listens, besides.
#[derive(Debug, Args)]
pub struct BucketArguments {
    /// Where to listen; 0.0.0.0 and [::] take any address of this machine, those of a prefix routed to it among them
    #[arg(default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// System interface: epoll or io_uring [default: io_uring for http where the kernel has all of it, else epoll]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    /// Connections that may wait at each listener; the kernel allows net.core.somaxconn
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub backlog: u16,
    #[command(flatten)]
    pub serving: ServingArguments,
}

impl BucketArguments {
    /// The device that is followed, if one is.
    pub fn followed(&self) -> anyhow::Result<Option<Followed>> {
        self.serving.followed(Protocol::Tcp, self.address)
    }

    /// Where and how to listen.
    pub fn listening(&self, followed: Option<&Followed>) -> anyhow::Result<Listening> {
        Ok(Listening {
            free_bind: self.serving.free_bind,
            engine: self.engine,
            backlog: self.backlog,
            ..Listening::new(self.address, self.serving.steering(followed)?)
        })
    }
}

/// Names the flag at fault.
pub fn refused(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Group(_) | ServeError::NoTuple { .. } => usage("ADDRESS", error),
        ServeError::Steer(_) => usage("--table-size", error),
        ServeError::Tls(TlsError::Write { .. }) => usage("--write-certificate", error),
        ServeError::Tls(_) => usage("--certificate", error),
        ServeError::AccessLog(_) => usage("--access-log", error),
        ServeError::Answers { .. } => usage("--answers", error),
        error => error.into(),
    }
}

/// Where a server listens, how, and why not with the engine asked for.
pub fn listening(
    address: SocketAddr,
    engine: &str,
    engine_reason: Option<&String>,
    steering: &Steering,
) -> anyhow::Result<String> {
    let reason = engine_reason.map_or_else(String::new, |reason| format!("({reason})\n"));
    let steering = serde_json::to_string(steering)?;
    Ok(format!(
        "listening on {address}, engine {engine}\n{reason}steering {steering}\n"
    ))
}

/// A line for each cause.
pub fn errors(counts: &BTreeMap<String, u64>) -> String {
    let line = |(cause, count): (&String, &u64)| {
        let cause = cause.replace('_', " ");
        format!("error, {cause}: {}\n", quantity::count(*count))
    };
    counts.iter().map(line).collect()
}
