//! The buckets that the packets of a flow reach, in both directions.

use crate::steering::{Steerer, Steering};
use crate::table::Bucket;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The buckets of a flow; `None` where the direction does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Landing {
    /// At the server: the bucket of packets from the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Bucket>,
    /// At the client: the bucket of packets from the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Bucket>,
}

impl Landing {
    /// Whether neither direction matters.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Landing::default()
    }
}

impl fmt::Display for Landing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.forward, self.reply) {
            (None, None) => formatter.write_str("any"),
            (Some(forward), None) => forward.fmt(formatter),
            (None, Some(reply)) => write!(formatter, "{reply} (replies)"),
            (Some(forward), Some(reply)) => write!(formatter, "{forward} and {reply} (replies)"),
        }
    }
}

/// Compiled steerings of both ends of flows.
#[derive(Clone, Debug)]
pub struct Landings {
    forward: Option<Steerer>,
    reply: Option<Steerer>,
}

impl Landings {
    /// The landings at a server and at a client with these steerings; `None` where the direction does not matter.
    #[must_use]
    pub fn new(forward: Option<&Steering>, reply: Option<&Steering>) -> Landings {
        Landings {
            forward: forward.map(Steering::steerer),
            reply: reply.map(Steering::steerer),
        }
    }

    /// The landing of the flow whose client sends packets of this tuple.
    #[must_use]
    pub fn of(&self, tuple: &Tuple) -> Landing {
        let (forward, reply) = (self.forward.as_ref(), self.reply.as_ref());
        Landing {
            forward: forward.map(|steerer| steerer.bucket_of(tuple)),
            reply: reply.map(|steerer| steerer.bucket_of(&tuple.reversed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::toeplitz;
    use crate::{HashFields, IndirectionTable, Key};

    #[test]
    fn each_direction_is_hashed_as_its_own_packets_are() {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 4).unwrap(),
            cpus: vec![0; 4],
            generation: 0,
        };
        for (client, server) in [("10.0.0.2", "10.0.0.1:80"), ("fd00::2", "[fd00::1]:80")] {
            for port in 1024..1100 {
                let client = std::net::SocketAddr::new(client.parse().unwrap(), port);
                let tuple = Tuple::new(client, server.parse().unwrap()).unwrap();
                let bucket = |tuple: Tuple| {
                    let input = tuple.input(HashFields::FourTuple);
                    Some(steering.table.bucket(toeplitz(&steering.key, input.as_bytes())))
                };
                let (forward, reply) = (bucket(tuple), bucket(tuple.reversed()));
                let landed = |forward, reply| Landings::new(forward, reply).of(&tuple);
                let own = Some(&steering);
                assert_eq!(landed(own, own), Landing { forward, reply });
                assert_eq!(landed(own, None), Landing { forward, reply: None });
                assert_eq!(landed(None, own), Landing { forward: None, reply });
                assert!(landed(None, None).is_any());
            }
        }
    }
}
