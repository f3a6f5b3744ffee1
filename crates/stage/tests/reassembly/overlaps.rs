//! Every way in which up to three fragments of a datagram can lie on a grid of five units of 8 bytes, under every policy, for
//! both families: compared with models that know only units. That of Linux is compared with the kernel, too.

use super::Bench;
use super::frames::{Family, Fragment, data};
use corelane_stage::reassembly::{Overlap, OverlapIpv6, Plan};

/// The units of the grid, and bytes of each.
pub const UNITS: usize = 5;
pub const UNIT: usize = 8;

/// A fragment on the grid: its first unit, the one behind its last, and whether more follow.
pub type Shape = (usize, usize, bool);

/// All fragments on the grid. One from the first unit on that no other follows is none: it is a whole datagram.
fn shapes() -> Vec<Shape> {
    let ranges = (0..UNITS).flat_map(|start| (start + 1..=UNITS).map(move |end| (start, end)));
    ranges
        .flat_map(|(start, end)| [(start, end, true), (start, end, false)])
        .filter(|(start, _, more)| *start > 0 || *more)
        .collect()
}

/// Every sequence of one, two and three fragments.
pub fn sequences() -> Vec<Vec<Shape>> {
    let shapes = shapes();
    let longer = |sequences: &[Vec<Shape>]| -> Vec<Vec<Shape>> {
        let with = |sequence: &Vec<Shape>, shape: &Shape| [&sequence[..], &[*shape]].concat();
        sequences
            .iter()
            .flat_map(|sequence| {
                shapes
                    .iter()
                    .map(|shape| with(sequence, shape))
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let one = longer(&[Vec::new()]);
    let two = longer(&one);
    let three = longer(&two);
    [one, two, three].concat()
}

/// The fragments of a sequence. In the first byte of each unit is the number of the fragment, unless all `agree` on the bytes.
pub fn fragments(family: Family, id: u32, sequence: &[Shape], agree: bool) -> Vec<Fragment> {
    let fragment = |(number, (start, end, more)): (usize, &Shape)| {
        let unit = |unit: usize| {
            let [a, b, c, d] = id.to_be_bytes();
            [if agree { 0 } else { number as u8 }, unit as u8, a, b, c, d, 0, 0]
        };
        let bytes: Vec<u8> = (*start..*end).flat_map(unit).collect();
        Fragment::new(family, id, start * UNIT, *more, &bytes)
    };
    sequence.iter().enumerate().map(fragment).collect()
}

/// What a model knows of a datagram.
#[derive(Clone, Default)]
struct Model {
    /// By unit, the number of the fragment that gave it.
    given: [Option<u8>; UNITS],
    /// By fragment, its run.
    runs: [usize; 3],
    /// By fragment, its shape.
    shapes: [Option<Shape>; 3],
    end: usize,
    is_end_known: bool,
}

/// What a fragment does to its datagram.
#[derive(PartialEq)]
enum Does {
    /// It gives something new.
    Adds,
    Nothing,
    Ruins,
}

impl Model {
    fn takes(&mut self, number: u8, shape: Shape, policy: Overlap, agree: bool) -> Does {
        let (start, end, more) = shape;
        let (furthest, was_known) = (self.end, self.is_end_known);
        let trims = policy == Overlap::Trim;
        let contradicts = match more {
            true => was_known && (end > furthest || trims && end == furthest),
            false => end < furthest || was_known && end != furthest,
        };
        if contradicts {
            return if trims { Does::Nothing } else { Does::Ruins };
        }
        self.end = furthest.max(end);
        self.is_end_known |= !more;
        let given: Vec<u8> = self.given[start..end].iter().flatten().copied().collect();
        let run = |other: u8| self.runs[usize::from(other)];
        let gives_again = match policy {
            Overlap::Linux => given.iter().all(|other| run(*other) == run(given[0])),
            _ => given
                .iter()
                .all(|other| self.shapes[usize::from(*other)] == Some(shape) && agree),
        };
        if trims {
            self.trims(number, start, end)
        } else if given.is_empty() {
            let last = self.given.iter().rposition(Option::is_some);
            let appended = last
                .filter(|last| *last + 1 == start)
                .and_then(|last| self.given[last]);
            self.runs[usize::from(number)] = run(appended.unwrap_or(number));
            self.shapes[usize::from(number)] = Some(shape);
            self.given[start..end].fill(Some(number));
            Does::Adds
        } else if given.len() == end - start && gives_again {
            Does::Nothing
        } else {
            Does::Ruins
        }
    }

    /// Who gave the first unit keeps all that follow it; who gave others loses them.
    fn trims(&mut self, number: u8, start: usize, end: usize) -> Does {
        let keeps = self.given[start];
        let is_new = |unit: &usize| keeps.is_none() || self.given[*unit] != keeps;
        match (start..end).find(is_new) {
            Some(from) => {
                self.given[from..end].fill(Some(number));
                Does::Adds
            }
            None => Does::Nothing,
        }
    }

    /// Who gave each unit of the whole datagram.
    fn whole(&self) -> Option<Vec<u8>> {
        let given: Option<Vec<u8>> = self.given[..self.end].iter().copied().collect();
        given.filter(|_| self.is_end_known)
    }
}

/// Who gave each unit of the datagrams that a sequence makes whole.
fn expected(sequence: &[Shape], policy: Overlap, agree: bool) -> Vec<Vec<u8>> {
    let fresh = Model {
        runs: [0, 1, 2],
        ..Model::default()
    };
    let (mut model, mut whole) = (fresh.clone(), Vec::new());
    for (number, shape) in (0..).zip(sequence) {
        let does = model.takes(number, *shape, policy, agree);
        // One that gives nothing new completes nothing, though it may say where the end is.
        let completed = model.whole().filter(|_| does == Does::Adds);
        if does == Does::Ruins || completed.is_some() {
            model = fresh.clone();
        }
        whole.extend(completed);
    }
    whole
}

/// Who gave each unit of a whole datagram, whose units are all in their places.
pub fn who_gave(data: &[u8]) -> Vec<u8> {
    let (units, rest) = data.as_chunks::<UNIT>();
    assert!(rest.is_empty());
    for (place, unit) in units.iter().enumerate() {
        assert_eq!(usize::from(unit[1]), place);
    }
    units.iter().map(|unit| unit[0]).collect()
}

fn compare(family: Family, plan: Plan, policy: Overlap, agree: bool) {
    let mut bench = Bench::new(plan);
    let (mut whole, mut sequences_of_whole) = (0, 0);
    for (id, sequence) in (0..).zip(sequences()) {
        let frames: Vec<_> = fragments(family, id, &sequence, agree)
            .iter()
            .map(Fragment::frame)
            .collect();
        let left = bench.run(&frames);
        let mut expected = expected(&sequence, policy, agree);
        if agree {
            expected.iter_mut().flatten().for_each(|number| *number = 0);
        }
        let found: Vec<_> = left.iter().map(|frame| who_gave(data(frame))).collect();
        assert_eq!(found, expected, "{family:?} {policy:?} {sequence:?}");
        whole += found.len();
        sequences_of_whole += usize::from(!found.is_empty());
    }
    assert!(whole >= sequences_of_whole && sequences_of_whole > 100);
    assert_eq!(bench.counts.datagrams.get(), whole as u64);
}

#[test]
fn every_overlap_of_three_ipv4_fragments_gives_what_the_policy_says() {
    for policy in [Overlap::Linux, Overlap::Drop, Overlap::Trim] {
        for agree in [false, true] {
            let plan = Plan {
                overlap_ipv4: policy,
                ..Plan::default()
            };
            compare(Family::V4, plan, policy, agree);
        }
    }
}

#[test]
fn every_overlap_of_three_ipv6_fragments_gives_what_the_policy_says() {
    for overlap_ipv6 in [OverlapIpv6::Linux, OverlapIpv6::Drop] {
        for agree in [false, true] {
            let plan = Plan {
                overlap_ipv6,
                ..Plan::default()
            };
            compare(Family::V6, plan, overlap_ipv6.into(), agree);
        }
    }
}
