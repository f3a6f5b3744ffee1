//! Opens links from specifications, with their wrappers, and reopens them after they were lost.

use crate::any::{AnyLink, BareLink};
use crate::capture::{CaptureLink, CaptureWriter};
use crate::error::LinkError;
use crate::files::file_of;
use crate::memory;
use crate::packet_socket::{self, PacketOptions};
use crate::spec::{LinkKind, LinkSpec};
use crate::tap;
use crate::wrapper::{Around, FaultPlan, Injected, Shared, Wrapped, lock};
use crate::xdp;
use corelane_measure::counters::Counters;
use std::time::Instant;

/// Opens one link, also repeatedly: faults and captures continue where they were when the link was lost. Clones open
/// the same link.
#[derive(Clone, Debug)]
pub struct Opener {
    spec: LinkSpec,
    /// The wrapper state of each queue that was ever open.
    around: Shared<Vec<Around>>,
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

    /// Opens the link: one per queue, in the calling thread's network namespace. Drop the previously opened links
    /// first. Devices accept frames for any address while they are open.
    ///
    /// # Errors
    /// The errors of each kind's own functions, and if the capture file cannot be created.
    pub fn open(&self) -> Result<Vec<AnyLink>, LinkError> {
        let queues = open_bare(&self.spec)?;
        let mut around = lock(&self.around);
        for queue in around.len()..queues.len() {
            around.push(around_queue(&self.spec, queue)?);
        }
        let wrapped = queues.into_iter().zip(around.iter());
        Ok(wrapped
            .map(|(link, around)| Wrapped::of(link, around.clone(), Instant::now as fn() -> Instant))
            .collect())
    }

    /// The fault counters of all queues since the link was first opened; `None` without faults.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        self.spec.faults?;
        Some(Counters::sum(
            lock(&self.around).iter().filter_map(Around::injected),
        ))
    }
}

/// The faults and the capture of one queue, as planned.
fn around_queue(spec: &LinkSpec, queue: usize) -> Result<Around, LinkError> {
    let capture = spec.capture.as_deref().map(|path| file_of(path, queue));
    let writer = capture.map(|path| CaptureWriter::create(&path)).transpose()?;
    let plan = spec.faults.map(|plan| FaultPlan {
        seed: plan.seed.wrapping_add(queue as u64),
        ..plan
    });
    Ok(Around::new(plan, writer))
}

/// Opens the inner links: one per queue.
fn open_bare(spec: &LinkSpec) -> Result<Vec<BareLink>, LinkError> {
    let (device, layout) = (&spec.name, spec.layout);
    let queues = spec.queues.unwrap_or(1);
    Ok(match spec.kind {
        LinkKind::Xdp => bare(xdp::open(device, spec.queues, layout, spec.xdp)?, |link| {
            BareLink::Xdp(Box::new(link))
        }),
        LinkKind::Packet => {
            let options = PacketOptions {
                queues,
                fanout: spec.fanout,
                layout,
                promiscuous: true,
                merged: spec.merged,
            };
            bare(packet_socket::open(device, &options)?, BareLink::Packet)
        }
        LinkKind::Tap => bare(tap::open(device, queues, layout, spec.merged)?, BareLink::Tap),
        LinkKind::Capture => {
            let link = CaptureLink::open(spec.read.as_deref(), spec.write.as_deref(), layout)?;
            vec![BareLink::Capture(Box::new(link))]
        }
        LinkKind::Ring => {
            let further = (1..queues).map(|queue| format!("{device},{queue}"));
            let names = std::iter::once(device.clone()).chain(further);
            let rings: Result<Vec<_>, _> = names.map(|name| memory::shared(&name, layout)).collect();
            bare(rings?, BareLink::Memory)
        }
    })
}

fn bare<L>(links: Vec<L>, kind: impl Fn(L) -> BareLink) -> Vec<BareLink> {
    links.into_iter().map(kind).collect()
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
                let around = around_queue(&spec, queue).unwrap();
                let (link, mut far) = memory::pair(spec.layout).unwrap();
                let mut link = Wrapped::of(link, around, Instant::now);
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
