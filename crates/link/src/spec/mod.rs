//! Links as text: `xdp:eth0`, `packet:eth1,queues=2,fanout=cpu`, `tap:t0`, `pcap:in.pcap,out=out.pcapng`, `ring:name`, each
//! optionally with `frames=`, `stride=` and `headroom=`, and with `capture=` and faults (`drop=1%,seed=7`) around it.

use crate::files::{is_numbered, is_same_file};
use crate::layout::{FrameLayout, LayoutError};
use crate::packet_socket::Fanout;
use crate::system::device;
use crate::wrapper::{FaultPlan, FrameDirection};
use crate::xdp::{XdpHook, XdpMode, XdpOptions};
use corelane_measure::quantity::{parse_duration, parse_share};
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
    /// `queues=2`: queues of an XDP or tap device, packet sockets, or rings. `None`: all of an XDP device, one of the others.
    pub queues: Option<usize>,
    /// `mode=copy`, `hook=generic`, `wakeup=always` (XDP).
    pub xdp: XdpOptions,
    /// `fanout=cpu`: how frames are distributed over packet sockets.
    pub fanout: Fanout,
    /// `in=FILE`, or the name alone: the capture file to read.
    pub read: Option<PathBuf>,
    /// `out=FILE`: the capture file to write.
    pub write: Option<PathBuf>,
    /// The layout of frames in its memory.
    pub layout: FrameLayout,
    /// `capture=FILE`: where all received and sent frames are written. The file of queue 1 of `seen.pcapng` is
    /// `seen.1.pcapng`, and so on.
    pub capture: Option<PathBuf>,
    /// `drop=1%` and the others: faults. Queue `q` uses the seed plus `q`.
    pub faults: Option<FaultPlan>,
    /// Whether it is opened [for merged frames](LinkSpec::for_merged).
    pub merged: bool,
}

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
    /// `ring:NAME`: [`crate::memory::shared`]; the rings of further queues are `NAME,1` and so on.
    Ring,
}

/// A kind, its name, and its options besides those of every kind, as messages list them.
type Kind = (LinkKind, &'static str, &'static str);

const KINDS: [Kind; 5] = [
    (LinkKind::Xdp, "xdp", "queues, mode, hook, wakeup, "),
    (LinkKind::Packet, "packet", "queues, fanout, "),
    (LinkKind::Tap, "tap", "queues, "),
    (LinkKind::Capture, "pcap", "in, out, "),
    (LinkKind::Ring, "ring", "queues, "),
];
/// The options of every kind of link.
const EVERY: &str = "frames, stride, headroom, capture, drop, truncate, corrupt, duplicate, reorder, delay, delayed, faults and seed";
/// The default seed.
const SEED: u64 = 1;
/// Bytes of the longest frame of merged segments: an Ethernet header with two tags, and an IP packet.
const LONGEST_MERGED: usize = 14 + 2 * 4 + 65_535;
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// Why a text is not a link specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// It names no link.
    #[error(
        "'{0}' names no link: write xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, pcap:out=FILE or ring:NAME"
    )]
    NoLink(String),
    /// A name that no device can have (`dev_valid_name` in `net/core/dev.c`).
    #[error("'{0}' is no name of a device: it has 1 to 15 bytes, none of them a blank, a slash or a colon")]
    Device(String),
    /// An option that links of this kind do not have.
    #[error("'{option}' is no option of a {kind} link, which has {options}{EVERY}")]
    Option {
        /// The option.
        option: String,
        /// The kind of link.
        kind: &'static str,
        /// The options of this kind besides those of every kind.
        options: &'static str,
    },
    /// An option's value.
    #[error("'{option}={value}': give {expected}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// What to give.
        expected: String,
    },
    /// The layout of frames.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Both ends of a ring.
    #[error("ring:{0} is given twice: its other end belongs to another process")]
    BothEnds(String),
    /// One device, by whatever name and kind.
    #[error("the device of {0} is given twice: each of its frames would be sent back to where it came from")]
    SameDevice(String),
    /// A link that does not take frames of merged segments.
    #[error("{link} does not take frames of merged segments: {why}")]
    Merged {
        /// The link.
        link: String,
        /// Why not.
        why: String,
    },
}

impl SpecError {
    fn value(option: &str, value: &str, expected: &str) -> SpecError {
        let [option, value, expected] = [option, value, expected].map(str::to_owned);
        SpecError::Value {
            option,
            value,
            expected,
        }
    }
}

/// The options of a specification, consumed one by one.
struct Options<'text> {
    kind: Kind,
    given: Vec<(&'text str, &'text str)>,
}

impl<'text> Options<'text> {
    /// Consumes and parses an option, if this kind of link has it.
    fn read<T>(
        &mut self,
        option: &str,
        expected: &str,
        read: impl FnOnce(&'text str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let all = [self.kind.2, EVERY].concat().replace(" and ", ", ");
        let place = self.given.iter().position(|(name, _)| *name == option);
        let Some(place) = place.filter(|_| all.split(", ").any(|has| has == option)) else {
            return Ok(None);
        };
        let value = self.given.remove(place).1;
        let wrong = || SpecError::value(option, value, expected);
        read(value).map(Some).ok_or_else(wrong)
    }

    fn parse<T: FromStr>(&mut self, option: &str, expected: &str) -> Result<Option<T>, SpecError> {
        self.read(option, expected, |value| value.parse().ok())
    }

    /// One of two or three named values; the first is the default.
    fn choose<T: Copy>(&mut self, option: &str, values: &[(&str, T)]) -> Result<T, SpecError> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("every option has values");
        let expected = format!("{} or {last}", others.join(", "));
        let of_name = |name| values.iter().find(|(known, _)| *known == name);
        let chosen = self.read(option, &expected, of_name)?;
        Ok(chosen.unwrap_or(&values[0]).1)
    }

    fn file(&mut self, option: &str) -> Result<Option<PathBuf>, SpecError> {
        let file = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
        self.read(option, "the name of a file", file)
    }

    fn xdp(&mut self) -> Result<XdpOptions, SpecError> {
        let modes = [
            ("auto", XdpMode::Auto),
            ("copy", XdpMode::Copy),
            ("zerocopy", XdpMode::ZeroCopy),
        ];
        let hooks = [
            ("auto", XdpHook::Auto),
            ("native", XdpHook::Native),
            ("generic", XdpHook::Generic),
        ];
        Ok(XdpOptions {
            mode: self.choose("mode", &modes)?,
            hook: self.choose("hook", &hooks)?,
            need_wakeup: self.choose("wakeup", &[("needed", true), ("always", false)])?,
        })
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

    fn share(&mut self, option: &str) -> Result<Option<f64>, SpecError> {
        let expected = "a share of frames such as 1% or 0.01";
        self.read(option, expected, |value| parse_share(value).ok())
    }

    fn faults(&mut self) -> Result<Option<FaultPlan>, SpecError> {
        let mut shares = [None; 5];
        let names = ["drop", "truncate", "corrupt", "duplicate", "reorder"];
        for (share, option) in shares.iter_mut().zip(names) {
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
        let directions = [
            ("received", FrameDirection::Received),
            ("sent", FrameDirection::Sent),
        ];
        let [drop, truncate, corrupt, duplicate, reorder] = shares.map(Option::unwrap_or_default);
        Ok(Some(FaultPlan {
            seed: self.parse("seed", "a whole number")?.unwrap_or(SEED),
            direction: self.choose("faults", &directions)?,
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
        let (_, kind, options) = self.kind;
        Err(match *option {
            "delayed" => SpecError::value(option, value, "the time as well, such as delay=5ms"),
            "faults" | "seed" => {
                SpecError::value(option, value, "a fault as well, such as drop=1% or delay=5ms")
            }
            _ => SpecError::Option {
                option: (*option).to_owned(),
                kind,
                options,
            },
        })
    }
}

impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<LinkSpec, SpecError> {
        let unknown = || SpecError::NoLink(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let kind = KINDS.into_iter().find(|(_, name, _)| *name == kind);
        let kind = kind.ok_or_else(unknown)?;
        let mut parts = rest.split(',').peekable();
        // Only a name has no '='.
        let name = parts.next_if(|first| !first.contains('=')).unwrap_or_default();
        let given = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        let mut options = Options {
            kind,
            given: given.collect(),
        };
        let (name, file) = match kind.0 {
            LinkKind::Capture => ("", name),
            _ => (name, ""),
        };
        let file = (!file.is_empty()).then(|| PathBuf::from(file));
        let queues = |value: &str| value.parse().ok().filter(|queues| (1..=256).contains(queues));
        let fanouts = [
            ("hash", Fanout::Hash),
            ("cpu", Fanout::Cpu),
            ("queue", Fanout::Queue),
        ];
        let spec = LinkSpec {
            kind: kind.0,
            name: name.to_owned(),
            queues: options.read("queues", "a number of queues from 1 to 256", queues)?,
            xdp: options.xdp()?,
            fanout: options.choose("fanout", &fanouts)?,
            read: file.or(options.file("in")?),
            write: options.file("out")?,
            layout: options.layout()?,
            capture: options.file("capture")?,
            faults: options.faults()?,
            merged: false,
        };
        if name.is_empty() && spec.read.is_none() && spec.write.is_none() {
            return Err(unknown());
        }
        options.end()?;
        let is_odd = |letter: char| letter.is_whitespace() || letter == '/' || letter == ':';
        if spec.is_device() && (name.len() >= libc::IFNAMSIZ || name.contains(is_odd)) {
            return Err(SpecError::Device(name.to_owned()));
        }
        LinkSpec::check_together(std::slice::from_ref(&spec))?;
        Ok(spec)
    }
}

impl LinkSpec {
    /// Rejects links that cannot be open together in one process: both ends of a ring, a device twice, under any name, and
    /// captures into files that one of the links uses otherwise.
    ///
    /// # Errors
    /// Names the first such ring, device or file.
    pub fn check_together(specs: &[LinkSpec]) -> Result<(), SpecError> {
        for (number, spec) in specs.iter().enumerate() {
            let is_other_end = |other: &LinkSpec| other.kind == spec.kind && other.name == spec.name;
            if spec.kind == LinkKind::Ring && specs[..number].iter().any(is_other_end) {
                return Err(SpecError::BothEnds(spec.name.clone()));
            }
            if spec.is_device() && specs[..number].iter().any(|other| spec.is_device_of(other)) {
                return Err(SpecError::SameDevice(spec.label()));
            }
        }
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

    /// The link, to be opened for frames of merged segments, which [`Link::send_merged`](crate::Link::send_merged) sends: up
    /// to 64 KiB.
    ///
    /// # Errors
    /// [`SpecError::Merged`] for AF_XDP, and for rings whose frames are shorter.
    pub fn for_merged(self) -> Result<LinkSpec, SpecError> {
        let why = match self.kind {
            LinkKind::Xdp => "AF_XDP sends frames up to the device's MTU".to_owned(),
            LinkKind::Ring if self.layout.longest() < LONGEST_MERGED => {
                let stride = (LONGEST_MERGED + self.layout.headroom()).next_multiple_of(64);
                format!("give it a stride of {stride} at least")
            }
            _ => {
                return Ok(LinkSpec { merged: true, ..self });
            }
        };
        let link = self.label();
        Err(SpecError::Merged { link, why })
    }

    /// Its kind and name, such as `xdp:eth0`.
    #[must_use]
    pub fn label(&self) -> String {
        let kind = KINDS.iter().find(|(kind, ..)| *kind == self.kind);
        format!("{}:{}", kind.map_or("", |(_, name, _)| name), self.name)
    }

    /// Whether it is a link to a network device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self.kind, LinkKind::Xdp | LinkKind::Packet | LinkKind::Tap)
    }

    /// Whether both are links of one device, which may have further names.
    fn is_device_of(&self, other: &LinkSpec) -> bool {
        let index = |link: &LinkSpec| device::index(&link.name).ok();
        other.is_device()
            && (self.name == other.name || index(self).is_some_and(|own| index(other) == Some(own)))
    }

    /// Whether a link of this kind, opened, writes over `file`.
    #[must_use]
    pub fn overwrites(&self, file: &Path) -> bool {
        let mut written = [&self.write, &self.capture].into_iter().flatten();
        written.any(|written| is_same_file(written, file) || is_numbered(file, written))
    }
}

#[cfg(test)]
mod tests;
