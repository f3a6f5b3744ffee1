//! Models of what a device hashes of a tuple: the fields it uses, and how it mixes the two ends.

use super::kind::Kind;
use crate::audit::Family;
use crate::fields::HashFields;
use crate::toeplitz::Toeplitz;
use crate::transform::Transform;
use crate::tuple::HashInput;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// The bytes of a 4-tuple; those of IPv4 are the first twelve.
pub(super) type Input = [u8; HashInput::LONGEST];

/// One field of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Field {
    /// The sender's address.
    #[serde(rename = "source address")]
    SourceAddress,
    /// The receiver's address.
    #[serde(rename = "destination address")]
    DestinationAddress,
    /// The sender's port.
    #[serde(rename = "source port")]
    SourcePort,
    /// The receiver's port.
    #[serde(rename = "destination port")]
    DestinationPort,
}

impl Field {
    /// All fields, in the order in which they are hashed.
    pub const ALL: [Field; 4] = [
        Field::SourceAddress,
        Field::DestinationAddress,
        Field::SourcePort,
        Field::DestinationPort,
    ];

    /// The bytes of the input that it occupies.
    pub(super) fn bytes(self, family: Family) -> Range<usize> {
        let address = family.address_bits() / 8;
        match self {
            Field::SourceAddress => 0..address,
            Field::DestinationAddress => address..2 * address,
            Field::SourcePort => 2 * address..2 * address + 2,
            Field::DestinationPort => 2 * address + 2..2 * address + 4,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fields(u8);

impl Fields {
    const ADDRESSES: Fields = Fields(0b0011);
    const PORTS: Fields = Fields(0b1100);

    pub fn contains(self, field: Field) -> bool {
        self.0 >> field as u8 & 1 == 1
    }

    fn is_within(self, other: Fields) -> bool {
        self.0 & !other.0 == 0
    }
}

/// How a device hashes packets of one kind, apart from the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub transform: Transform,
    pub fields: Fields,
}

impl Model {
    /// All models for packets of a kind under a transform, those with the fewest fields first. Symmetric transforms use
    /// both ends of a pair or none; protocols without ports have only addresses.
    pub fn all(transform: Transform, kind: Kind) -> Vec<Model> {
        let mut fields: Vec<Fields> = (1..16).map(Fields).collect();
        if transform != Transform::Plain {
            fields.retain(|fields| {
                let pairs = [Fields::ADDRESSES, Fields::PORTS];
                pairs
                    .iter()
                    .all(|pair| fields.0 & pair.0 == 0 || pair.is_within(*fields))
            });
        }
        if !kind.has_ports() {
            fields.retain(|fields| fields.is_within(Fields::ADDRESSES));
        }
        fields.sort_by_key(|fields| fields.0.count_ones());
        fields
            .into_iter()
            .map(|fields| Model { transform, fields })
            .collect()
    }

    /// The hashed bytes: other fields are zero and do not contribute.
    pub fn hashed(self, input: &Input, family: Family) -> Input {
        self.fields_only(&self.transform.apply(input, family), family)
    }

    /// The hash of a packet's bytes under this model, without initial value.
    pub fn hash(self, toeplitz: &Toeplitz, input: &Input, family: Family) -> u32 {
        let length = family.input_bits(HashFields::FourTuple) / 8;
        toeplitz.hash_input(&self.hashed(input, family)[..length])
    }

    /// The hashed fields of already transformed bytes.
    pub fn fields_only(self, transformed: &Input, family: Family) -> Input {
        let mut bytes = *transformed;
        for field in Field::ALL
            .into_iter()
            .filter(|field| !self.fields.contains(*field))
        {
            bytes[field.bytes(family)].fill(0);
        }
        bytes
    }
}
