//! Finds the models that explain all samples of a kind, and the equations for the key under each model.

use super::model::Model;
use super::samples::{KindSamples, Observation};
use super::system::{Equation, System, Unknown};
use crate::key::Key;
use crate::toeplitz::Toeplitz;
use crate::transform::Transform;

/// A model that explains every sample of its kind.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub model: Model,
    pub system: System,
}

/// A wrong model passes this many checks once in 2^40 tries.
pub(super) const EVIDENCE_BITS: u64 = 40;

impl Fit {
    /// For each transform, the model with the fewest fields that explains all samples. A varying field outside the
    /// model is not hashed; nothing is known of a field that never varies.
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

    /// Whether there is enough evidence to rule out a coincidence.
    pub fn is_established(&self) -> bool {
        self.system.redundant >= EVIDENCE_BITS
    }

    /// Whether one solution yields every sample's hash. Then all solutions do, because the inputs are sums of those
    /// behind the equations.
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

/// Adds the equations of one sample; false if they contradict the earlier ones.
pub(super) fn observe(
    system: &mut System,
    samples: &KindSamples,
    model: Model,
    observation: &Observation,
) -> bool {
    let hashed = model.hashed(&observation.input, samples.kind.family);
    samples.known_bits().all(|bit| {
        let mut equation = Equation::of_input(&hashed, bit);
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
