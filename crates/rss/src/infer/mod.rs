//! Infers what a device hashes, from samples of packets with their reported hash or queue: key, fields, dialect and
//! indirection table. The result also lists what is undetermined, and which samples would determine it.
//!
//! The Toeplitz hash is linear over GF(2), so no search is needed. Under each model of the hashed fields and their
//! mixing (`model.rs`), every known bit of a sample's hash is one equation of the key's bits and of an initial value.
//! Few samples determine the unknowns; a wrong model soon contradicts the rest (`fit.rs`). What the equations do not
//! determine is reported as unknown.
//!
//! Queues alone yield less, because the table between hash and queue is unknown (`queues.rs`).

mod consensus;
mod fit;
mod hashes;
mod kind;
mod model;
mod need;
mod queues;
mod relation;
mod result;
mod samples;
mod system;
mod table;

pub use consensus::contradicting;
pub use kind::Kind;
pub use model::Field;
pub use relation::Relation;
pub use result::{Inference, InferredKind, Verdict};
pub use samples::Sample;
pub use table::InferredTable;

use crate::key::Key;
use samples::KindSamples;

/// Infers from samples; `configured` is the configured key of the device, if known.
#[must_use]
pub fn infer(samples: &[Sample], configured: Option<&Key>) -> Inference {
    let has_hash = |sample: &Sample| sample.hash.filter(|hash| *hash != 0);
    let without_hash = samples.iter().filter(|sample| has_hash(sample).is_none()).count();
    let mut inference = Inference {
        samples: samples.len(),
        without_hash,
        ..Inference::default()
    };
    let mut no_table_fits = false;
    if without_hash < samples.len() {
        let kinds = KindSamples::by_kind(samples, u32::MAX, has_hash);
        hashes::infer(&mut inference, &kinds, configured);
        let pair = |sample: &Sample| Some((has_hash(sample)?, sample.queue?));
        let pairs = || samples.iter().filter_map(pair);
        inference.table = table::of_hashes(pairs());
        let mut queues = pairs().map(|(_, queue)| queue);
        let first = queues.next();
        if inference.table.is_none() && queues.any(|queue| Some(queue) != first) {
            no_table_fits = table::none_fits(pairs());
            if !no_table_fits {
                let more = "more samples with queues: these do not show the indirection table";
                inference.needed.push(more.to_owned());
            }
        }
    } else {
        queues::infer(&mut inference, samples, configured);
    }
    if let Some(table) = inference.table.as_ref().filter(|table| table.unseen > 0) {
        let what = format!(
            "flows that fall on the {} entries of {} never seen",
            table.unseen, table.period
        );
        inference.needed.push(what);
    }
    if inference.verdict == Verdict::Settled && !inference.needed.is_empty() {
        inference.verdict = Verdict::NotEnough;
    }
    if no_table_fits && inference.verdict != Verdict::NothingFits {
        inference.verdict = Verdict::NoTableFits;
    }
    inference
}

/// Like [`infer`], but sets aside up to `most` samples that contradict the others. If more contradict, or if the wrong
/// ones cannot be determined, none is set aside. Only samples with hashes are checked in this way.
#[must_use]
pub fn infer_tolerating(samples: &[Sample], configured: Option<&Key>, most: usize) -> Inference {
    if most == 0 {
        return infer(samples, configured);
    }
    let set_aside = contradicting(samples, most).unwrap_or_default();
    let believed = samples.iter().enumerate();
    let believed = believed.filter(|(place, _)| set_aside.binary_search(place).is_err());
    let believed: Vec<Sample> = believed.map(|(_, sample)| *sample).collect();
    Inference {
        samples: samples.len(),
        set_aside,
        ..infer(&believed, configured)
    }
}
