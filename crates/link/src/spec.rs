//! Links as people write them: `xdp:eth0`, `packet:eth1,queues=2,fanout=cpu`, `tap:t0`, `pcap:in.pcap,out=out.pcapng`,
//! `ring:name`, each with `frames=`, `stride=` and `headroom=` where wanted, and with `capture=` and faults (`drop=1%,seed=7`)
//! around it.

use crate::files::{is_numbered, is_same_file};
use crate::layout::{FrameLayout, LayoutError};
use crate::packet_socket::Fanout;
use crate::wrapper::{Direction, FaultPlan};
use crate::xdp::{XdpHook, XdpMode};
use corelane_measure::quantity::{parse_duration, parse_share};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Which link to open, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Kind and name.
    pub kind: LinkKind,
    /// How frames lie in its memory.
    pub layout: FrameLayout,
    /// `capture=FILE`: where all that the link receives and sends is written. The file of queue 1 of `seen.pcapng` is
    /// `seen.1.pcapng`, and so on.
    pub capture: Option<PathBuf>,
    /// `drop=1%` and the others: what befalls its frames. Queue `q` has the seed plus `q`.
    pub faults: Option<FaultPlan>,
}

/// The options of every kind of link.
const EVERY: &str = "frames, stride, headroom, capture, drop, truncate, corrupt, duplicate, reorder, delay, delayed, faults and seed";
/// The seed where none is given.
const SEED: u64 = 1;
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// The kinds of links that can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `xdp:DEVICE`: [`crate::xdp`].
    Xdp {
        /// The device.
        device: String,
        /// Its queues; none: as many as it has.
        queues: Option<usize>,
        /// Who copies.
        mode: XdpMode,
        /// Where the program runs.
        hook: XdpHook,
        /// Whether the kernel is woken only when it asks.
        need_wakeup: bool,
    },
    /// `packet:DEVICE`: [`crate::packet_socket`].
    Packet {
        /// The device.
        device: String,
        /// Sockets.
        queues: usize,
        /// How frames are shared out.
        fanout: Fanout,
    },
    /// `tap:DEVICE`: [`crate::tap`].
    Tap {
        /// The device.
        device: String,
        /// Queues.
        queues: usize,
    },
    /// `pcap:FILE,out=FILE`: [`crate::capture`].
    Capture {
        /// The file to read.
        read: Option<PathBuf>,
        /// The file to write.
        write: Option<PathBuf>,
    },
    /// `ring:NAME`: [`crate::memory::shared`].
    Ring {
        /// The name that both processes give.
        name: String,
    },
}

/// Text that names no link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SpecError {
    #[error(
        "'{0}' names no link: write xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, pcap:out=FILE or ring:NAME"
    )]
    Kind(String),
    #[error("'{option}' is no option of a {kind} link, which has {has}{EVERY}", EVERY = EVERY)]
    Option {
        option: String,
        kind: &'static str,
        has: &'static str,
    },
    #[error("'{option}={value}': give {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The options of a specification, taken one by one.
struct Options<'text> {
    kind: &'static str,
    has: &'static str,
    given: Vec<(&'text str, &'text str)>,
}

impl<'text> Options<'text> {
    /// Takes the text of an option.
    fn text(&mut self, option: &str) -> Option<&'text str> {
        let place = self.given.iter().position(|(name, _)| *name == option)?;
        Some(self.given.remove(place).1)
    }

    /// Takes the name of a file.
    fn file(&mut self, option: &'static str) -> Result<Option<&'text str>, SpecError> {
        match self.text(option) {
            Some("") => Err(SpecError::Value {
                option,
                value: String::new(),
                expected: "the name of a file",
            }),
            name => Ok(name),
        }
    }

    /// Takes and reads an option.
    fn take<T: FromStr>(
        &mut self,
        option: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, SpecError> {
        self.text(option)
            .map(|value| {
                value.parse().map_err(|_| SpecError::Value {
                    option,
                    value: value.to_owned(),
                    expected,
                })
            })
            .transpose()
    }

    fn queues(&mut self) -> Result<Option<usize>, SpecError> {
        let expected = "a number of queues from 1 to 256";
        match self.take::<usize>("queues", expected)? {
            Some(queues) if !(1..=256).contains(&queues) => Err(SpecError::Value {
                option: "queues",
                value: queues.to_string(),
                expected,
            }),
            queues => Ok(queues),
        }
    }

    fn layout(&mut self) -> Result<FrameLayout, SpecError> {
        let usual = FrameLayout::default();
        let frames = self.take("frames", "a power of two")?;
        let stride = self.take("stride", "a multiple of 64")?;
        let headroom = self.take("headroom", "a number of bytes")?;
        Ok(FrameLayout::new(
            frames.unwrap_or(usual.frames()),
            stride.unwrap_or(usual.stride()),
            headroom.unwrap_or(usual.headroom()),
        )?)
    }

    fn share(&mut self, option: &'static str) -> Result<Option<f64>, SpecError> {
        self.text(option)
            .map(|value| {
                parse_share(value).map_err(|_| SpecError::Value {
                    option,
                    value: value.to_owned(),
                    expected: "a share of frames such as 1% or 0.01",
                })
            })
            .transpose()
    }

    fn delay(&mut self) -> Result<Option<Duration>, SpecError> {
        self.text("delay")
            .map(|value| {
                parse_duration(value)
                    .ok()
                    .filter(|delay| !delay.is_zero() && *delay <= LONGEST_DELAY)
                    .ok_or_else(|| SpecError::Value {
                        option: "delay",
                        value: value.to_owned(),
                        expected: "a time above 0, 10s at most, such as 5ms",
                    })
            })
            .transpose()
    }

    fn faults(&mut self) -> Result<Option<FaultPlan>, SpecError> {
        let shares = [
            self.share("drop")?,
            self.share("truncate")?,
            self.share("corrupt")?,
            self.share("duplicate")?,
            self.share("reorder")?,
        ];
        let delay = self.delay()?;
        let is_some = delay.is_some() || shares.iter().any(Option::is_some);
        if !is_some {
            return Ok(None);
        }
        let [drop, truncate, corrupt, duplicate, reorder] = shares.map(Option::unwrap_or_default);
        let delayed = if delay.is_some() {
            self.share("delayed")?.unwrap_or(1.0)
        } else {
            0.0
        };
        Ok(Some(FaultPlan {
            seed: self.take("seed", "a whole number")?.unwrap_or(SEED),
            direction: self.take("faults", "received or sent")?.unwrap_or_default(),
            drop,
            truncate,
            corrupt,
            duplicate,
            reorder,
            delayed,
            delay: delay.unwrap_or_default(),
        }))
    }

    /// Refuses what nobody took.
    fn end(self) -> Result<(), SpecError> {
        let Some((option, value)) = self.given.first() else {
            return Ok(());
        };
        let without = |option, expected| SpecError::Value {
            option,
            value: (*value).to_owned(),
            expected,
        };
        let fault = "a fault as well, such as drop=1% or delay=5ms";
        Err(match *option {
            "delayed" => without("delayed", "the time as well, such as delay=5ms"),
            "faults" => without("faults", fault),
            "seed" => without("seed", fault),
            option => SpecError::Option {
                option: option.to_owned(),
                kind: self.kind,
                has: self.has,
            },
        })
    }
}

impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<LinkSpec, SpecError> {
        let unknown = || SpecError::Kind(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let mut parts = rest.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, first) = match first.split_once('=') {
            None => (first, None),
            Some(option) => ("", Some(option)),
        };
        let given = first
            .into_iter()
            .chain(parts.map(|part| part.split_once('=').unwrap_or((part, ""))))
            .collect();
        let (kind, has) = match kind {
            "xdp" => ("xdp", "queues, mode, hook, wakeup, "),
            "packet" => ("packet", "queues, fanout, "),
            "tap" => ("tap", "queues, "),
            "pcap" => ("pcap", "in, out, "),
            "ring" => ("ring", ""),
            _ => return Err(unknown()),
        };
        if name.is_empty() && kind != "pcap" {
            return Err(unknown());
        }
        let mut options = Options { kind, has, given };
        let kind = read_kind(kind, name, &mut options)?;
        if kind
            == (LinkKind::Capture {
                read: None,
                write: None,
            })
        {
            return Err(unknown());
        }
        let layout = options.layout()?;
        let capture = options.file("capture")?.map(PathBuf::from);
        let faults = options.faults()?;
        options.end()?;
        let spec = LinkSpec {
            kind,
            layout,
            capture,
            faults,
        };
        LinkSpec::check_captures(std::slice::from_ref(&spec))?;
        Ok(spec)
    }
}

impl LinkSpec {
    /// Refuses captures into files that one of these links, which are to be open together, uses otherwise, by whatever name.
    ///
    /// # Errors
    /// Names the first such file.
    pub fn check_captures(specs: &[LinkSpec]) -> Result<(), SpecError> {
        let mut used: Vec<&Path> = Vec::new();
        for spec in specs {
            if let LinkKind::Capture { read, write } = &spec.kind {
                used.extend([read, write].into_iter().flatten().map(PathBuf::as_path));
            }
        }
        for file in specs.iter().filter_map(|spec| spec.capture.as_deref()) {
            if used
                .iter()
                .any(|used| is_same_file(used, file) || is_numbered(used, file) || is_numbered(file, used))
            {
                return Err(SpecError::Value {
                    option: "capture",
                    value: file.display().to_string(),
                    expected: "a file that no link reads or writes already",
                });
            }
            used.push(file);
        }
        Ok(())
    }

    /// Whether a link of this kind, opened, writes over `file`.
    #[must_use]
    pub fn overwrites(&self, file: &Path) -> bool {
        let written = match &self.kind {
            LinkKind::Capture { write, .. } => write.as_deref(),
            _ => None,
        };
        let over = |written: &Path| is_same_file(written, file) || is_numbered(file, written);
        written.is_some_and(over) || self.capture.as_deref().is_some_and(over)
    }
}

fn read_kind(kind: &str, name: &str, options: &mut Options<'_>) -> Result<LinkKind, SpecError> {
    let device = name.to_owned();
    Ok(match kind {
        "xdp" => LinkKind::Xdp {
            device,
            queues: options.queues()?,
            mode: options
                .take("mode", "auto, copy or zerocopy")?
                .unwrap_or_default(),
            hook: options
                .take("hook", "auto, native or generic")?
                .unwrap_or_default(),
            need_wakeup: match options.text("wakeup") {
                None | Some("needed") => true,
                Some("always") => false,
                Some(other) => {
                    return Err(SpecError::Value {
                        option: "wakeup",
                        value: other.to_owned(),
                        expected: "needed or always",
                    });
                }
            },
        },
        "packet" => LinkKind::Packet {
            device,
            queues: options.queues()?.unwrap_or(1),
            fanout: options.take("fanout", "hash, cpu or queue")?.unwrap_or_default(),
        },
        "tap" => LinkKind::Tap {
            device,
            queues: options.queues()?.unwrap_or(1),
        },
        "ring" => LinkKind::Ring { name: device },
        _ => LinkKind::Capture {
            read: Some(name)
                .filter(|name| !name.is_empty())
                .or(options.file("in")?)
                .map(PathBuf::from),
            write: options.file("out")?.map(PathBuf::from),
        },
    })
}

impl fmt::Display for LinkSpec {
    /// The shortest text that names the same link; options that have their usual value are left out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            LinkKind::Xdp {
                device,
                queues,
                mode,
                hook,
                need_wakeup,
            } => {
                write!(formatter, "xdp:{device}")?;
                if let Some(queues) = queues {
                    write!(formatter, ",queues={queues}")?;
                }
                if *mode != XdpMode::Auto {
                    write!(formatter, ",mode={mode}")?;
                }
                if *hook != XdpHook::Auto {
                    write!(formatter, ",hook={hook}")?;
                }
                if !need_wakeup {
                    formatter.write_str(",wakeup=always")?;
                }
            }
            LinkKind::Packet {
                device,
                queues,
                fanout,
            } => {
                write!(formatter, "packet:{device}")?;
                if *queues != 1 {
                    write!(formatter, ",queues={queues}")?;
                }
                if *queues != 1 || *fanout != Fanout::default() {
                    write!(formatter, ",fanout={fanout}")?;
                }
            }
            LinkKind::Tap { device, queues } => {
                write!(formatter, "tap:{device}")?;
                if *queues != 1 {
                    write!(formatter, ",queues={queues}")?;
                }
            }
            LinkKind::Capture { read, write } => {
                // A name with a '=' in it would be read as an option.
                let read = read.as_ref().map(|path| match path.display().to_string() {
                    name if name.contains('=') => format!("in={name}"),
                    name => name,
                });
                let write = write.as_ref().map(|path| format!("out={}", path.display()));
                let parts: Vec<String> = read.into_iter().chain(write).collect();
                write!(formatter, "pcap:{}", parts.join(","))?;
            }
            LinkKind::Ring { name } => write!(formatter, "ring:{name}")?,
        }
        write_layout(self.layout, formatter)?;
        if let Some(file) = &self.capture {
            write!(formatter, ",capture={}", file.display())?;
        }
        self.faults
            .iter()
            .try_for_each(|plan| write_faults(plan, formatter))
    }
}

fn write_layout(layout: FrameLayout, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let usual = FrameLayout::default();
    for (option, value, usual) in [
        ("frames", layout.frames(), usual.frames()),
        ("stride", layout.stride(), usual.stride()),
        ("headroom", layout.headroom(), usual.headroom()),
    ] {
        if value != usual {
            write!(formatter, ",{option}={value}")?;
        }
    }
    Ok(())
}

fn write_faults(plan: &FaultPlan, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shares = [
        ("drop", plan.drop),
        ("truncate", plan.truncate),
        ("corrupt", plan.corrupt),
        ("duplicate", plan.duplicate),
        ("reorder", plan.reorder),
    ];
    let is_nothing = plan.delay.is_zero() && shares.iter().all(|(_, share)| *share == 0.0);
    for (option, share) in shares {
        if share != 0.0 || (is_nothing && option == "drop") {
            write!(formatter, ",{option}={share}")?;
        }
    }
    if !plan.delay.is_zero() {
        let (nanoseconds, units) = (plan.delay.as_nanos(), [("ms", 1_000_000), ("us", 1_000)]);
        let unit = units.into_iter().find(|(_, unit)| nanoseconds % unit == 0);
        let (unit, of) = unit.unwrap_or(("ns", 1));
        write!(formatter, ",delay={}{unit}", nanoseconds / of)?;
        if plan.delayed != 1.0 {
            write!(formatter, ",delayed={}", plan.delayed)?;
        }
    }
    if plan.direction != Direction::default() {
        write!(formatter, ",faults={}", plan.direction)?;
    }
    if plan.seed != SEED {
        write!(formatter, ",seed={}", plan.seed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_names_the_same_link_again() {
        for text in [
            "xdp:eth0",
            "xdp:eth0,queues=4,mode=copy,hook=generic,wakeup=always,stride=2048",
            "packet:eth1",
            "packet:eth1,queues=2,fanout=cpu,headroom=128",
            "packet:eth1,fanout=queue",
            "pcap:in=a=b.pcap,out=c=d.pcap",
            "tap:t0,queues=2",
            "pcap:in.pcap",
            "pcap:in.pcap,out=out.pcapng",
            "pcap:out=out.pcapng",
            "ring:left,frames=256",
            "ring:left,frames=256,capture=seen=b.pcapng,drop=0.01,seed=7",
            "tap:t0,truncate=0.001,corrupt=0.002,duplicate=0.003,reorder=0.004,delay=5ms,delayed=0.5",
            "tap:t0,delay=1500us,faults=sent",
            "tap:t0,drop=0",
        ] {
            let spec: LinkSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!(
            "pcap:in=a,out=b".parse::<LinkSpec>().unwrap().to_string(),
            "pcap:a,out=b"
        );
        assert_eq!(
            "tap:t0,seed=7,drop=1%,delay=0.01s"
                .parse::<LinkSpec>()
                .unwrap()
                .to_string(),
            "tap:t0,drop=0.01,delay=10ms,seed=7"
        );
    }

    #[test]
    fn a_wrong_specification_is_refused_by_what_is_wrong_in_it() {
        let refusal = |text: &str| text.parse::<LinkSpec>().unwrap_err().to_string();
        for text in ["eth0", "wifi:eth0", "xdp:", "pcap:", "tap:queues=2"] {
            assert!(
                refusal(text).contains("names no link"),
                "{text}: {}",
                refusal(text)
            );
        }
        assert!(refusal("tap:t0,mode=copy").contains("'mode' is no option of a tap link"));
        assert!(refusal("xdp:eth0,mode=fast").contains("give auto, copy or zerocopy"));
        assert!(refusal("packet:eth0,queues=0").contains("from 1 to 256"));
        assert!(refusal("pcap:a.pcap,out=").contains("'out=': give the name of a file"));
        assert!(refusal("tap:t0,stride=100").contains("a multiple of 64"));
        for (text, told) in [
            (
                "tap:t0,drop=2",
                "'drop=2': give a share of frames such as 1% or 0.01",
            ),
            ("tap:t0,reorder=", "'reorder=': give a share"),
            (
                "tap:t0,delay=5",
                "'delay=5': give a time above 0, 10s at most, such as 5ms",
            ),
            ("tap:t0,delay=11s", "10s at most"),
            ("tap:t0,delay=0ms", "a time above 0"),
            (
                "tap:t0,delayed=1%",
                "'delayed=1%': give the time as well, such as delay=5ms",
            ),
            ("tap:t0,seed=7", "'seed=7': give a fault as well, such as drop=1%"),
            ("tap:t0,faults=sent", "'faults=sent': give a fault as well"),
            (
                "tap:t0,drop=1%,faults=both",
                "'faults=both': give received or sent",
            ),
            ("tap:t0,drop=1%,seed=-1", "'seed=-1': give a whole number"),
            ("tap:t0,capture=", "'capture=': give the name of a file"),
            (
                "pcap:a,out=b,capture=b",
                "'capture=b': give a file that no link reads or writes already",
            ),
            (
                "pcap:a.1.pcap,capture=./a.pcap",
                "'capture=./a.pcap': give a file that no link reads or writes already",
            ),
            (
                "tap:t0,lose=1%",
                "'lose' is no option of a tap link, which has queues, frames,",
            ),
        ] {
            assert!(refusal(text).contains(told), "{text}: {}", refusal(text));
        }
    }
}
