//! What must hold of any bytes as answers: used by a test over the kept corpus and by the fuzz target.

use crate::answers::{answers, httparse_head};

/// Reads answers to GET and to HEAD, whole and cut in two, which must come to the same, and heads as `httparse` reads them.
pub fn holds(input: &[u8]) {
    for to_head in [false, true] {
        let whole = answers(input, &[], to_head);
        let cut = input.last().map_or(0, |byte| usize::from(*byte) % input.len());
        assert_eq!(answers(input, &[cut], to_head), whole, "cut at {cut}");
        let Some(first) = whole.ok().and_then(|answers| answers.into_iter().next()) else {
            continue;
        };
        if first.informational.is_empty() && first.fields.len() <= 64 {
            let (theirs, _) = httparse_head(input)
                .expect("httparse takes it")
                .expect("it is whole");
            assert_eq!(
                (first.status, first.minor, first.reason, first.fields),
                (theirs.status, theirs.minor, theirs.reason, theirs.fields)
            );
        }
    }
}
