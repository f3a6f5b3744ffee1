//! Arbitrary bytes as frames with a device's metadata, and as a log: a verifier counts every frame once.

#![no_main]

use corelane_packet::verify::{Observed, Queue, Rule, Verifier, log};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut verifier = Verifier::new(&Rule::of_queues(4).expect("128 entries take 4 queues"));
    let mut frames = 0;
    let mut rest = bytes;
    // One byte selects the metadata, then follow four bytes of a hash, one of a length, and the frame.
    while let [which, a, b, c, d, length, behind @ ..] = rest {
        let (frame, behind) = behind.split_at(behind.len().min((*length).into()));
        let number = u32::from_be_bytes([*a, *b, *c, *d]);
        verifier.frame(
            frame,
            Observed {
                hash: (which & 1 != 0).then_some(number),
                queue: (which & 2 != 0).then_some(Queue((which >> 4).into())),
                sequence: (which & 4 != 0).then_some(number),
            },
        );
        frames += 1;
        rest = behind;
    }
    let pairs = std::str::from_utf8(bytes).unwrap_or_default();
    for pair in log::pairs(pairs).flatten() {
        verifier.pair(pair.hash, pair.queue);
        frames += 1;
    }
    let report = verifier.report();
    let seen: u64 = report.buckets.iter().map(|bucket| bucket.seen).sum();
    assert_eq!(report.frames, frames);
    assert_eq!(report.refused + report.not_hashed + report.cut_short + seen, frames);
    let rows: u64 = report.misplacements.iter().map(|row| row.frames).sum();
    assert_eq!(rows + report.misplacements_left_off, report.misplaced);
});
