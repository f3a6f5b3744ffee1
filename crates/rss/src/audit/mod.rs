//! Audits a key for given hashed fields and an indirection table: which packets the hash can distinguish, and what is
//! wrong with the key.
//!
//! The Toeplitz hash is linear over GF(2), so most properties are computed exactly, without traffic. A matrix of
//! windows of the key maps the bits of a packet to the bits of the hash, and its rank gives the number of different
//! hashes. Only [`imbalance`] needs flows.

mod imbalance;
mod rank;
mod symmetry;

pub use imbalance::{BucketShare, Imbalance, imbalance};
pub use rank::{FieldRank, hash_rank};
pub use symmetry::{Family, symmetric};

use crate::fields::HashFields;
use crate::key::Key;
use crate::table::IndirectionTable;
use crate::transform::Transform;
use serde::Serialize;

/// Properties of a key. Ranks and periods are in bits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// The key.
    pub key: Key,
    /// Length in bytes.
    pub bytes: usize,
    /// The share of ones among its bits; about one half in a random key.
    pub ones: f64,
    /// Shannon entropy of its bytes, in bits per byte.
    pub entropy_bits_per_byte: f64,
    /// Maximum entropy of a key of this length: all bytes different.
    pub entropy_possible: f64,
    /// The shortest period of the key bits that are used, if any.
    pub period: Option<usize>,
    /// Where the key was published, if it is well known.
    pub published: Option<&'static str>,
    /// Number of independent bits of the hash: 32 for a good key.
    pub hash_rank: usize,
    /// Low bits of the hash that the table uses.
    pub table_bits: u32,
    /// The contribution of each field of the packet to those bits.
    pub fields: Vec<FieldRank>,
    /// Whether both directions of an IPv4 flow have the same hash.
    pub symmetric_ipv4: bool,
    /// Whether both directions of an IPv6 flow have the same hash.
    pub symmetric_ipv6: bool,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Whether there is no finding that makes the key unfit.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity == Severity::Note)
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The problem, and what to do.
    pub what: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The key should not be used.
    Failure,
    /// For information.
    Note,
}

/// Audits `key` for hashing these fields into `table`. With `meant_symmetric`, the loss of hash bits that symmetry
/// implies is accepted, and a key that is not symmetric fails; a symmetric `transform` does not need such a key.
#[must_use]
pub fn audit(
    key: &Key,
    fields: HashFields,
    table: &IndirectionTable,
    meant_symmetric: bool,
    transform: Transform,
) -> Audit {
    let mixes = transform != Transform::Plain;
    // A remainder by three times a power of two, say, depends on all bits, and on the low ones alone.
    let table_bits = table.period().len().trailing_zeros();
    let mut audit = Audit {
        key: key.clone(),
        bytes: key.as_bytes().len(),
        ones: share_of_ones(key),
        entropy_bits_per_byte: entropy(key.as_bytes()),
        entropy_possible: (key.as_bytes().len() as f64).log2(),
        period: period(key),
        published: published(key),
        hash_rank: hash_rank(key, fields, transform),
        table_bits,
        fields: rank::fields(key, fields, table_bits, transform),
        symmetric_ipv4: mixes || symmetric(key, Family::V4, fields),
        symmetric_ipv6: mixes || symmetric(key, Family::V6, fields),
        findings: Vec::new(),
    };
    audit.findings = findings(&audit, meant_symmetric, mixes);
    audit
}

/// Ones beyond six standard deviations from one half: one in 500 million random keys of 320 bits is outside.
const ONES_DEVIATIONS: f64 = 6.0;

/// A key of 40 random bytes has 5.2 of 5.32 bits of entropy per byte, and practically never less than 4.5 (that takes
/// nearly thirty repeated byte values).
const ENTROPY_SHARE: f64 = 0.85;

fn findings(audit: &Audit, meant_symmetric: bool, mixes: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |excused: bool, what: String| {
        let severity = if excused {
            Severity::Note
        } else {
            Severity::Failure
        };
        findings.push(Finding { severity, what });
    };
    // A symmetric key for 4-tuples of both families has at most 16 independent bits.
    let excusable = |bits: usize| meant_symmetric && bits >= 16;
    let rank = audit.hash_rank;
    if rank == 0 {
        find(
            false,
            "every packet has one hash: the key is all zeros, or the transform cancels it".to_owned(),
        );
    } else if rank < 32 {
        let hashes = 1_u64 << rank;
        let what = format!("the hash has {rank} independent bits of 32: {hashes} hashes at most");
        find(excusable(rank), what);
    }
    if let Some(period) = audit.period {
        find(excusable(period), format!("the key repeats every {period} bits"));
    }
    for field in audit.fields.iter().filter(|field| field.rank < field.possible) {
        let (reached, possible) = (1_u64 << field.rank, 1_u64 << field.possible);
        let name = format!("{} {}", field.family, field.field);
        let what = format!("{name} reaches {reached} of the table's entries, not {possible}");
        find(field.minor, what);
    }
    let deviations = (audit.ones - 0.5).abs() * 2.0 * (audit.bytes as f64 * 8.0).sqrt();
    if deviations > ONES_DEVIATIONS {
        let percentage = 100.0 * audit.ones;
        let what = format!("{percentage:.0} % of the key's bits are ones: it is not random");
        find(false, what);
    }
    let (entropy, possible) = (audit.entropy_bits_per_byte, audit.entropy_possible);
    if entropy < ENTROPY_SHARE * possible && !meant_symmetric {
        let what = format!("{entropy:.2} bits of entropy per byte, {possible:.2} possible");
        find(false, what);
    }
    let symmetric = audit.symmetric_ipv4 || audit.symmetric_ipv6;
    if symmetric != meant_symmetric && !mixes {
        let what = match symmetric {
            true => "both directions of a flow have one hash: it is symmetric",
            false => "the two directions of a flow hash differently: it is not symmetric",
        };
        find(symmetric, what.to_owned());
    }
    if let Some(published) = audit.published {
        find(
            true,
            format!("published, {published}: flows can be aimed at a bucket"),
        );
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Bits of a key that hash a tuple: the windows of an IPv6 4-tuple of 36 bytes end at bit 319.
const HASHED_BITS: usize = 320;

fn period(key: &Key) -> Option<usize> {
    let bit = |position: usize| key.window(position) >> 31;
    let repeats = |distance: usize| (distance..HASHED_BITS).all(|at| bit(at) == bit(at - distance));
    (1..=HASHED_BITS / 2).find(|distance| repeats(*distance))
}

fn share_of_ones(key: &Key) -> f64 {
    let ones: u32 = key.as_bytes().iter().map(|byte| byte.count_ones()).sum();
    f64::from(ones) / (key.as_bytes().len() as f64 * 8.0)
}

fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / bytes.len() as f64);
    shares.map(|share| -share * share.log2()).sum()
}

/// Returns the source of keys published in datasheets, drivers and papers.
fn published(key: &Key) -> Option<&'static str> {
    let bytes = key.as_bytes();
    if bytes.starts_with(Key::VERIFICATION.as_bytes()) {
        return Some("the verification suite's, many drivers' default");
    }
    if Key::NAMED.iter().any(|(_, digits)| *digits == key.to_string()) {
        return Some("the fixed key of a driver");
    }
    // S. Woo and K. Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012.
    bytes
        .chunks(2)
        .all(|pair| pair == [0x6d, 0x5a])
        .then_some("Woo and Park's symmetric key, 6d5a repeated")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(buckets: usize) -> IndirectionTable {
        IndirectionTable::round_robin(128, buckets).unwrap()
    }

    fn failures(audit: &Audit) -> Vec<&str> {
        let failures = audit
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Failure);
        failures.map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn the_verification_key_passes_and_is_known_to_be_published() {
        let audit = audit(
            &Key::VERIFICATION,
            HashFields::FourTuple,
            &table(128),
            false,
            Transform::Plain,
        );
        assert!(audit.passes(), "{:?}", failures(&audit));
        assert_eq!((audit.hash_rank, audit.period, audit.table_bits), (32, None, 7));
        assert!(!audit.symmetric_ipv4 && !audit.symmetric_ipv6);
        assert!(audit.published.unwrap().contains("verification suite"));
        assert_eq!(audit.findings.len(), 1);
    }

    #[test]
    fn repeated_6d5a_is_named_for_its_period_its_rank_and_its_symmetry() {
        let key = Key::from_bytes(&[0x6d, 0x5a].repeat(20)).unwrap();
        let plain = audit(&key, HashFields::FourTuple, &table(128), false, Transform::Plain);
        assert!(!plain.passes());
        assert_eq!((plain.hash_rank, plain.period), (16, Some(16)));
        assert!(plain.symmetric_ipv4 && plain.symmetric_ipv6);
        assert!(plain.published.unwrap().contains("6d5a"));
        let meant = audit(&key, HashFields::FourTuple, &table(128), true, Transform::Plain);
        assert!(meant.passes(), "{:?}", failures(&meant));
    }

    #[test]
    fn keys_of_one_value_fail() {
        for byte in [0x00, 0xff, 0x01] {
            let key = Key::from_bytes(&[byte; 40]).unwrap();
            let audit = audit(&key, HashFields::FourTuple, &table(4), false, Transform::Plain);
            assert!(!audit.passes(), "{byte:02x}");
        }
        let zeros = audit(
            &Key::from_bytes(&[0; 40]).unwrap(),
            HashFields::TwoTuple,
            &table(4),
            false,
            Transform::Plain,
        );
        assert!(failures(&zeros)[0].contains("all zeros"));
    }

    #[test]
    fn a_key_that_leaves_the_table_alone_is_found_out_by_its_rank() {
        // Every window over the ports ends in zeros, so the ports do not affect the low bits of the hash.
        let mut bytes = Key::VERIFICATION.as_bytes().to_vec();
        bytes[11..16].fill(0);
        let audit = audit(
            &Key::from_bytes(&bytes).unwrap(),
            HashFields::FourTuple,
            &table(128),
            false,
            Transform::Plain,
        );
        assert!(
            failures(&audit)
                .iter()
                .any(|what| what.starts_with("IPv4 source port reaches")),
            "{audit:?}"
        );
    }

    #[test]
    fn a_key_meant_symmetric_that_is_not_fails() {
        let audit = audit(
            &Key::VERIFICATION,
            HashFields::FourTuple,
            &table(4),
            true,
            Transform::Plain,
        );
        assert_eq!(failures(&audit).len(), 1);
        assert!(failures(&audit)[0].contains("not symmetric"));
    }
}
