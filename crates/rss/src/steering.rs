//! The steering document (key, fields, table and CPUs), on which both ends of a test must agree, and the compiled
//! [`Steerer`], which returns the bucket of a tuple.

use crate::error::InputError;
use crate::fields::HashFields;
use crate::hash::{Hash, HashType, Protocol};
use crate::key::Key;
use crate::table::{Bucket, IndirectionTable};
use crate::toeplitz::Toeplitz;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How packets are steered: the hash key, the hashed fields, the bucket of each hash, and the CPU of each bucket.
///
/// Serialises as a document of schema [`Steering::SCHEMA`]; reading a document that does not
/// [validate](Steering::validate) fails. Unknown fields are ignored, so that later versions may add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/steering/1", try_from = "Document")]
pub struct Steering {
    /// The hash key.
    pub key: Key,
    /// The hashed fields.
    pub hash_fields: HashFields,
    /// The indirection table.
    pub table: IndirectionTable,
    /// The CPU of each bucket, by bucket. It may be longer than the table's buckets: those buckets have a worker but no
    /// entry.
    pub cpus: Vec<u32>,
    /// Number of steering changes of a running system, so that reports can distinguish them.
    pub generation: u64,
}

impl Steering {
    /// Name and version of the document.
    pub const SCHEMA: &'static str = "corelane/steering/1";

    /// Checks that every bucket of the table has a CPU.
    pub fn validate(&self) -> Result<(), InputError> {
        let (buckets, cpus) = (self.table.buckets(), self.cpus.len());
        if cpus < buckets {
            return Err(InputError(format!(
                "{cpus} CPUs for a table that names {buckets} buckets: give the CPU of every bucket"
            )));
        }
        Ok(())
    }

    /// Compiles the document for use per packet.
    #[must_use]
    pub fn steerer(&self) -> Steerer {
        Steerer {
            toeplitz: Toeplitz::new(&self.key),
            hash_fields: self.hash_fields,
            table: self.table.clone(),
        }
    }
}

/// [`Steering`] as read, before validation.
#[derive(Deserialize)]
struct Document {
    schema: String,
    key: Key,
    hash_fields: HashFields,
    table: IndirectionTable,
    cpus: Vec<u32>,
    generation: u64,
}

impl TryFrom<Document> for Steering {
    type Error = InputError;

    fn try_from(document: Document) -> Result<Steering, InputError> {
        if document.schema != Steering::SCHEMA {
            let (found, schema) = (document.schema, Steering::SCHEMA);
            return Err(InputError(format!(
                "a document of schema {found:?}: give a steering document, schema {schema:?}"
            )));
        }
        let steering = Steering {
            key: document.key,
            hash_fields: document.hash_fields,
            table: document.table,
            cpus: document.cpus,
            generation: document.generation,
        };
        steering.validate().map(|()| steering)
    }
}

/// The flow of a packet, with the values that FreeBSD passes to an application with each datagram (`IP_RECVFLOWID`,
/// `IP_RECVRSSBUCKETID` in `ip(4)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowMetadata {
    /// The hash, and its type.
    pub hash: Hash,
    /// The bucket that the hash selects.
    pub bucket: Bucket,
}

/// A compiled [`Steering`]: hashes tuples and returns their buckets.
#[derive(Clone, Debug)]
pub struct Steerer {
    toeplitz: Toeplitz,
    hash_fields: HashFields,
    table: IndirectionTable,
}

impl Steerer {
    /// The hash of a tuple over the hashed fields.
    #[must_use]
    pub fn hash_of(&self, tuple: &Tuple) -> u32 {
        self.toeplitz.hash(tuple, self.hash_fields)
    }

    /// The bucket of a tuple.
    #[must_use]
    pub fn bucket_of(&self, tuple: &Tuple) -> Bucket {
        self.table.bucket(self.hash_of(tuple))
    }

    /// What two ports contribute to the hash of a tuple of a family: because the hash is linear, that of a tuple is this,
    /// exclusive or the hash of the same tuple with ports 0. It is 0 if ports are not hashed.
    #[must_use]
    pub fn of_ports(&self, source: u16, destination: u16, v4: bool) -> u32 {
        let any: IpAddr = match v4 {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let tuple = Tuple::new(SocketAddr::new(any, source), SocketAddr::new(any, destination));
        self.hash_of(&tuple.expect("two addresses of one family"))
    }

    /// Computes the flow of each packet of a batch, in order.
    ///
    /// Replaces the contents of `flows`. Protocols other than TCP and UDP always hash as a 2-tuple.
    pub fn describe(&self, tuples: &[Tuple], protocol: Protocol, flows: &mut Vec<FlowMetadata>) {
        let fields = match protocol {
            Protocol::Tcp | Protocol::Udp => self.hash_fields,
            Protocol::Other => HashFields::TwoTuple,
        };
        flows.clear();
        flows.extend(tuples.iter().map(|tuple| {
            let value = self.toeplitz.hash(tuple, fields);
            let hash_type = HashType::of(tuple, fields, protocol);
            FlowMetadata {
                hash: Hash { value, hash_type },
                bucket: self.table.bucket(value),
            }
        }));
    }

    /// The indirection table.
    #[must_use]
    pub fn table(&self) -> &IndirectionTable {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_buckets() -> Steering {
        Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(4, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 3,
        }
    }

    #[test]
    fn a_document_reads_back_as_it_was_written() {
        let text = serde_json::to_string(&two_buckets()).unwrap();
        let expected = format!(
            r#"{{"schema":"corelane/steering/1","key":"{}","hash_fields":"4tuple","table":[0,1,0,1],"cpus":[0,1],"generation":3}}"#,
            Key::VERIFICATION
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Steering>(&text).unwrap(), two_buckets());
    }

    #[test]
    fn fields_of_later_versions_are_ignored() {
        let text = serde_json::to_string(&two_buckets()).unwrap();
        let later = text.replacen('{', r#"{"colour":"green","#, 1);
        assert_eq!(serde_json::from_str::<Steering>(&later).unwrap(), two_buckets());
    }

    #[test]
    fn documents_that_do_not_hold_together_are_refused_with_the_reason() {
        let text = serde_json::to_string(&two_buckets()).unwrap();
        let spoilt = [
            ("steering/1", "steering/2", "corelane/steering/2"),
            ("[0,1,0,1]", "[]", "give 1 to 4096"),
            (
                "[0,1,0,1]",
                "[0,1,0,2]",
                "2 CPUs for a table that names 3 buckets",
            ),
            ("4tuple", "5tuple", "5tuple"),
            ("6d5a", "6d", "39 bytes"),
        ];
        for (good, bad, reason) in spoilt {
            let error = serde_json::from_str::<Steering>(&text.replace(good, bad)).unwrap_err();
            assert!(error.to_string().contains(reason), "{bad}: {error}");
        }
    }

    #[test]
    fn a_batch_is_described_as_each_of_its_tuples_by_itself() {
        let steerer = two_buckets().steerer();
        let tuple = |port: u16| match port % 2 {
            0 => Tuple::new(([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into()),
            _ => Tuple::new(([1; 8], port).into(), ([2; 8], 80).into()),
        };
        let tuples: Vec<Tuple> = (1..200).map(|port| tuple(port).unwrap()).collect();
        let mut flows = Vec::new();
        steerer.describe(&tuples, Protocol::Udp, &mut flows);
        assert_eq!(flows.len(), tuples.len());
        for (flow, tuple) in flows.iter().zip(&tuples) {
            assert_eq!(flow.hash.value, steerer.hash_of(tuple));
            assert_eq!(flow.bucket, steerer.bucket_of(tuple));
            let hash_type = match tuple {
                Tuple::V4 { .. } => HashType::UDP_IPV4,
                Tuple::V6 { .. } => HashType::UDP_IPV6,
            };
            assert_eq!(flow.hash.hash_type, hash_type);
        }
        steerer.describe(&tuples[..1], Protocol::Other, &mut flows);
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].hash.hash_type, HashType::IPV6);
    }

    #[test]
    fn a_steerer_names_the_bucket_that_hash_and_table_name() {
        let steering = two_buckets();
        let tuple = Tuple::new(
            "66.9.149.187:2794".parse().unwrap(),
            "161.142.100.80:1766".parse().unwrap(),
        );
        let tuple = tuple.unwrap();
        assert_eq!(steering.steerer().hash_of(&tuple), 0x51cc_c178);
        assert_eq!(steering.steerer().bucket_of(&tuple), Bucket::new(0));
        assert_eq!(steering.steerer().bucket_of(&tuple.reversed()), {
            let hash = crate::oracle::toeplitz(
                &steering.key,
                tuple.reversed().input(HashFields::FourTuple).as_bytes(),
            );
            steering.table.bucket(hash)
        });
    }
}
