//! `corelane explain`: traces the packets of one flow in both directions.

use crate::machine;
use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::steering;
use crate::terminal::width;
use crate::values::{Endpoint, PROTOCOLS, one_of, zoned_endpoint};
use clap::Args;
use corelane_host::cpus::list;
use corelane_host::explain::{Ends, ExplainError, Flow, PredictedPath, Role, Step, explain};
use corelane_host::inventory::{self, Inventory};
use corelane_host::published::{OF_SOCKETS, published};
use corelane_host::sockets::{self, Owner};
use corelane_report::table::Rows;
use corelane_report::text::wrapped;
use corelane_rss::{Protocol, Tuple};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Shown by `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane explain 127.0.0.1:40000 127.0.0.1:8080 --proto udp --sender-cpu 0\n  \
corelane explain 192.0.2.1:40000 192.0.2.2:443 --dev lo --json\n\n\
SRC sends, DST receives; the replies are traced too. `--config FILE` reads a document written by\n\
`corelane host --json` and explains that machine.";

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Source, as ADDRESS:PORT or [ADDRESS]:PORT
    #[arg(value_name = "SRC", value_parser = zoned_endpoint)]
    pub source: (Endpoint, Option<String>),
    /// Destination, in the same format
    #[arg(value_name = "DST", value_parser = zoned_endpoint)]
    pub destination: (Endpoint, Option<String>),
    /// Protocol of the packets
    #[arg(long, default_value = "tcp", value_parser = one_of(PROTOCOLS))]
    pub proto: Protocol,
    /// Device that receives and sends the packets [default: the zone of an address, or chosen by the routes]
    #[arg(long, value_name = "DEVICE")]
    pub dev: Option<String>,
    /// Steering document of the server, to name its socket [default: the one of a running `corelane serve`]
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// CPU of the sender, for devices whose receive path runs on that CPU
    #[arg(long, value_name = "CPU")]
    pub sender_cpu: Option<u32>,
    /// Explain another machine: a document written there by `corelane host --json`
    #[arg(long, value_name = "FILE", visible_alias = "host")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// Explains a flow on this machine or on a saved inventory.
pub fn run(arguments: &ExplainArguments) -> Outcome {
    let [(source, sender), (destination, receiver)] = [&arguments.source, &arguments.destination];
    let tuple = Tuple::new(source.socket_address(), destination.socket_address())
        .map_err(|error| usage("SRC and DST", error))?;
    let protocol = arguments.proto;
    let given = steering::given(arguments.steering.as_ref())?;
    let (inventory, mut ends) = match &arguments.config {
        Some(path) => (machine::saved("--config", path)?, Ends::default()),
        None => {
            let inventory = inventory::inventory();
            let ends = ends(&inventory, &tuple, protocol);
            (inventory, ends)
        }
    };
    ends.steering = given.or(ends.steering);
    let online = inventory.machine.cpus_online.as_deref();
    if let (Some(cpu), Some(online)) = (arguments.sender_cpu, online)
        && !online.contains(&cpu)
    {
        let what = format!("CPU {cpu} is not online: give one of {}", list::format(online));
        return Err(usage("--sender-cpu", what));
    }
    let flow = Flow {
        tuple,
        protocol,
        device: arguments
            .dev
            .as_ref()
            .or(receiver.as_ref())
            .or(sender.as_ref())
            .cloned(),
        sender_cpu: arguments.sender_cpu,
    };
    let explanation = explain(&inventory, &flow, &ends).map_err(|error| match error {
        ExplainError::NoDevice(_) if arguments.dev.is_some() => usage("--dev", error),
        error => usage("SRC and DST", error),
    })?;
    print(arguments.json, &explanation, |explanation| {
        let parts: Vec<String> = explanation.directions.iter().map(path).collect();
        parts.join("\n")
    })
}

/// The sockets of the local ends. Without sock_diag none is known; the steps report that.
fn ends(inventory: &Inventory, tuple: &Tuple, protocol: Protocol) -> Ends {
    let is_here = |end: SocketAddr| inventory.is_local(end.ip()) && end.port() != 0;
    let at = |end, other| match is_here(end) {
        true => sockets::owners(protocol, end, other).ok(),
        false => None,
    };
    let destination = at(tuple.destination(), tuple.source());
    let is_absent = destination.as_ref().is_some_and(Vec::is_empty) && protocol != Protocol::Other;
    let source = at(tuple.source(), tuple.destination()).unwrap_or_default();
    let destination = destination.unwrap_or_default();
    let groups = [&destination, &source]
        .into_iter()
        .filter(|sockets| sockets.len() > 1);
    let holders = groups.flatten().flat_map(|socket| &socket.holders);
    let processes: BTreeSet<u32> = holders.map(|holder| holder.process).collect();
    Ends {
        steering: processes
            .into_iter()
            .find_map(|process| serde_json::from_str(&published(process, OF_SOCKETS)?).ok()),
        absent: is_absent.then(|| absent(protocol, tuple.destination())),
        destination,
        source,
    }
}

/// That no socket receives packets to an address of this machine, and which ones have its port.
fn absent(protocol: Protocol, to: SocketAddr) -> String {
    let name = |protocol| if protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let holders = |asked| {
        let flag = if asked == protocol { "" } else { " (--proto)" };
        let found = sockets::serving(std::process::id(), asked, to.port(), &[]).unwrap_or_default();
        let line = move |socket: Owner| format!("{} {}{flag}", name(asked), socket.local);
        found.into_iter().map(line)
    };
    let others: Vec<String> = [Protocol::Tcp, Protocol::Udp]
        .into_iter()
        .flat_map(holders)
        .collect();
    let others = match &others[..] {
        [] => String::new(),
        some => format!("; this port is in use by {}", some.join(", ")),
    };
    format!(
        "no {} socket here receives packets to {to}{others}",
        name(protocol)
    )
}

fn path(path: &PredictedPath) -> String {
    let role = match path.role {
        Role::Receives => "received here",
        Role::Sends => "sent from here",
        Role::Keeps => "within this host",
    };
    let mut text = format!("{} -> {}, {role}\n", path.from, path.to);
    for steps in path.steps.chunk_by(|one, next| fits(one) == fits(next)) {
        if fits(&steps[0]) {
            let table = Rows::of(steps)
                .left("step", |step| &step.step)
                .left("value", |step| step.value.as_deref().unwrap_or("?"))
                .left("sure", |step| step.confidence.to_string())
                .left("rule", |step| &step.rule)
                .table();
            text.push_str(&table.render(width().tables));
            continue;
        }
        for step in steps {
            let value = step.value.as_deref().unwrap_or("?");
            let words = format!("{value} ({}: {})", step.confidence, step.rule);
            wrapped(&mut text, &format!("{}: ", step.step), &words, width().words);
        }
    }
    for step in path.steps.iter().filter(|step| !step.unless.is_empty()) {
        text.push_str(&format!("  {} unless {}\n", step.step, step.unless.join("; ")));
    }
    text.push_str(&match path.cpu {
        Some(cpu) => format!("seen on CPU {cpu} ({})\n", path.cpu_confidence),
        None => "CPU unknown\n".to_owned(),
    });
    if let Some(fragments) = &path.fragments {
        let hash = fragments.hash.as_deref();
        let hashed = hash.map_or(String::new(), |hash| format!(" (hash {hash})"));
        text.push_str(&format!("fragments: {}{hashed}\n", fragments.words));
    }
    if path.sockets.len() > 1 {
        text.push_str(&members(&path.sockets));
    }
    text
}

/// Whether a step fits on a line of the table, beside the columns of its name and confidence.
fn fits(step: &Step) -> bool {
    const COLUMNS: usize = 72;
    let value = step.value.as_deref().unwrap_or("?");
    value.len() + step.rule.len() <= COLUMNS
}

/// The members of a reuseport group.
fn members(sockets: &[Owner]) -> String {
    let unknown = || "?".to_owned();
    let members: Vec<(usize, &Owner)> = sockets.iter().enumerate().collect();
    let table = Rows::of(&members)
        .right("member", |(member, _)| member.to_string())
        .left("process", |(_, socket)| {
            let holder = socket.reader();
            holder.map_or_else(unknown, |holder| format!("{} ({})", holder.name, holder.process))
        })
        .right("descriptor", |(_, socket)| {
            let holder = socket.reader();
            let descriptor = holder.and_then(|holder| holder.descriptors.first());
            descriptor.map_or_else(unknown, ToString::to_string)
        })
        .right("cpu", |(_, socket)| {
            socket.cpu.map_or_else(unknown, |cpu| cpu.to_string())
        })
        .shrinking("known by", |(_, socket)| {
            socket.cpu_by.clone().unwrap_or_default()
        })
        .table();
    table.render(width().tables)
}
