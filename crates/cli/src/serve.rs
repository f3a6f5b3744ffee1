//! `corelane serve`: servers in the foreground.

use crate::arguments::{MemoryArguments, MovingArguments, ServeUdpArguments};
use crate::interrupt::Interrupt;
use crate::outcome::{Done, Outcome, usage};
use crate::steering::{self, Asking};
use corelane_host::memory::{self, MemoryPolicy};
use corelane_report::quantity;
use corelane_report::scale::Mode;
use corelane_report::table::{Column, Table};
use corelane_serve::udp::{UdpPlan, UdpServeError, UdpServed, UdpServer};
use corelane_worker::engine::EngineSettings;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often the running server is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// `corelane serve udp`.
pub fn udp(arguments: &ServeUdpArguments) -> Outcome {
    let plan = plan(arguments)?;
    if arguments.dry_run {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    // One socket a bucket, and the count of what each dropped: more than the usual soft limit for many buckets.
    corelane_host::limits::open_descriptors()?;
    let interrupt = Interrupt::catch()?;
    let mut server = UdpServer::start(plan).map_err(|error| match error {
        UdpServeError::Group(error) => usage("ADDRESS", error),
        UdpServeError::Steer(error) => usage("--table-size", error),
        error => error.into(),
    })?;
    if !arguments.json {
        announce(&server.served())?;
    }
    let started = Instant::now();
    let mut line_due = started + Duration::from_secs(1);
    let mut last = 0;
    while !interrupt.asked()
        && arguments
            .duration
            .is_none_or(|duration| started.elapsed() < duration)
    {
        thread::sleep(LOOK);
        server.collect_samples();
        if !arguments.json && Instant::now() >= line_due {
            let served = server.served();
            writeln!(std::io::stdout(), "{}", line(&served, served.seen() - last))?;
            last = served.seen();
            line_due += Duration::from_secs(1);
        }
    }
    let served = server.stop()?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&served)?)?;
    } else {
        write!(out, "{}", table(&served))?;
    }
    Ok(Done)
}

fn plan(arguments: &ServeUdpArguments) -> anyhow::Result<UdpPlan> {
    let steering = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => {
            let cpus = steering::place(
                arguments.cpus.as_deref(),
                arguments.rule.buckets,
                Asking::Buckets {
                    share: arguments.share_cpus,
                },
            )?;
            steering::from_rule(&arguments.rule, arguments.hash, cpus)?
        }
    };
    let moving = moving(&arguments.moving);
    check_memory(&arguments.placing)?;
    Ok(UdpPlan {
        mode: if arguments.sink { Mode::Sink } else { Mode::Echo },
        model: arguments.model,
        engine: arguments.moving.engine,
        batch: moving.datagram_batch,
        coalesce: moving.coalesce,
        gro: moving.gro,
        memory: arguments.placing.memory,
        buffer_memory: arguments.placing.buffer_memory,
        receive_buffer_bytes: Some(arguments.receive_buffer as usize),
        device: arguments.watch.clone(),
        ..UdpPlan::new(arguments.address, steering)
    })
}

/// The engine settings of these flags.
pub fn moving(arguments: &MovingArguments) -> EngineSettings {
    EngineSettings {
        datagram_batch: usize::from(arguments.batch),
        coalesce: arguments.gso,
        gro: arguments.gro,
        ..EngineSettings::default()
    }
}

/// Refuses nodes that this machine does not have.
pub fn check_memory(arguments: &MemoryArguments) -> anyhow::Result<()> {
    let nodes = memory::nodes()?;
    let check = |flag, policy: MemoryPolicy| policy.check(&nodes).map_err(|error| usage(flag, error));
    check("--memory", arguments.memory)?;
    arguments
        .buffer_memory
        .map_or(Ok(()), |policy| check("--buffer-memory", policy))
}

fn announce(served: &UdpServed) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}, engine {}", served.address, served.engine)?;
    if let Some(reason) = &served.engine_reason {
        writeln!(out, "({reason})")?;
    }
    writeln!(out, "steering {}", serde_json::to_string(&served.steering)?)?;
    Ok(Done)
}

fn line(served: &UdpServed, last_second: u64) -> String {
    let share = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
    format!(
        "{:>12}  seen {:>13}  answered {:>13}  steering {:>6}  locality {:>6}",
        quantity::rate(last_second as f64),
        quantity::count(served.seen()),
        quantity::count(served.answered()),
        share(served.steering_ok()),
        share(served.locality()),
    )
}

fn table(served: &UdpServed) -> String {
    let headers = [
        "bucket", "cpu", "seen", "answered", "dropped", "steering", "locality",
    ];
    let mut table = Table::new(headers.into_iter().map(Column::right).collect());
    let share = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
    for bucket in &served.buckets {
        table.row([
            bucket.bucket.to_string(),
            bucket.cpu.to_string(),
            quantity::count(bucket.seen),
            quantity::count(bucket.answered),
            quantity::count(bucket.dropped.values().sum()),
            share(bucket.steering_ok()),
            share(bucket.locality()),
        ]);
    }
    let mut text = table.render(100);
    for (cause, count) in served.dropped() {
        text.push_str(&format!(
            "dropped, {}: {}\n",
            cause.replace('_', " "),
            quantity::count(count)
        ));
    }
    text.push_str(&memory_lines(served));
    if let Some(reason) = &served.locality_unknown {
        text.push_str(&format!("locality unknown: {reason}\n"));
    }
    text
}

/// Where the buffers lie: told where there was a choice, by a policy or by several nodes.
fn memory_lines(served: &UdpServed) -> String {
    let mut text = String::new();
    for bucket in &served.buckets {
        let Some(memory) = &bucket.memory else { continue };
        let nodes = memory
            .buffer_pages_by_node
            .as_ref()
            .map_or(0, |nodes| nodes.len());
        if memory.policy == MemoryPolicy::default().to_string()
            && memory.buffers_policy == memory.policy
            && nodes < 2
        {
            continue;
        }
        let found = memory.unknown.clone().unwrap_or_else(|| memory.words());
        text.push_str(&format!(
            "memory of bucket {}: {}, buffers {}; pages of buffers on {found}\n",
            bucket.bucket, memory.policy, memory.buffers_policy
        ));
    }
    text
}
