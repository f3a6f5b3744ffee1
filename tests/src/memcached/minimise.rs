//! Makes a sequence shorter as long as it fails.

use super::sequence::Sequence;
use std::ops::Range;

/// The shortest sequence found that `fails`, by leaving out rounds, requests and cuts.
pub fn minimised(mut sequence: Sequence, mut fails: impl FnMut(&Sequence) -> bool) -> Sequence {
    loop {
        let shorter = candidates(&sequence).find(|candidate| fails(candidate));
        match shorter {
            Some(shorter) => sequence = shorter,
            None => return sequence,
        }
    }
}

/// Sequences with one thing less, the largest things first.
fn candidates(sequence: &Sequence) -> impl Iterator<Item = Sequence> + '_ {
    let mut shorter = Vec::new();
    for (round, whole) in sequence.rounds.iter().enumerate() {
        let count = whole.requests.len();
        let parts = [0..count, 0..count / 2, count / 2..count];
        let single = (0..count).map(|request| request..request + 1);
        let parts = parts.into_iter().chain(single).filter(|part| !part.is_empty());
        shorter.extend(parts.map(|part| (round, Some(part))));
        if !whole.cuts.is_empty() {
            shorter.push((round, None));
        }
    }
    let candidates = shorter
        .into_iter()
        .map(|(round, part)| without(sequence, round, part));
    candidates.filter(|sequence| !sequence.rounds.is_empty())
}

/// The sequence without this part of a round; without the cuts of the round if no part is given.
fn without(sequence: &Sequence, round: usize, part: Option<Range<usize>>) -> Sequence {
    let mut shorter = sequence.clone();
    let changed = &mut shorter.rounds[round];
    match part {
        Some(part) => drop(changed.requests.drain(part)),
        None => changed.cuts.clear(),
    }
    if changed.requests.is_empty() {
        shorter.rounds.remove(round);
    }
    shorter
}

#[cfg(test)]
mod tests {
    use super::super::sequence::Round;
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let requests = [
            &b"mn\r\n"[..],
            b"get a\r\n",
            b"version\r\n",
            b"get b\r\n",
            b"get c\r\n",
        ];
        let round = Round {
            cuts: vec![3, 5],
            ..Round::of(requests)
        };
        let sequence = Sequence::of(vec![round.clone(), round.clone(), round]);
        let has = |sequence: &Sequence, wanted: &[u8]| {
            let mut requests = sequence.rounds.iter().flat_map(|round| &round.requests);
            requests.any(|request| request == wanted)
        };
        let fails = |sequence: &Sequence| has(sequence, b"get a\r\n") && has(sequence, b"get c\r\n");
        let found = minimised(sequence, fails).to_string();
        assert_eq!(found.matches("\\r\\n").count(), 2, "{found}");
        assert!(!found.contains("[3, 5]"), "{found}");
    }
}
