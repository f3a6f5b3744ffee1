//! Test beds of network namespaces, on machines that permit them.

use corelane_host::bed::{Bed, BedError, BedPlan};

/// The plan of two network namespaces: the server is 10.11.2.1, clients are of 10.11.2.0/24.
#[must_use]
pub fn namespaces_plan() -> BedPlan {
    BedPlan {
        loopback_ok: false,
        ..BedPlan::new(
            [10, 11, 2, 1].into(),
            vec!["10.11.2.0/24".parse().expect("a prefix")],
        )
    }
}

/// Two network namespaces, or `None` after printing why this machine permits none.
///
/// # Panics
/// If they are permitted, but the bed cannot be built.
#[must_use]
pub fn namespaces(plan: &BedPlan) -> Option<Bed> {
    match Bed::build(plan) {
        Err(error @ BedError::Namespace { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        built => Some(built.expect("a bed")),
    }
}
