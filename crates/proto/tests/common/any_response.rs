//! Properties of the response parser for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use crate::answers::{answers, httparse_head, tolerated};

/// Reads responses to GET and to HEAD, whole and in two pieces, with the same result, and heads as `httparse` reads
/// them. What a strict parser reads, a tolerant one reads alike.
pub fn holds(input: &[u8]) {
    for to_head in [false, true] {
        let whole = answers(input, &[], to_head);
        let cut = input.last().map_or(0, |byte| usize::from(*byte) % input.len());
        assert_eq!(answers(input, &[cut], to_head), whole, "cut at {cut}");
        let taken = tolerated(input, &[], to_head);
        assert_eq!(tolerated(input, &[cut], to_head), taken, "tolerant, cut at {cut}");
        if whole.is_ok() {
            assert_eq!(taken, whole);
        }
        let Some(first) = whole.ok().and_then(|answers| answers.into_iter().next()) else {
            continue;
        };
        if first.informational.is_empty() && first.fields.len() <= 64 {
            let (theirs, _) = httparse_head(input)
                .expect("httparse accepts it")
                .expect("it is complete");
            // `httparse` empties a reason phrase with bytes over 0x7f (obs-text), which RFC 9112 4 permits.
            let reason = if first.reason.is_ascii() {
                first.reason
            } else {
                Vec::new()
            };
            assert_eq!(
                (first.status, first.minor, reason, first.fields),
                (theirs.status, theirs.minor, theirs.reason, theirs.fields)
            );
        }
    }
}
