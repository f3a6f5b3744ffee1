//! What the guest's device is set to and what it is sent, as data.

use corelane_packet::HashTypes;
use corelane_packet::verify::Rule;
use corelane_rss::{Bucket, HashFields, IndirectionTable, InputError, Key, Steering, Transform};
use serde::{Deserialize, Serialize};

/// Entries of the table that virtio-net has (`rss_max_indirection_table_length` of QEMU's device).
const ENTRIES: usize = 128;

/// How many of sixteen entries each queue gets: unequal, so that more than one bit of each hash is proved, and so that
/// no queue is the one that another table would name.
const WEIGHTS: [usize; 4] = [1, 2, 4, 9];

/// The experiment, fully decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicPlan {
    /// The device, by its name in the guest.
    pub device: String,
    /// What is set and sent, one after the other.
    pub rounds: Vec<NicRound>,
    /// Flows of each class of frames in each round.
    pub flows: usize,
    /// What keys and flows are drawn from.
    pub seed: u64,
}

/// A round to be carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage<'a> {
    /// Its setting.
    pub(super) round: &'a NicRound,
    /// Flows of each class.
    pub(super) flows: usize,
    /// Whether it counts. The first does not: interrupts move to the CPUs that they are set for only when they fire, so
    /// each queue has to receive before its CPU is checked (`irq_move_masked_irq` in `kernel/irq/migration.c`).
    pub(super) counts: bool,
}

/// Flows of each class in the rehearsal, so that every queue gets some, also by a key that the kernel drew and with a
/// sixteenth of the table.
const REHEARSAL_FLOWS: usize = 64;

/// One setting of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicRound {
    /// The key.
    pub key: Key,
    /// The table, whose buckets are queues.
    pub table: IndirectionTable,
    /// What is hashed of UDP; of TCP it is always addresses and ports.
    pub udp_fields: HashFields,
    /// Whether IPv6 packets with extension headers and ports are left out.
    #[serde(default)]
    pub without_extensions: bool,
}

impl NicPlan {
    /// Two rounds with a key and a table each: ports of UDP hashed, and not.
    ///
    /// # Errors
    ///
    /// Never for the sizes that are used here; said so that nothing is assumed.
    pub fn new(flows: usize, seed: u64) -> Result<Self, InputError> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut round = |udp_fields, turned: usize| {
            Ok(NicRound {
                key: Key::random(&mut |bytes| random.fill(bytes)),
                table: weighted(turned)?,
                udp_fields,
                without_extensions: false,
            })
        };
        Ok(Self {
            device: "eth0".to_owned(),
            rounds: vec![round(HashFields::FourTuple, 0)?, round(HashFields::TwoTuple, 1)?],
            flows,
            seed,
        })
    }

    /// The plan for a device that does not hash IPv6 packets with extension headers as the rule says.
    pub(super) fn without_extensions(mut self) -> Self {
        for round in &mut self.rounds {
            round.without_extensions = true;
        }
        self
    }

    /// The rehearsal, and the rounds.
    pub(super) fn stages(&self) -> Vec<Stage<'_>> {
        let stage = |round, flows, counts| Stage { round, flows, counts };
        let rehearsal = self.rounds.first();
        let rehearsal = rehearsal.map(|round| stage(round, REHEARSAL_FLOWS, false));
        let rounds = self.rounds.iter().map(|round| stage(round, self.flows, true));
        rehearsal.into_iter().chain(rounds).collect()
    }
}

impl NicRound {
    /// The rule that frames are held to.
    pub(crate) fn rule(&self) -> Rule {
        Rule {
            key: self.key.clone(),
            hash_types: match self.udp_fields {
                HashFields::FourTuple => HashTypes::FOUR_TUPLE,
                HashFields::TwoTuple => HashTypes::DRIVER_DEFAULT,
            },
            transform: Transform::Plain,
            table: self.table.clone(),
        }
    }

    /// A server's steering by the same key and table, with these fields of every packet.
    pub(super) fn steering(&self, hash_fields: HashFields) -> Steering {
        Steering {
            key: self.key.clone(),
            hash_fields,
            table: self.table.clone(),
            cpus: vec![0; self.table.buckets()],
            generation: 0,
        }
    }

    /// The rule of another key: one that the device does not have.
    pub(crate) fn wrong_key(&self) -> Rule {
        let mut bytes = self.key.as_bytes().to_vec();
        bytes.reverse();
        Rule {
            key: Key::from_bytes(&bytes).unwrap_or(Key::VERIFICATION),
            ..self.rule()
        }
    }

    /// The rule of another table: every entry names the next queue.
    pub(crate) fn wrong_table(&self) -> Rule {
        let next = |bucket: &Bucket| Bucket::new(((bucket.index() + 1) % WEIGHTS.len()) as u16);
        let entries = self.table.entries().iter().map(next).collect();
        Rule {
            table: IndirectionTable::from_entries(entries).unwrap_or_else(|_| self.table.clone()),
            ..self.rule()
        }
    }
}

/// A table whose entries name the queues by their weights, which are turned by so many queues.
fn weighted(turned: usize) -> Result<IndirectionTable, InputError> {
    let sixteen: Vec<usize> = WEIGHTS
        .iter()
        .enumerate()
        .flat_map(|(queue, weight)| std::iter::repeat_n((queue + turned) % WEIGHTS.len(), *weight))
        .collect();
    // Strewn by a step that has no factor in common with sixteen, so that neighbours differ.
    let entries = (0..ENTRIES).map(|entry| Bucket::new(sixteen[entry * 5 % sixteen.len()] as u16));
    IndirectionTable::from_entries(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_share_the_table_unequally() {
        let plan = NicPlan::new(8, 1).unwrap();
        let shares = |round: &NicRound| {
            let mut shares = [0; 4];
            for bucket in round.table.entries() {
                shares[bucket.index()] += 1;
            }
            shares
        };
        assert_eq!(shares(&plan.rounds[0]), [8, 16, 32, 72]);
        assert_eq!(shares(&plan.rounds[1]), [72, 8, 16, 32]);
        assert_ne!(plan.rounds[0].key, plan.rounds[1].key);
    }

    #[test]
    fn wrong_rules_differ_in_one_thing() {
        let round = &NicPlan::new(8, 1).unwrap().rounds[0];
        let (right, key, table) = (round.rule(), round.wrong_key(), round.wrong_table());
        assert_ne!(right.key, key.key);
        assert_eq!(right.table, key.table);
        assert_eq!(right.key, table.key);
        let entries = right.table.entries().iter().zip(table.table.entries());
        assert!(entries.clone().all(|(right, wrong)| right != wrong));
    }
}
