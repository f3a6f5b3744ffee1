//! Opens links as they are specified, with what is to stand around them, and again after they were lost.

use crate::any::{AnyLink, BareLink};
use crate::capture::{CaptureLink, CaptureWriter};
use crate::error::LinkError;
use crate::files::file_of;
use crate::memory;
use crate::packet_socket::{self, PacketOptions};
use crate::spec::{LinkKind, LinkSpec};
use crate::tap;
use crate::wrapper::{Captured, FaultPlan, Faults, Faulty, Injected, Shared, lock};
use crate::xdp::{self, XdpOptions};

/// Opens one link, once or again: faults and captures around it go on where they were when it was lost. Clones open the same.
#[derive(Clone, Debug)]
pub struct Opener {
    spec: LinkSpec,
    /// What stands around each queue that was ever open.
    around: Shared<Vec<Around>>,
}

/// What stands around one queue.
#[derive(Debug)]
struct Around {
    capture: Option<Shared<CaptureWriter>>,
    faults: Option<Shared<Faults>>,
}

/// Opens a link: one for each of its queues, in the calling thread's network namespace. Devices accept frames for any
/// address while they are open.
///
/// # Errors
/// As the kinds' own functions say, and where the file of a capture cannot be made.
pub fn open(spec: &LinkSpec) -> Result<Vec<AnyLink>, LinkError> {
    Opener::new(spec.clone()).open()
}

impl Opener {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(spec: LinkSpec) -> Opener {
        Opener {
            spec,
            around: Shared::default(),
        }
    }

    /// Opens the link as [`open`] does. What it gave before has to be dropped first.
    ///
    /// # Errors
    /// As those of [`open`].
    pub fn open(&self) -> Result<Vec<AnyLink>, LinkError> {
        let queues = open_bare(&self.spec)?;
        let mut around = lock(&self.around);
        for queue in around.len()..queues.len() {
            around.push(Around::of(&self.spec, queue)?);
        }
        let wrapped = queues.into_iter().zip(around.iter());
        Ok(wrapped.map(|(link, around)| around.wrap(link)).collect())
    }

    /// What befell the frames of all queues since the link was opened first; none where no faults are asked for.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        self.spec.faults?;
        let mut sum = Injected::default();
        for faults in lock(&self.around)
            .iter()
            .filter_map(|around| around.faults.as_ref())
        {
            sum += lock(faults).injected();
        }
        Some(sum)
    }
}

impl Around {
    fn of(spec: &LinkSpec, queue: usize) -> Result<Around, LinkError> {
        let writer = spec
            .capture
            .as_deref()
            .map(|path| CaptureWriter::create(&file_of(path, queue)))
            .transpose()?;
        let plan = spec.faults.map(|plan| FaultPlan {
            seed: plan.seed.wrapping_add(queue as u64),
            ..plan
        });
        Ok(Around {
            capture: writer.map(|writer| Shared::new(writer.into())),
            faults: plan.map(|plan| Shared::new(Faults::new(plan).into())),
        })
    }

    /// The capture stands inside the faults, so that it has what the link itself had.
    fn wrap(&self, link: BareLink) -> AnyLink {
        let mut link = AnyLink::Bare(link);
        if let Some(writer) = &self.capture {
            link = AnyLink::Captured(Box::new(Captured::resume(link, Shared::clone(writer))));
        }
        if let Some(faults) = &self.faults {
            link = AnyLink::Faulty(Box::new(Faulty::resume(link, Shared::clone(faults))));
        }
        link
    }
}

/// Opens what is inside: one for each queue.
fn open_bare(spec: &LinkSpec) -> Result<Vec<BareLink>, LinkError> {
    let layout = spec.layout;
    match &spec.kind {
        LinkKind::Xdp {
            device,
            queues,
            mode,
            hook,
            need_wakeup,
        } => {
            let options = XdpOptions {
                queues: *queues,
                mode: *mode,
                hook: *hook,
                need_wakeup: *need_wakeup,
                layout,
                promiscuous: true,
            };
            Ok(xdp::open(device, &options)?
                .into_iter()
                .map(|link| BareLink::Xdp(Box::new(link)))
                .collect())
        }
        LinkKind::Packet {
            device,
            queues,
            fanout,
        } => {
            let options = PacketOptions {
                queues: *queues,
                fanout: *fanout,
                layout,
                promiscuous: true,
            };
            Ok(packet_socket::open(device, &options)?
                .into_iter()
                .map(BareLink::Packet)
                .collect())
        }
        LinkKind::Tap { device, queues } => Ok(tap::open(device, *queues, layout)?
            .into_iter()
            .map(BareLink::Tap)
            .collect()),
        LinkKind::Capture { read, write } => {
            let link = CaptureLink::open(read.as_deref(), write.as_deref(), layout)?;
            Ok(vec![BareLink::Capture(Box::new(link))])
        }
        LinkKind::Ring { name } => Ok(vec![BareLink::Memory(memory::shared(name, layout)?)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use std::collections::BTreeSet;

    #[test]
    fn each_queue_has_draws_of_its_own() {
        let spec: LinkSpec = "tap:t0,drop=50%,seed=7".parse().unwrap();
        let patterns: BTreeSet<Vec<bool>> = (0..4)
            .map(|queue| {
                let around = Around::of(&spec, queue).unwrap();
                let (link, mut far) = memory::pair(spec.layout).unwrap();
                let mut link = around.wrap(BareLink::Memory(link));
                let dropped = |_| {
                    far.send([&[0; 60][..]].into_iter()).unwrap();
                    link.receive(1).unwrap().is_empty()
                };
                (0..64).map(dropped).collect()
            })
            .collect();
        assert_eq!(patterns.len(), 4);
    }

    #[test]
    fn a_link_opened_again_goes_on_with_its_draws_counts_and_capture() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut writer = CaptureWriter::create(&path("in.pcap")).unwrap();
        for number in 0..100 {
            writer.write(1, 60, &[number; 60]).unwrap();
        }
        drop(writer);
        let (read, seen) = (path("in.pcap"), path("seen.pcapng"));
        let text = format!("pcap:{},capture={},drop=50%", read.display(), seen.display());
        let opener = Opener::new(text.parse().unwrap());
        let mut passes = Vec::new();
        for _ in 0..2 {
            let mut link = opener.open().unwrap().remove(0);
            let mut came = Vec::new();
            while !link.is_ended() {
                came.extend(link.receive(16).unwrap().iter().map(|frame| frame[0]));
            }
            passes.push(came);
        }
        assert_ne!(passes[0], passes[1], "the same draws again");
        let came = passes.concat().len() as u64;
        assert_eq!(opener.injected().unwrap().dropped, 200 - came);
        drop(opener);
        let mut captured = CaptureLink::open(Some(&seen), None, Default::default()).unwrap();
        let bytes: Vec<u8> = captured
            .receive(1024)
            .unwrap()
            .iter()
            .map(|frame| frame[0])
            .collect();
        assert_eq!(bytes, (0..100).chain(0..100).collect::<Vec<u8>>());
    }
}
