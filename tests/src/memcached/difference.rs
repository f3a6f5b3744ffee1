//! Sequences that a subject answers otherwise than upstream.

use super::compare::{CasOrder, Tolerance, compare};
use super::exchange::{Addresses, Answers, Connections, End, answers};
use super::generate::{Abilities, Generator};
use super::minimise::minimised;
use super::sequence::Sequence;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a difference comes back until it counts.
const REPETITIONS: usize = 3;

/// Between two repetitions: each begins at another part of the second. The clocks of two servers tick at different moments, on a busy
/// machine late, and times that are two seconds apart for some milliseconds are no difference.
const PART_OF_A_SECOND: Duration = Duration::from_millis(300);

/// Sequences with differences after which a run ends: more are of the same causes.
const MOST_DIFFERENCES: usize = 10;

/// Sequences with differences that are printed of a kind that pauses: they are long.
const MOST_OF_A_KIND: usize = 3;

/// Sequences that wait at the same time.
const BATCH: usize = 100;

/// The servers that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// Upstream, a second copy of it, and the subject.
    servers: [Addresses; 3],
    order: CasOrder,
}

/// What a sequence showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All answered alike.
    Same,
    /// Upstream differs from its second copy.
    Undecided,
    /// The subject differs: how.
    Different(String),
}

/// A run of random sequences.
#[derive(Clone, Copy, Debug)]
pub struct Differential {
    /// The first seed; each sequence has the next one.
    pub seed: u64,
    /// How many sequences.
    pub sequences: u64,
}

impl Peers {
    /// Compares a subject with two copies of upstream.
    #[must_use]
    pub fn new(upstream: Addresses, copy: Addresses, subject: Addresses, order: CasOrder) -> Self {
        Self {
            servers: [upstream, copy, subject],
            order,
        }
    }

    fn generator(&self, seed: u64, prefix: &str, now: u64) -> Generator {
        let abilities = Abilities {
            datagrams: self.servers.iter().all(|server| server.datagrams.is_some()),
            ordered_cas: self.order == CasOrder::Same,
        };
        Generator::new(seed, prefix, now, abilities)
    }

    /// Performs a sequence once.
    #[must_use]
    pub fn once(&self, sequence: &Sequence) -> Outcome {
        self.outcome(sequence, &answers(&self.servers, sequence))
    }

    fn outcome(&self, sequence: &Sequence, answers: &[Answers]) -> Outcome {
        let [upstream, copy, subject] = answers else {
            unreachable!("three servers")
        };
        let tolerance = |order: CasOrder, other: &Answers| Tolerance {
            // Upstream gives the number of a malformed `ms` to the next value.
            order: if sequence.has_malformed() {
                CasOrder::Any
            } else {
                order
            },
            aged: sequence.pauses,
            reset: [upstream.end, other.end].contains(&Some(End::Reset)),
        };
        if compare_answers(upstream, copy, tolerance(CasOrder::Same, copy)).is_err() {
            return Outcome::Undecided;
        }
        match compare_answers(upstream, subject, tolerance(self.order, subject)) {
            Ok(()) => Outcome::Same,
            Err(difference) => Outcome::Different(difference),
        }
    }

    /// Performs a sequence, and again if the subject differs: a difference that does not come back each time is none.
    #[must_use]
    pub fn repeated(&self, sequence: &Sequence) -> Outcome {
        let mut outcome = self.once(sequence);
        for _ in 1..REPETITIONS {
            if !matches!(outcome, Outcome::Different(_)) {
                break;
            }
            thread::sleep(PART_OF_A_SECOND);
            outcome = self.once(sequence);
        }
        outcome
    }

    /// Performs sequences at the same time. Each pauses after its first round, so that what it stored ages or expires.
    fn with_pause(&self, sequences: &[Sequence], pause: Duration) -> Vec<Outcome> {
        let mut open = Vec::new();
        for sequence in sequences {
            let mut connections = Connections::open(&self.servers, sequence);
            connections.play(&sequence.rounds[..1]);
            open.push(connections);
        }
        thread::sleep(pause);
        let rest = |(mut connections, sequence): (Connections, &Sequence)| {
            connections.play(&sequence.rounds[1..]);
            self.outcome(sequence, &connections.answers())
        };
        open.into_iter().zip(sequences).map(rest).collect()
    }
}

fn compare_answers(expected: &Answers, actual: &Answers, tolerance: Tolerance) -> Result<(), String> {
    compare(&expected.bytes, &actual.bytes, tolerance)?;
    if tolerance.reset || expected.end == actual.end {
        return Ok(());
    }
    let text = |end: Option<End>| end.map_or("open".to_owned(), |end| format!("{end:?}"));
    let (expected, actual) = (text(expected.end), text(actual.end));
    Err(format!(
        "upstream's connection is {expected}, the subject's {actual}"
    ))
}

impl Differential {
    /// Random sequences over these servers; the kinds that wait are a fraction of their number.
    ///
    /// # Errors
    /// The sequences that the subject answers otherwise than upstream, with their seeds.
    pub fn run(&self, peers: &Peers) -> Result<String, String> {
        let mut found = Vec::new();
        let mut undecided = 0;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        for seed in self.seed..self.seed + self.sequences {
            let sequence = peers.generator(seed, "", now).sequence();
            match peers.repeated(&sequence) {
                Outcome::Same => {}
                Outcome::Undecided => undecided += 1,
                Outcome::Different(_) => found.push(explained(peers, seed, sequence)),
            }
            if found.len() == MOST_DIFFERENCES {
                break;
            }
        }
        for kind in [Generator::ageing, Generator::flushed, Generator::flushed_later] {
            if found.len() < MOST_DIFFERENCES {
                found.extend(self.with_pauses(peers, kind, now));
            }
        }
        if found.is_empty() {
            let sequences = self.sequences;
            return Ok(format!(
                "{sequences} sequences alike; {undecided} of them undecided: upstream differs from itself"
            ));
        }
        Err(found.join("\n"))
    }

    /// One batch of sequences of a kind, which pause; those with differences again.
    fn with_pauses(
        &self,
        peers: &Peers,
        kind: fn(&mut Generator) -> (Sequence, Duration),
        now: u64,
    ) -> Vec<String> {
        let of_seed =
            |seed: usize| kind(&mut peers.generator(self.seed + seed as u64, &format!("{seed}-"), now));
        let (mut sequences, pauses): (Vec<_>, Vec<_>) = (0..BATCH).map(of_seed).unzip();
        let pause = pauses.into_iter().max().unwrap_or_default();
        let mut differences = Vec::new();
        for _ in 0..REPETITIONS {
            let outcomes = peers.with_pause(&sequences, pause);
            differences.clear();
            let mut again = Vec::new();
            for (sequence, outcome) in sequences.into_iter().zip(outcomes) {
                if let Outcome::Different(difference) = outcome {
                    differences.push(format!(
                        "seed {}, a pause of {pause:?} after round 1:\n{sequence}{difference}\n",
                        self.seed
                    ));
                    again.push(sequence);
                }
            }
            sequences = again;
        }
        differences.truncate(MOST_OF_A_KIND);
        differences
    }
}

/// A difference with the shortest sequence that shows it.
fn explained(peers: &Peers, seed: u64, sequence: Sequence) -> String {
    let differs = |sequence: &Sequence| matches!(peers.repeated(sequence), Outcome::Different(_));
    let shortest = minimised(sequence, differs);
    let mut text = format!("seed {seed}:\n{shortest}");
    match peers.once(&shortest) {
        Outcome::Different(difference) => writeln!(text, "{difference}").expect("a string"),
        other => writeln!(text, "another time: {other:?}").expect("a string"),
    }
    text
}
