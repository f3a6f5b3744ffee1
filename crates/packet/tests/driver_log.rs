//! The log of a driver as it stands in a post.

use corelane_packet::verify::log::{LogError, Pairs};
use corelane_packet::verify::{Rule, Verifier};

/// The kernel log of "UDP RSS update: ixgbe(4) turned out to have issues..", each frame on two lines.
const LOG: &str = include_str!("../../rss/tests/vectors/post-wrong-ring.log");

#[test]
fn the_log_of_the_post_is_read_as_it_stands() {
    let mut verifier = Verifier::new(&Rule::of_queues(4).unwrap());
    let mut pairs = Pairs::of(LOG.lines().map(Ok::<_, LogError>));
    for pair in pairs.by_ref() {
        let pair = pair.unwrap();
        verifier.pair(pair.hash, pair.queue);
    }
    assert_eq!(pairs.skipped(), 9, "each frame has a line before it");
    let report = verifier.report();
    assert_eq!((report.frames, report.misplaced), (9, 9));
    let found: Vec<_> = report
        .misplacements
        .iter()
        .map(|row| (row.hash, row.actual.0, row.frames))
        .collect();
    assert_eq!(found, [(0x21f7_db62, 3, 5), (0x335a_5c03, 2, 4)]);
}
