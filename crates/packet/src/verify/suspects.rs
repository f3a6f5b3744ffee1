//! Tests alternatives to the rule: what else a device could have hashed of a frame, and which of these explain the
//! observations.

use super::{Cause, Dialect, Observed, Queue, Rule};
use crate::bytes::number32;
use crate::dissection::Dissection;
use crate::rss_input::{HashTypes, RssInput};
use crate::tunnel;
use corelane_rss::Toeplitz;

/// Alternatives, the likelier first: those specific to the frame, then those of the whole device.
pub(super) const ALTERNATIVES: [Cause; 12] = [
    Cause::Fragment,
    Cause::Tunnel,
    Cause::Fields,
    Cause::NotHashed,
    Cause::Dialect(Dialect::ALL[0]),
    Cause::Dialect(Dialect::ALL[1]),
    Cause::Dialect(Dialect::ALL[2]),
    Cause::Dialect(Dialect::ALL[3]),
    Cause::Dialect(Dialect::ALL[4]),
    Cause::Dialect(Dialect::ALL[5]),
    Cause::Dialect(Dialect::ALL[6]),
    Cause::Dialect(Dialect::ALL[7]),
];

/// The alternatives that explain what was observed of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspects {
    /// Whether each alternative explains the observation; `None` if it does not give the frame another hash.
    pub alternatives: [Option<bool>; ALTERNATIVES.len()],
    /// The device reported a hash, so a fit is no coincidence.
    pub certain: bool,
    /// Bytes that the device may have hashed were not captured, so that no alternative fitting says little.
    pub hidden: bool,
}

impl Suspects {
    /// The hash is as expected, the queue is not.
    pub const NONE: Suspects = Suspects {
        alternatives: [None; ALTERNATIVES.len()],
        certain: false,
        hidden: false,
    };
}

/// Every dialect under one key.
pub(super) type Dialects = [(Dialect, Toeplitz); Dialect::ALL.len()];

/// Tries the alternatives to a rule.
#[derive(Clone, Copy)]
pub(super) struct Examiner<'a> {
    pub rule: &'a Rule,
    pub toeplitz: &'a Toeplitz,
    pub dialects: &'a Dialects,
}

impl Examiner<'_> {
    /// Distinguishes frames with the same expected hash that a device may hash differently: by the inner packet of a
    /// tunnel, otherwise by the bytes in the place of the ports.
    pub fn detail(&self, dissection: &Dissection) -> u32 {
        let inside = tunnel::inner(dissection).and_then(|inner| inner.rss_input(HashTypes::FOUR_TUPLE));
        if let Some(input) = inside {
            return self.toeplitz.hash_input(input.as_bytes());
        }
        let at = dissection.transport_offset();
        number32(dissection.frame(), at).unwrap_or(0)
    }

    /// Tries every alternative on a frame with an unexpected or unknown hash.
    pub fn examine(&self, dissection: &Dissection, observed: Observed) -> Suspects {
        let (table, transform) = (&self.rule.table, self.rule.transform);
        // As the packet has it, because alternatives mix its ends in other ways.
        let Some(input) = dissection.rss_input(self.rule.hash_types) else {
            return Suspects::NONE;
        };
        let fits = |hash: u32| match (observed.hash, observed.queue) {
            (Some(reported), _) => reported == hash,
            (None, Some(queue)) => queue.serves(table.bucket(hash)),
            (None, None) => false,
        };
        let hash = |input: &Vec<u8>| {
            let mixed = transform.of_input(input);
            self.toeplitz.hash_input(&mixed[..input.len()])
        };
        let any_fits = |inputs: &[Vec<u8>]| inputs.iter().any(|input| fits(hash(input)));
        let certain = observed.hash.is_some();
        // Devices report zero for a frame without hash, and deliver it to their first queue.
        let not_hashed = observed
            .hash
            .map_or(observed.queue == Some(Queue(0)), |hash| hash == 0);
        let part = dissection.is_fragment();
        let as_whole = part && any_fits(&with_whatever_stands_for_ports(dissection));
        let inside = tunnel::inner(dissection).map_or_else(Vec::new, |inner| inputs(&inner));
        let others = other_fields(dissection, &input);
        // For each alternative in the order of the list: whether it applies, and whether it fits.
        let of_frame = [
            (part, as_whole || not_hashed),
            (!inside.is_empty(), any_fits(&inside)),
            (!others.is_empty(), any_fits(&others)),
            // By its queue alone, such a frame cannot be distinguished from one whose entry names the first queue.
            (!part && certain, not_hashed),
        ];
        let hidden = dissection.hides_any_input();
        // Of bytes that were not captured, only a reported hash that fits the others says something.
        let known = |fitting| !hidden || certain && fitting;
        let of_frame =
            of_frame.map(|(applicable, fitting)| (applicable && known(fitting)).then_some(fitting));
        let fits_dialect = |(dialect, toeplitz): &(Dialect, Toeplitz)| {
            Some(fits(dialect.hash(toeplitz, input.as_bytes(), transform)))
        };
        let mut alternatives = of_frame.into_iter().chain(self.dialects.iter().map(fits_dialect));
        Suspects {
            alternatives: std::array::from_fn(|_| alternatives.next().flatten()),
            certain,
            hidden,
        }
    }
}

/// The input of a device that ignores fragmentation: the ports of a first fragment, the data of a later one.
fn with_whatever_stands_for_ports(dissection: &Dissection) -> Vec<Vec<u8>> {
    let at = dissection.transport_offset();
    let ports = dissection.frame().get(at..at + 4);
    let addresses = dissection.rss_input(HashTypes::TWO_TUPLE);
    match (addresses, ports) {
        (Some(addresses), Some(ports)) => vec![[addresses.as_bytes(), ports].concat()],
        _ => Vec::new(),
    }
}

/// The inputs of the packet other than the expected one: other fields, or the addresses of other headers.
fn other_fields(dissection: &Dissection, input: &RssInput) -> Vec<Vec<u8>> {
    let mut others = inputs(dissection);
    if let (Some(ports), Some(addresses)) = (dissection.ports(), dissection.rss_input(HashTypes::TWO_TUPLE)) {
        // Also for packets whose types have no ports: SCTP, and those with an authentication header.
        let ports = [ports.source, ports.destination].map(u16::to_be_bytes).concat();
        others.push([addresses.as_bytes(), &ports].concat());
    }
    others.retain(|other| other != input.as_bytes());
    others
}

fn inputs(dissection: &Dissection) -> Vec<Vec<u8>> {
    let policies = [HashTypes::TWO_TUPLE, HashTypes::FOUR_TUPLE, HashTypes::ALL];
    let input = |policy| Some(dissection.rss_input(policy)?.as_bytes().to_vec());
    policies.into_iter().filter_map(input).collect()
}
