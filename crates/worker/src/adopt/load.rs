//! The load of each table entry of a group of another process, from a sample of the packets that reach it.
//!
//! In: the group, and its steering. Out: packets received per entry. The server is not involved: packet sockets in its
//! network namespace pass on a part of the headers, at random.

use super::{AdoptError, Adopted};
use crate::locality::{Direction, Observer, ObserverSettings};
use corelane_host::sockets::in_namespace_of;
use corelane_rss::balance::EntryLoads;
use corelane_rss::{Steerer, Steering, Tuple};
use std::io;

/// Packets per sample, on average.
const ONE_IN: u32 = 16;

/// Most samples taken from a socket at once, so that one look ends under any load.
const MOST_SAMPLES: usize = 65_536;

/// Samples the packets to a group on all devices of its namespace. The load of connections is their segments; what has
/// no segments, such as an idle connection, has no load.
#[derive(Debug)]
pub struct SampledLoads {
    observers: Vec<Observer>,
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
        let failed =
            |error: &dyn std::fmt::Display| AdoptError::NotFound(format!("the loads are unknown: {error}"));
        let opened = in_namespace_of(process, || Ok(Observer::of_group(&settings, group.families)));
        let observers = opened.map_err(|error| failed(&error))?;
        let steerer = steering.steerer();
        Ok(SampledLoads {
            observers: observers.map_err(|error| failed(&error))?,
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
    pub fn collect(&mut self) -> io::Result<()> {
        let (steerer, counted) = (&self.steerer, &mut self.loads);
        for observer in &mut self.observers {
            observer.drain(MOST_SAMPLES, |sighting| {
                if let Ok(tuple) = Tuple::new(sighting.source, sighting.destination) {
                    let entry = steerer.table().entry(steerer.hash_of(&tuple));
                    counted.loads[entry] += u64::from(ONE_IN);
                    counted.samples += 1;
                }
            })?;
        }
        Ok(())
    }

    /// The loads so far, in packets.
    #[must_use]
    pub fn loads(&self) -> EntryLoads {
        self.loads.clone()
    }
}
