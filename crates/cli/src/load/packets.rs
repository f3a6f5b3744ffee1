//! `corelane load packets`: generated or replayed frames on any link.

use super::foreground::{ResultArguments, duration_s, gates};
use super::live::ForegroundLoad;
use crate::links::refused_link;
use crate::outcome::{Outcome, usage};
use crate::shared::print_json;
use crate::steering;
use crate::values::{count, duration, port_range, rate};
use clap::Args;
use corelane_link::LinkSpec;
use corelane_load::pace::Pace;
use corelane_load::packets::{
    FlowChoice, GeneratedPlan, PacketsError, PacketsLoad, PacketsPlan, ReplayPace, ReplayPlan, Sizes, Traffic,
};
use corelane_load::pool::Pool;
use corelane_measure::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane load packets pcap:out=flood.pcap --count 10k --size imix\n  \
    corelane load packets ring:left --rate 10k --flows 64 --duration 200ms\n  \
    sudo corelane load packets xdp:eth0 --rate 1M --destination-link 02:00:00:00:00:01\n  \
    sudo corelane load packets packet:eth0 --replay capture.pcapng --speed 10\n\n\
    Links: xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:out=FILE, ring:NAME, with options such as ,queues=2;\n\
    ,capture=sent.pcapng records sent frames; ,drop=1%,faults=sent drops some (docs/BRIDGE.md).\n\
    Sizes exclude the Ethernet FCS: the minimum is 60, the maximum at an MTU of 1500 is 1514.";

/// Generated or replayed frames on any link, numbered so that a receiver can detect loss
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'unsent > 0' or 'rate < 1M'"))))]
pub struct LoadPacketsArguments {
    /// The link to send on
    pub link: String,
    /// Source addresses: prefixes, ranges, lists
    #[arg(
        long = "sources",
        alias = "from",
        value_name = "POOL",
        default_value = "198.18.0.0/16"
    )]
    pub from: Pool,
    /// Destination addresses, of the same family
    #[arg(
        long = "destinations",
        alias = "to",
        value_name = "POOL",
        default_value = "198.19.0.0/16"
    )]
    pub to: Pool,
    /// Source ports
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535", value_parser = port_range)]
    pub source_ports: (u16, u16),
    /// Destination ports
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535", value_parser = port_range)]
    pub destination_ports: (u16, u16),
    /// Number of flows, sent in turn in each stream [default: random addresses and ports for every packet]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub flows: Option<u32>,
    /// Choose the flows so that each bucket of this steering document gets the same number
    #[arg(long, value_name = "FILE", requires = "flows")]
    pub steering: Option<PathBuf>,
    /// Frame size in bytes without FCS: one size, FIRST-LAST, or imix
    #[arg(long, value_name = "SIZES", default_value = "60")]
    pub size: Sizes,
    /// Frames per second over all queues, on a fixed schedule [default: flood]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Destination MAC address
    #[arg(long, value_name = "MAC", default_value = "02:63:6c:00:00:01", value_parser = link_address)]
    pub destination_link: [u8; 6],
    /// Source MAC address
    #[arg(long, value_name = "MAC", default_value = "02:63:6c:00:00:02", value_parser = link_address)]
    pub source_link: [u8; 6],
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Send the frames of a capture (pcap or pcapng) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "source_ports", "destination_ports", "flows",
        "steering", "size", "rate", "destination_link", "source_link", "seed"])]
    pub replay: Option<PathBuf>,
    /// Replay speed as a multiple of the captured speed, or flood
    #[arg(long, value_name = "FACTOR|flood", default_value = "1", value_parser = speed)]
    pub speed: ReplayPace,
    /// Number of times to send the capture
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub times: u64,
    /// Stop after this time [default: 10s, or when --count is reached, or the capture ends]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop after this many frames [default: 1M if the link writes a file and no --duration is given]
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub count: Option<u64>,
    /// Frames passed to the link per call
    #[arg(long = "batch", alias = "burst", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub burst: u32,
    /// CPUs to use, such as 0-3,6 [default: those allowed for this process, at most one per queue]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub result: ResultArguments,
}

/// `corelane load packets`.
pub fn run(arguments: &LoadPacketsArguments) -> Outcome {
    let plan = plan(arguments)?;
    if arguments.result.dry_run {
        return print_json(&plan);
    }
    let note = default_count(arguments).map(|frames| {
        let frames = quantity::count(frames);
        format!("at most {frames} frames are written to a file: --count or --duration gives another bound")
    });
    arguments
        .result
        .run::<PacketsLoad, _>(plan, |_| Ok((note.into_iter().collect(), ())), Vec::new)
}

/// Frames that a run writes to a file by default: a flood fills a disk within its default duration.
const DEFAULT_FRAMES: u64 = 1_000_000;

/// The number of frames that bounds a run of these arguments, because nothing else does that is as short.
fn default_count(arguments: &LoadPacketsArguments) -> Option<u64> {
    let is_open = arguments.count.is_none() && arguments.duration.is_none() && arguments.replay.is_none();
    let spec = arguments.link.parse::<LinkSpec>().ok()?;
    let writes = spec.write.is_some() || spec.capture.is_some();
    (is_open && writes).then_some(DEFAULT_FRAMES)
}

impl ForegroundLoad for PacketsLoad {
    /// Converts an error to a usage error that names the argument at fault.
    fn refused(error: PacketsError) -> anyhow::Error {
        let flag = match &error {
            PacketsError::Link(link) => return refused_link("LINK", link),
            PacketsError::Replay(_) | PacketsError::Overwritten { .. } => "--replay",
            PacketsError::Spec(_) | PacketsError::NothingReceived => "LINK",
            PacketsError::MixedFamilies | PacketsError::EmptyPool => "--sources and --destinations",
            PacketsError::Bucket { .. } => "--steering",
            PacketsError::Short { .. } | PacketsError::Long { .. } => "--size",
            PacketsError::Window => "--rate",
            _ => return error.into(),
        };
        usage(flag, error)
    }

    fn devices(plan: &PacketsPlan) -> Vec<String> {
        let link = plan.link.parse::<LinkSpec>().ok();
        let device = link.filter(LinkSpec::is_device);
        device.map(|device| device.name).into_iter().collect()
    }
}

fn plan(arguments: &LoadPacketsArguments) -> anyhow::Result<PacketsPlan> {
    let traffic = match &arguments.replay {
        Some(file) => Traffic::Replayed(ReplayPlan {
            file: file.clone(),
            pace: arguments.speed,
            times: arguments.times,
        }),
        None => Traffic::Generated(Box::new(GeneratedPlan {
            sources: arguments.from.clone(),
            destinations: arguments.to.clone(),
            source_ports: arguments.source_ports,
            destination_ports: arguments.destination_ports,
            flows: match arguments.flows {
                None => FlowChoice::Random,
                Some(flows) => FlowChoice::Fixed {
                    flows: flows as usize,
                },
            },
            steering: steering::given(arguments.steering.as_ref())?,
            sizes: arguments.size,
            pace: (arguments.rate).map_or(Pace::Flood, |per_second| Pace::Rate { per_second }),
            destination_link: arguments.destination_link,
            source_link: arguments.source_link,
            seed: arguments.seed,
        })),
    };
    let ends = arguments.count.is_some() || arguments.replay.is_some();
    Ok(PacketsPlan {
        link: arguments.link.clone(),
        traffic,
        duration_s: duration_s(arguments.duration, ends),
        count: arguments.count.or(default_count(arguments)),
        burst: arguments.burst as usize,
        cpus: steering::worker_cpus(arguments.cpus.as_deref(), None)?,
    })
}

fn speed(text: &str) -> Result<ReplayPace, String> {
    if text == "flood" {
        return Ok(ReplayPace::Flood);
    }
    let factor = text
        .parse::<f64>()
        .ok()
        .filter(|factor| factor.is_finite() && *factor > 0.0);
    let factor = factor.ok_or("write a factor above 0, such as 1 or 10, or flood")?;
    Ok(ReplayPace::Times { factor })
}

fn link_address(text: &str) -> Result<[u8; 6], String> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes
        .ok()
        .and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
        .ok_or_else(|| "write a link address such as 02:63:6c:00:00:01".to_owned())
}
