//! The load of each table entry of a group of another process, from a sample of the packets that reach it.
//!
//! In: the group, and its steering. Out: packets received per entry. The server is not involved: packet sockets in its
//! network namespace pass on headers: all at low rates, otherwise a part, at random.

use super::{AdoptError, Adopted};
use crate::locality::{Direction, Observer, ObserverSettings};
use crate::watch::WatchError;
use corelane_host::sockets::in_namespace_of;
use corelane_rss::balance::EntryLoads;
use corelane_rss::{Steerer, Steering, Tuple};
use std::io;
use std::time::{Duration, Instant};

/// Packets per sample at first, and at most.
const ONE_IN: u32 = 16;
const MOST_ONE_IN: u32 = 1 << 12;

/// Samples per second below which more packets are sampled, down to all of them, and above which fewer are: enough for
/// an average over seconds, and little work.
const FEW_PER_S: f64 = 5_000.0;
const MANY_PER_S: f64 = 20_000.0;

/// The shortest time over which samples are counted before the rate of sampling changes.
const PERIOD: Duration = Duration::from_millis(20);

/// Most samples taken from a socket at once, so that one look ends under any load.
const MOST_SAMPLES: usize = 65_536;

/// Samples the packets to a group on all devices of its namespace. The load of connections is their segments; what has
/// no segments, such as an idle connection, has no load.
#[derive(Debug)]
pub struct SampledLoads {
    observers: Vec<Observer>,
    steerer: Steerer,
    loads: EntryLoads,
    /// Packets per sample, on average.
    one_in: u32,
    /// Start of the period, and the samples before it.
    since: Instant,
    before: u64,
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
            one_in: ONE_IN,
            since: Instant::now(),
            before: 0,
        })
    }

    /// Processes the samples since the last call; call it often, or samples are lost.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn collect(&mut self, now: Instant) -> Result<(), WatchError> {
        self.take_samples().map_err(|source| WatchError::System {
            what: "read the samples",
            source,
        })?;
        let passed = now.saturating_duration_since(self.since);
        if passed < PERIOD {
            return Ok(());
        }
        let per_s = (self.loads.samples - self.before) as f64 / passed.as_secs_f64();
        (self.since, self.before) = (now, self.loads.samples);
        let one_in = match per_s {
            ..FEW_PER_S => (self.one_in / 2).max(1),
            MANY_PER_S.. => (self.one_in * 2).min(MOST_ONE_IN),
            _ => self.one_in,
        };
        if one_in == self.one_in {
            return Ok(());
        }
        self.one_in = one_in;
        self.observers
            .iter_mut()
            .try_for_each(|observer| observer.sample(one_in))
    }

    fn take_samples(&mut self) -> io::Result<()> {
        let (steerer, counted, one_in) = (&self.steerer, &mut self.loads, self.one_in);
        for observer in &mut self.observers {
            observer.drain(MOST_SAMPLES, |sighting| {
                if let Ok(tuple) = Tuple::new(sighting.source, sighting.destination) {
                    let entry = steerer.table().entry(steerer.hash_of(&tuple));
                    counted.loads[entry] += u64::from(one_in);
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
