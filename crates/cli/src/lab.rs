//! `corelane lab`: experiments in a test bed of their own.

use crate::arguments::{BedArgument, ScaleUdpArguments};
use crate::interrupt::Interrupt;
use crate::outcome::{CannotRun, Done, Outcome, usage};
use crate::serve::{check_memory, moving};
use crate::steering::{self, Asking};
use anyhow::Context;
use corelane_host::bed::{self, Bed, BedPlan};
use corelane_host::conditions::{self, Severity, Snapshot};
use corelane_host::limits;
use corelane_lab::scale::{Experiment, Moment, Observe, ScaleError, ScalePlan, ScaleRequest};
use corelane_load::udp::UdpLoadError;
use corelane_proto::probe::Stamp;
use corelane_report::scale::ScaleReport;
use corelane_report::scale::render;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// The addresses of the posts ("Receive side scaling: testing UDP throughput"). They exist only in the bed's namespaces.
const SERVER: &str = "10.11.2.1";
const CLIENTS: &str = "10.11.2.0/24";

/// Where the posts' pool does not reach every bucket: 254 addresses are on all of 32 buckets and more, whatever the table.
const MORE_CLIENTS: &str = "10.11.0.0/16";
const BUCKETS_OF_CLIENTS: usize = 32;

/// Bytes of IPv4 and UDP headers before the payload, and the MTU of a link that is not told otherwise.
const HEADER_BYTES: u32 = 28;
const USUAL_MTU: u32 = 1500;

/// The posts' port.
pub const PORT: u16 = 8080;

/// `corelane lab scale udp`.
pub fn scale_udp(arguments: &ScaleUdpArguments) -> Outcome {
    Stamp::new(arguments.size as usize).map_err(|error| usage("--size", error))?;
    let request = request(arguments)?;
    // While there is one thread: namespaces without privilege need a user namespace around them.
    if arguments.bed != BedArgument::Loopback {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
    let bed = build_bed(
        arguments.bed,
        request.steering.table.buckets(),
        arguments.size as u32,
    )?;
    let snapshot = snapshot(&bed);
    let plan = ScalePlan::new(request, &bed, PORT);
    if arguments.dry_run {
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    let experiment = Experiment {
        plan,
        bed,
        program: std::env::current_exe().context("finding the program's own file")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(),
        conditions: serde_json::to_value(&snapshot)?,
        descriptor_limit: limits::open_descriptors()?,
    };
    let interrupt = Interrupt::catch()?;
    let progress = progress(&experiment, &snapshot);
    let report = experiment.run(interrupt.flag(), |moment| {
        show(&progress, moment);
        // A run that is killed leaves what it measured; a failure to save is told at the end, when it is tried again.
        let _ = save(arguments, moment.report);
    });
    progress.finish_and_clear();
    let report = report.map_err(name_flag)?;
    save(arguments, &report)?;
    tell(arguments, &report)
}

fn request(arguments: &ScaleUdpArguments) -> anyhow::Result<ScaleRequest> {
    let asking = Asking::Buckets {
        share: arguments.share_cpus,
    };
    let cpus = steering::place(arguments.cpus.as_deref(), arguments.buckets, asking)?;
    let table = IndirectionTable::round_robin(arguments.table_size, cpus.len())
        .map_err(|error| usage("--table-size and --buckets", error))?;
    let moving = moving(&arguments.moving);
    check_memory(&arguments.placing)?;
    Ok(ScaleRequest {
        steering: Steering {
            key: arguments.key.clone().unwrap_or(Key::VERIFICATION),
            hash_fields: HashFields::TwoTuple,
            table,
            cpus,
            generation: 0,
        },
        models: arguments.models.0.clone(),
        placements: arguments.placements.clone(),
        modes: arguments.modes.clone(),
        duration_s: arguments.duration.as_secs_f64(),
        rounds: arguments.rounds,
        payload_bytes: arguments.size as usize,
        flows: arguments.flows as usize,
        window: arguments.window,
        engine: arguments.moving.engine,
        batch: moving.datagram_batch,
        gso: moving.coalesce,
        gro: moving.gro,
        memory: arguments.placing.memory,
        buffer_memory: arguments.placing.buffer_memory,
        seed: arguments.seed,
        observe: Observe {
            profile: arguments.observe.profile,
            locks: arguments.observe.locks,
            softnet: arguments.observe.softnet,
        },
    })
}

/// A bed for so many buckets, over which a payload of `size` bytes passes whole: the device counts frames, and a fragment is
/// one.
pub fn build_bed(wanted: BedArgument, buckets: usize, size: u32) -> anyhow::Result<Bed> {
    let constant = "the bed's addresses are constants of the right form";
    let clients = if buckets > BUCKETS_OF_CLIENTS {
        MORE_CLIENTS
    } else {
        CLIENTS
    };
    let plan = BedPlan {
        mtu: Some((size + HEADER_BYTES).max(USUAL_MTU)),
        loopback_ok: wanted != BedArgument::Namespaces,
        ..BedPlan::new(
            SERVER.parse().expect(constant),
            vec![clients.parse().expect(constant)],
        )
    };
    let bed = match wanted {
        BedArgument::Loopback => Bed::loopback(&plan, "asked for with --bed loopback".to_owned()),
        BedArgument::Auto | BedArgument::Namespaces => Bed::build(&plan),
    };
    bed.map_err(|error| CannotRun(error.to_string()).into())
}

/// What may spoil or explain the result: of the machine, and of the server's device, which only its side can see.
fn snapshot(bed: &Bed) -> Snapshot {
    let mut snapshot = conditions::snapshot(&[]);
    let devices = [bed.server.device().to_owned()];
    snapshot.add(bed.server.run(move || conditions::of_devices(&devices)));
    snapshot
}

fn name_flag(error: ScaleError) -> anyhow::Error {
    match error {
        ScaleError::Load(error @ UdpLoadError::Unreached { .. }) => usage("--buckets", error),
        error => error.into(),
    }
}

/// The command line as it was typed, the program by its plain name.
pub fn command_line() -> Vec<String> {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("corelane".to_owned()).chain(arguments).collect()
}

/// Says what is about to run and what may spoil it; then a bar. Only to a terminal.
fn progress(experiment: &Experiment, snapshot: &Snapshot) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let plan = &experiment.plan;
    let trials = plan.steps.len() as u64 * u64::from(plan.request.rounds);
    let seconds = trials as f64 * (plan.request.duration_s + 0.5);
    eprintln!("{}", experiment.bed.describe());
    for condition in snapshot
        .conditions
        .iter()
        .filter(|condition| condition.severity == Severity::Spoils)
    {
        let value = condition.value.as_deref().unwrap_or("unknown");
        eprintln!(
            "spoils the result: {} is {value}: {}",
            condition.name, condition.why
        );
    }
    eprintln!("{trials} trials, about {seconds:.0} s; ^C ends early and still reports");
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}").expect("a template of known fields");
    ProgressBar::new(trials).with_style(style)
}

fn show(progress: &ProgressBar, moment: &Moment<'_>) {
    let step = moment.step;
    progress.set_position(moment.done as u64);
    progress.set_message(format!(
        "{} {} {} x{}",
        step.mode, step.model, step.placement, step.buckets_active
    ));
}

fn save(arguments: &ScaleUdpArguments, report: &ScaleReport) -> anyhow::Result<()> {
    let standard_output = Path::new("-");
    if let Some(path) = arguments.json.as_deref().filter(|path| *path != standard_output) {
        write_whole(path, &report.to_json()?).with_context(|| format!("--json {}", path.display()))?;
    }
    if let Some(path) = &arguments.html {
        let page = corelane_report::html::page(report);
        write_whole(path, &page).with_context(|| format!("--html {}", path.display()))?;
    }
    Ok(())
}

/// Writes beside the file and renames, so that a reader never sees half a document.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn tell(arguments: &ScaleUdpArguments, report: &ScaleReport) -> Outcome {
    let mut out = io::stdout().lock();
    if arguments.json.as_deref() == Some(Path::new("-")) {
        write!(out, "{}", report.to_json()?)?;
        return Ok(Done);
    }
    write!(out, "{}", render(report))?;
    if let Some(path) = &arguments.html {
        writeln!(io::stderr(), "report: {}", path.display())?;
    }
    Ok(Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_host::bed::BedKind;

    #[test]
    fn loopback_is_had_when_asked_for() {
        let bed = build_bed(BedArgument::Loopback, 1, 510).unwrap();
        assert_eq!(bed.kind(), BedKind::Loopback);
        assert!(bed.reason().is_some());
    }
}
