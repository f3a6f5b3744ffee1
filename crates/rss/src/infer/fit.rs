//! Which models fit the samples of a kind: samples enter; models that explain every one of them, and the equations that
//! they make of the key, leave.

use super::kind::{KindSamples, Observation};
use super::model::{Input, Model, Transform};
use super::system::{Equation, System, Unknown};
use crate::key::Key;
use crate::toeplitz::Toeplitz;

/// A model that explains every sample of its kind.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub model: Model,
    pub system: System,
}

/// A wrong model passes as many checks once in 2^40 tries.
pub(super) const EVIDENCE_BITS: u64 = 40;

impl Fit {
    /// The model of fewest fields under each transform that explains all samples. A field that varies and is not among
    /// its fields is not hashed; of one that never varies nothing is known.
    pub fn simplest(samples: &KindSamples) -> Vec<Fit> {
        let simplest = Transform::ALL.into_iter().filter_map(|transform| {
            let informative = samples.informative(transform);
            let models = Model::all(transform, samples.kind);
            models
                .into_iter()
                .find_map(|model| Fit::new(samples, &informative, model))
        });
        simplest.collect()
    }

    fn new(samples: &KindSamples, informative: &[Observation], model: Model) -> Option<Fit> {
        let mut system = System::new();
        let agree = informative
            .iter()
            .all(|observation| observe(&mut system, samples, model, observation));
        let fit = Fit { model, system };
        (agree && fit.explains(samples)).then_some(fit)
    }

    /// Is there enough to rule out that it fits by chance?
    pub fn is_established(&self) -> bool {
        self.system.redundant >= EVIDENCE_BITS
    }

    /// Does one solution give every sample's hash? Since inputs are sums of those that the equations were made of, then all
    /// solutions do.
    fn explains(&self, samples: &KindSamples) -> bool {
        let (key, initial) = solution(&self.system, samples.number);
        let toeplitz = Toeplitz::new(&key);
        samples.observations.iter().all(|observation| {
            let hash = self
                .model
                .hash(&toeplitz, &observation.input, samples.kind.family)
                ^ initial;
            (hash ^ observation.hash) & samples.known == 0
        })
    }
}

/// Takes the equations of one sample in; false when they contradict those before.
pub(super) fn observe(
    system: &mut System,
    samples: &KindSamples,
    model: Model,
    observation: &Observation,
) -> bool {
    let hashed = model.hashed(&observation.input, samples.kind.family);
    samples.known_bits().all(|bit| {
        let mut equation = contribution(&hashed, bit);
        equation.add(Unknown::Initial(samples.number, bit));
        equation.add_value(observation.hash >> bit & 1 == 1);
        system.take(equation)
    })
}

/// A key that solves the equations, of 40 bytes, and the initial value of a kind.
pub(super) fn solution(system: &System, kind: usize) -> (Key, u32) {
    let solution = system.solution();
    let mut bytes = [0; Key::MINIMUM];
    for bit in 0..8 * Key::MINIMUM {
        bytes[bit / 8] |= u8::from(solution(Unknown::Key(bit))) << (7 - bit % 8);
    }
    let initial = (0..32).map(|bit| u32::from(solution(Unknown::Initial(kind, bit))) << bit);
    let key = Key::from_bytes(&bytes).expect("40 bytes are a key");
    (key, initial.sum())
}

/// The sum of key bits that is this bit of the hash: bit 31, the first, is made of windows' first bits.
pub(super) fn contribution(hashed: &Input, bit: usize) -> Equation {
    let mut equation = Equation::default();
    for (at, byte) in hashed.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        for within in (0..8).filter(|within| byte << within & 0x80 != 0) {
            equation.add(Unknown::Key(8 * at + within + 31 - bit));
        }
    }
    equation
}
