//! Links as people write them: `xdp:eth0`, `packet:eth1,queues=2,fanout=cpu`, `tap:t0`, `pcap:in.pcap,out=out.pcapng`,
//! `ring:name`, each with `frames=`, `stride=` and `headroom=` where wanted, and with `capture=` and faults (`drop=1%,seed=7`)
//! around it.

use crate::choice::Choice;
use crate::files::{is_numbered, is_same_file};
use crate::layout::{FrameLayout, LayoutError};
use crate::packet_socket::Fanout;
use crate::wrapper::FaultPlan;
use crate::xdp::{XdpHook, XdpMode};
use corelane_measure::quantity::{parse_duration, parse_share};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The link to open, and its options. Options that a kind does not have keep their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Its kind.
    pub kind: LinkKind,
    /// The device, or the name that both processes give a ring; empty for capture files.
    pub name: String,
    /// `queues=2`: queues of an XDP or tap device, or packet sockets. None: as many as an XDP device has, one of the others.
    pub queues: Option<usize>,
    /// `mode=copy`: who copies (XDP).
    pub mode: XdpMode,
    /// `hook=generic`: where the program runs (XDP).
    pub hook: XdpHook,
    /// `wakeup=needed` or `wakeup=always`: whether the kernel is woken only when it asks (XDP).
    pub need_wakeup: bool,
    /// `fanout=cpu`: how frames are distributed over packet sockets.
    pub fanout: Fanout,
    /// `in=FILE`, or the name alone: the capture file to read.
    pub read: Option<PathBuf>,
    /// `out=FILE`: the capture file to write.
    pub write: Option<PathBuf>,
    /// How frames lie in its memory.
    pub layout: FrameLayout,
    /// `capture=FILE`: where all that the link receives and sends is written. The file of queue 1 of `seen.pcapng` is
    /// `seen.1.pcapng`, and so on.
    pub capture: Option<PathBuf>,
    /// `drop=1%` and the others: faults. Queue `q` uses the seed plus `q`.
    pub faults: Option<FaultPlan>,
}

/// The options of every kind of link.
const EVERY: &str = "frames, stride, headroom, capture, drop, truncate, corrupt, duplicate, reorder, delay, delayed, faults and seed";
/// The seed where none is given.
const SEED: u64 = 1;
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// The kinds of links that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `xdp:DEVICE`: [`crate::xdp`].
    Xdp,
    /// `packet:DEVICE`: [`crate::packet_socket`].
    Packet,
    /// `tap:DEVICE`: [`crate::tap`].
    Tap,
    /// `pcap:FILE,out=FILE`: [`crate::capture`].
    Capture,
    /// `ring:NAME`: [`crate::memory::shared`].
    Ring,
}

impl Choice for LinkKind {
    const NAMES: &'static [(LinkKind, &'static str)] = &[
        (LinkKind::Xdp, "xdp"),
        (LinkKind::Packet, "packet"),
        (LinkKind::Tap, "tap"),
        (LinkKind::Capture, "pcap"),
        (LinkKind::Ring, "ring"),
    ];
}

impl LinkKind {
    /// The options that it has beside those of every kind, as messages list them.
    fn options(self) -> &'static str {
        match self {
            LinkKind::Xdp => "queues, mode, hook, wakeup, ",
            LinkKind::Packet => "queues, fanout, ",
            LinkKind::Tap => "queues, ",
            LinkKind::Capture => "in, out, ",
            LinkKind::Ring => "",
        }
    }
}

/// Why a text is not a link specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SpecError {
    #[error(
        "'{0}' names no link: write xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, pcap:out=FILE or ring:NAME"
    )]
    Kind(String),
    #[error("'{option}' is no option of a {} link, which has {}{EVERY}", kind.name(), kind.options(), EVERY = EVERY)]
    Option { option: String, kind: LinkKind },
    #[error("'{option}={value}': give {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: String,
    },
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl SpecError {
    fn value(option: &'static str, value: &str, expected: impl Into<String>) -> SpecError {
        SpecError::Value {
            option,
            value: value.to_owned(),
            expected: expected.into(),
        }
    }
}

/// The options of a specification, consumed one by one.
struct Options<'text> {
    kind: LinkKind,
    given: Vec<(&'text str, &'text str)>,
}

impl<'text> Options<'text> {
    /// Takes and reads an option, if this kind of link has it.
    fn read<T>(
        &mut self,
        option: &'static str,
        expected: &str,
        read: impl FnOnce(&'text str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let all = [self.kind.options(), EVERY].concat().replace(" and ", ", ");
        let place = self.given.iter().position(|(name, _)| *name == option);
        let Some(place) = place.filter(|_| all.split(", ").any(|has| has == option)) else {
            return Ok(None);
        };
        let value = self.given.remove(place).1;
        let wrong = || SpecError::value(option, value, expected);
        read(value).map(Some).ok_or_else(wrong)
    }

    fn parse<T: FromStr>(&mut self, option: &'static str, expected: &str) -> Result<Option<T>, SpecError> {
        self.read(option, expected, |value| value.parse().ok())
    }

    fn choose<T: Choice + Default>(&mut self, option: &'static str) -> Result<T, SpecError> {
        Ok(self.read(option, &T::names(), T::of_name)?.unwrap_or_default())
    }

    fn file(&mut self, option: &'static str) -> Result<Option<PathBuf>, SpecError> {
        let file = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
        self.read(option, "the name of a file", file)
    }

    fn queues(&mut self) -> Result<Option<usize>, SpecError> {
        let expected = "a number of queues from 1 to 256";
        let number = |value: &str| value.parse().ok().filter(|queues| (1..=256).contains(queues));
        let queues = self.read("queues", expected, number)?;
        // All but XDP devices have one where nothing is said.
        Ok(queues.filter(|queues| self.kind == LinkKind::Xdp || *queues != 1))
    }

    fn layout(&mut self) -> Result<FrameLayout, SpecError> {
        let usual = FrameLayout::default();
        let frames = self.parse("frames", "a power of two")?;
        let stride = self.parse("stride", "a multiple of 64")?;
        let headroom = self.parse("headroom", "a number of bytes")?;
        Ok(FrameLayout::new(
            frames.unwrap_or(usual.frames()),
            stride.unwrap_or(usual.stride()),
            headroom.unwrap_or(usual.headroom()),
        )?)
    }

    fn share(&mut self, option: &'static str) -> Result<Option<f64>, SpecError> {
        let expected = "a share of frames such as 1% or 0.01";
        self.read(option, expected, |value| parse_share(value).ok())
    }

    fn faults(&mut self) -> Result<Option<FaultPlan>, SpecError> {
        let mut shares = [None; 5];
        for (share, option) in shares.iter_mut().zip(SHARES) {
            *share = self.share(option)?;
        }
        let expected = "a time above 0, 10s at most, such as 5ms";
        let delay = self.read("delay", expected, |value| {
            let delay = parse_duration(value).ok()?;
            (!delay.is_zero() && delay <= LONGEST_DELAY).then_some(delay)
        })?;
        if delay.is_none() && shares.iter().all(Option::is_none) {
            return Ok(None);
        }
        let delayed = match delay {
            Some(_) => self.share("delayed")?.unwrap_or(1.0),
            None => 0.0,
        };
        let [drop, truncate, corrupt, duplicate, reorder] = shares.map(Option::unwrap_or_default);
        Ok(Some(FaultPlan {
            seed: self.parse("seed", "a whole number")?.unwrap_or(SEED),
            direction: self.choose("faults")?,
            drop,
            truncate,
            corrupt,
            duplicate,
            reorder,
            delayed,
            delay: delay.unwrap_or_default(),
        }))
    }

    /// Rejects options that were not consumed.
    fn end(self) -> Result<(), SpecError> {
        let Some((option, value)) = self.given.first() else {
            return Ok(());
        };
        let fault = "a fault as well, such as drop=1% or delay=5ms";
        Err(match *option {
            "delayed" => SpecError::value("delayed", value, "the time as well, such as delay=5ms"),
            "faults" => SpecError::value("faults", value, fault),
            "seed" => SpecError::value("seed", value, fault),
            option => SpecError::Option {
                option: option.to_owned(),
                kind: self.kind,
            },
        })
    }
}

/// The faults of a plan that are shares of frames, in drawing order.
const SHARES: [&str; 5] = ["drop", "truncate", "corrupt", "duplicate", "reorder"];

impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<LinkSpec, SpecError> {
        let unknown = || SpecError::Kind(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let kind = LinkKind::of_name(kind).ok_or_else(unknown)?;
        let (first, others) = rest
            .split_once(',')
            .map_or((rest, None), |(first, others)| (first, Some(others)));
        // Only a name has no '='.
        let name = if first.contains('=') { "" } else { first };
        let given = Some(first).filter(|first| first.contains('='));
        let given = given
            .into_iter()
            .chain(others.into_iter().flat_map(|others| others.split(',')));
        let given = given
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        let mut options = Options { kind, given };
        let is_capture = kind == LinkKind::Capture;
        let file = Some(PathBuf::from(name)).filter(|_| is_capture && !name.is_empty());
        let spec = LinkSpec {
            kind,
            name: if is_capture {
                String::new()
            } else {
                name.to_owned()
            },
            queues: options.queues()?,
            mode: options.choose("mode")?,
            hook: options.choose("hook")?,
            need_wakeup: (options.read("wakeup", "needed or always", |value| match value {
                "needed" => Some(true),
                "always" => Some(false),
                _ => None,
            }))?
            .unwrap_or(true),
            fanout: options.choose("fanout")?,
            read: file.or(options.file("in")?),
            write: options.file("out")?,
            layout: options.layout()?,
            capture: options.file("capture")?,
            faults: options.faults()?,
        };
        let is_named = match is_capture {
            true => spec.read.is_some() || spec.write.is_some(),
            false => !name.is_empty(),
        };
        if !is_named {
            return Err(unknown());
        }
        options.end()?;
        LinkSpec::check_captures(std::slice::from_ref(&spec))?;
        Ok(spec)
    }
}

impl LinkSpec {
    /// Rejects captures into files that one of these links, which are to be open together, uses otherwise, under any
    /// name.
    ///
    /// # Errors
    /// Names the first such file.
    pub fn check_captures(specs: &[LinkSpec]) -> Result<(), SpecError> {
        let files = specs.iter().flat_map(|spec| [&spec.read, &spec.write]);
        let mut used: Vec<&Path> = files.flatten().map(PathBuf::as_path).collect();
        for file in specs.iter().filter_map(|spec| spec.capture.as_deref()) {
            let is_of =
                |used: &&Path| is_same_file(used, file) || is_numbered(used, file) || is_numbered(file, used);
            if used.iter().any(is_of) {
                let shown = file.display().to_string();
                let expected = "a file that no link reads or writes already";
                return Err(SpecError::value("capture", &shown, expected));
            }
            used.push(file);
        }
        Ok(())
    }

    /// Whether a link of this kind, opened, writes over `file`.
    #[must_use]
    pub fn overwrites(&self, file: &Path) -> bool {
        let mut written = [&self.write, &self.capture].into_iter().flatten();
        written.any(|written| is_same_file(written, file) || is_numbered(file, written))
    }
}

impl fmt::Display for LinkSpec {
    /// The shortest text for the same link; options with default values are omitted.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name with a '=' in it would be read as an option.
        let file = self.read.as_ref().map(|file| file.display().to_string());
        let (file, option) = match file {
            Some(file) if file.contains('=') => (None, Some(file)),
            file => (file, None),
        };
        let usual = FrameLayout::default();
        let is_shared = self.queues.is_some() && self.kind == LinkKind::Packet;
        let fanout = Some(self.fanout.name().to_owned()).filter(|_| is_shared);
        let mut options = vec![
            ("queues", self.queues.map(|queues| queues.to_string())),
            ("mode", unusual_choice(self.mode)),
            ("hook", unusual_choice(self.hook)),
            ("wakeup", (!self.need_wakeup).then(|| "always".to_owned())),
            ("fanout", fanout.or(unusual_choice(self.fanout))),
            ("in", option),
            ("out", self.write.as_ref().map(|file| file.display().to_string())),
            ("frames", unusual(self.layout.frames(), usual.frames())),
            ("stride", unusual(self.layout.stride(), usual.stride())),
            ("headroom", unusual(self.layout.headroom(), usual.headroom())),
            (
                "capture",
                self.capture.as_ref().map(|file| file.display().to_string()),
            ),
        ];
        options.extend(self.faults.iter().flat_map(shown_faults));
        let options = options
            .into_iter()
            .filter_map(|(option, value)| Some(format!("{option}={}", value?)));
        let name = Some(self.name.clone()).filter(|name| !name.is_empty());
        let parts: Vec<String> = name.or(file).into_iter().chain(options).collect();
        write!(formatter, "{}:{}", self.kind.name(), parts.join(","))
    }
}

/// The text of a value that is not the usual one.
fn unusual<T: PartialEq + fmt::Display>(value: T, usual: T) -> Option<String> {
    (value != usual).then(|| value.to_string())
}

fn unusual_choice<T: Choice + Default>(value: T) -> Option<String> {
    unusual(value.name(), T::default().name())
}

fn shown_faults(plan: &FaultPlan) -> Vec<(&'static str, Option<String>)> {
    let shares = [
        plan.drop,
        plan.truncate,
        plan.corrupt,
        plan.duplicate,
        plan.reorder,
    ];
    let is_nothing = plan.delay.is_zero() && shares.iter().all(|share| *share == 0.0);
    let mut shown: Vec<(&str, Option<String>)> = SHARES
        .into_iter()
        .zip(shares.map(|share| unusual(share, 0.0)))
        .collect();
    if is_nothing {
        shown[0].1 = Some("0".to_owned());
    }
    let (nanoseconds, units) = (plan.delay.as_nanos(), [("ms", 1_000_000), ("us", 1_000)]);
    let unit = units.into_iter().find(|(_, unit)| nanoseconds % unit == 0);
    let (unit, of) = unit.unwrap_or(("ns", 1));
    let is_delayed = !plan.delay.is_zero();
    shown.extend([
        ("delay", is_delayed.then(|| format!("{}{unit}", nanoseconds / of))),
        ("delayed", unusual(plan.delayed, 1.0).filter(|_| is_delayed)),
        ("faults", unusual_choice(plan.direction)),
        ("seed", unusual(plan.seed, SEED)),
    ]);
    shown
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
