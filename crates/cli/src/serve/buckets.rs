//! What the servers on buckets share: the flags that say by which steering they serve and for how long, those of connections
//! where they listen, and the foreground that they run in.

use super::device::Followed;
use crate::interrupt::Interrupt;
use crate::outcome::{Done, Outcome, usage};
use crate::shared::RuleArguments;
use crate::steering::{self, Asking};
use crate::values::duration;
use clap::Args;
use corelane_host::ethtool::FlowType;
use corelane_measure::quantity;
use corelane_rss::{HashFields, IndirectionTable, Protocol, Steering};
use corelane_serve::ListenError;
use corelane_worker::engine::EngineKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

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
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

impl ServingArguments {
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
}

/// A running server, as its foreground sees it.
pub trait Foreground: Sized {
    /// The document that it ends with.
    type Served: Serialize;

    /// The counts so far.
    fn served(&mut self) -> Self::Served;

    /// What is said of it at its start.
    fn listening(served: &Self::Served) -> Listening<'_>;

    /// What happened since `last` was told: the line of one second.
    fn line(served: &Self::Served, last: &Self::Served) -> String;

    /// Steers by another table from now on; tells how many entries moved.
    fn change_table(&mut self, table: IndirectionTable) -> anyhow::Result<usize>;

    /// The end of the story.
    fn table(served: &Self::Served) -> String;

    /// Does what is due now and then, and what signals have asked for since the last look.
    fn look(&mut self) -> Outcome {
        Ok(Done)
    }

    /// Whether its counts are only told at the end.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Ends it.
    fn stop(self) -> anyhow::Result<Self::Served>;
}

/// Names the flag at fault.
pub fn cannot_listen(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::Group(error) => usage("ADDRESS", error),
        ListenError::Steer(error) => usage("--table-size", error),
        error => error.into(),
    }
}

/// Where a server listens, and how.
pub struct Listening<'a> {
    pub address: SocketAddr,
    pub engine: &'a str,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<&'a str>,
    pub steering: &'a Steering,
}

/// A line for each cause.
pub fn errors(counts: &BTreeMap<String, u64>) -> String {
    let line = |(cause, count): (&String, &u64)| {
        let cause = cause.replace('_', " ");
        format!("error, {cause}: {}\n", quantity::count(*count))
    };
    counts.iter().map(line).collect()
}

/// Prints the plan, as `--dry-run` asks; or starts the server, says where it listens, and runs it to its end.
pub fn serve<P: Serialize, S: Foreground>(
    arguments: &ServingArguments,
    followed: Option<Followed>,
    plan: P,
    start: impl FnOnce(P) -> anyhow::Result<S>,
) -> Outcome {
    if arguments.dry_run {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    // A socket a bucket and more beside each: more than the usual soft limit for many buckets.
    corelane_host::limits::open_descriptors()?;
    let interrupt = Interrupt::catch()?;
    let mut server = start(plan)?;
    if !arguments.json {
        announce(S::listening(&server.served()))?;
    }
    attend(server, followed, arguments, &interrupt)
}

/// Says where a server listens, as one who starts it waits for.
fn announce(listening: Listening<'_>) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "listening on {}, engine {}",
        listening.address, listening.engine
    )?;
    if let Some(reason) = listening.engine_reason {
        writeln!(out, "({reason})")?;
    }
    writeln!(out, "steering {}", serde_json::to_string(listening.steering)?)?;
    Ok(Done)
}

/// Runs a server until its time is over, it is interrupted, or the device that it follows becomes another; tells what it
/// did.
fn attend<S: Foreground>(
    mut server: S,
    mut followed: Option<Followed>,
    arguments: &ServingArguments,
    interrupt: &Interrupt,
) -> Outcome {
    /// How often the end is looked for.
    const LOOK: Duration = Duration::from_millis(50);
    let started = Instant::now();
    let mut line_due = started + Duration::from_secs(1);
    let (mut last, mut lost) = (server.served(), None);
    let over = |duration| started.elapsed() >= duration;
    while !interrupt.asked() && !arguments.duration.is_some_and(over) {
        thread::sleep(LOOK);
        server.look()?;
        match followed.as_mut().map_or(Ok(None), Followed::changed) {
            Ok(None) => {}
            Ok(Some(table)) => {
                let moved = server.change_table(table)?;
                followed.iter().for_each(|followed| followed.announce(moved));
            }
            Err(reason) => {
                lost = Some(reason);
                break;
            }
        }
        if !arguments.json && !server.is_quiet() && Instant::now() >= line_due {
            let served = server.served();
            writeln!(std::io::stdout(), "{}", S::line(&served, &last))?;
            last = served;
            line_due += Duration::from_secs(1);
        }
    }
    let served = server.stop()?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&served)?)?;
    } else {
        write!(out, "{}", S::table(&served))?;
    }
    lost.map_or(Ok(Done), Err)
}
