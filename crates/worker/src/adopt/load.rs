//! The load of each table entry of a group of another process, from a sample of the packets that reach it.
//!
//! In: the group, and its steering. Out: packets received per entry. The server is not involved: packet sockets in its
//! network namespace pass on headers: all at low rates, otherwise a part, at random.

use super::{AdoptError, Adopted};
use crate::Time;
use crate::locality::{Direction, GroupObserver, ObserverSettings};
use crate::watch::WatchError;
use corelane_host::sockets::in_namespace_of;
use corelane_rss::balance::EntryLoads;
use corelane_rss::{Steerer, Steering, Tuple};

/// Packets per sample at first.
const ONE_IN: u32 = 16;

/// Samples the packets to a group on all devices of its namespace. The load of connections is their segments; what has
/// no segments, such as an idle connection, has no load.
#[derive(Debug)]
pub struct SampledLoads {
    observer: GroupObserver,
    steerer: Steerer,
    loads: EntryLoads,
}

impl SampledLoads {
    /// Starts sampling what a process's group receives.
    ///
    /// # Errors
    /// [`AdoptError::NotFound`] with the reason: packet sockets need CAP_NET_RAW in the namespace of the server.
    pub fn new(group: &Adopted, process: u32, steering: &Steering) -> Result<SampledLoads, AdoptError> {
        let settings = ObserverSettings {
            device: None,
            transport: group.transport,
            direction: Direction::Received,
            address: group.address,
            one_in: ONE_IN,
        };
        let failed = |error: &dyn std::fmt::Display| AdoptError::Loads(error.to_string());
        let opened = in_namespace_of(process, || Ok(GroupObserver::new(&settings, group.families)));
        let observer = opened.map_err(|error| failed(&error))?;
        let steerer = steering.steerer();
        Ok(SampledLoads {
            observer: observer.map_err(|error| failed(&error))?,
            loads: EntryLoads {
                loads: vec![0; steerer.table().size()],
                samples: 0,
            },
            steerer,
        })
    }

    /// Processes the samples since the last call; call it often, or samples are lost.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn collect(&mut self, now: Time) -> Result<(), WatchError> {
        let (steerer, counted) = (&self.steerer, &mut self.loads);
        self.observer.drain(now, |sighting, packets| {
            if let Ok(tuple) = Tuple::new(sighting.source, sighting.destination) {
                let entry = steerer.table().entry(steerer.hash_of(&tuple));
                counted.loads[entry] += u64::from(packets);
                counted.samples += 1;
            }
        })
    }

    /// The loads so far, in packets.
    #[must_use]
    pub fn loads(&self) -> EntryLoads {
        self.loads.clone()
    }
}
