//! From raw trials to steps, beyond what the metrics' declarations say: growth, errors, memory.

use super::{MemoryPerConnection, Protocol, Segments, Step, StreamsReport, Trial};
use crate::steps::{Scaling, Stepped, cpu_shares, summed};
use crate::streams::metrics::{
    CLIENT_PER_REQUEST, LATENCY, LINEARITY, OF_REQUESTS, PAYLOAD, REQUESTS, SERVER_PER_REQUEST, STEERING,
};
use corelane_measure::metric::Measured;
use corelane_measure::statistics;

/// The metrics whose reason a reader looks for where they are missing.
const LOOKED_FOR: [&str; 7] = [
    REQUESTS.name,
    PAYLOAD.name,
    LINEARITY.name,
    LATENCY.name,
    SERVER_PER_REQUEST.name,
    CLIENT_PER_REQUEST.name,
    STEERING.name,
];

impl StreamsReport {
    /// Fills in every step from its valid trials, then linearity from the rounds that steps share, and the law of growth.
    /// Limits stay as they are.
    pub fn summarise(&mut self) {
        self.fill();
        let linearity: Vec<_> = (0..self.steps.len())
            .map(|step| {
                let active = self.steps[step].shape.buckets_active;
                self.linearity(self.rate(), active, (step, self.base(step)?))
            })
            .collect();
        for (index, step) in self.steps.iter_mut().enumerate() {
            step.summed.values.set_spread(&LINEARITY, linearity[index]);
            let own = |trial: &&Trial| trial.tried.step == index && trial.tried.is_valid();
            let valid: Vec<&Trial> = self.trials.iter().filter(own).collect();
            fill(step, &valid);
        }
        let of_bytes = self.protocol == Protocol::Tcp;
        self.give_reasons(
            |step| {
                let missing = LOOKED_FOR.into_iter().filter(|name| step.values().is_null(name));
                missing.chain(step.memory.is_none().then_some("memory")).collect()
            },
            |_, name| {
                let bytes = of_bytes && OF_REQUESTS.contains(&name);
                bytes.then(|| "bytes are measured, not requests".to_owned())
            },
        );
        self.scaling = self.law();
    }

    /// The scaling law of the main series, from the medians, of requests or bits a second. Workers are CPUs: buckets that
    /// share one add none.
    fn law(&self) -> Scaling {
        let unit = match self.protocol {
            Protocol::Http => 1.0,
            Protocol::Tcp => 1e9,
        };
        let main = self.main_series().map_or_else(Vec::new, |series| series.steps);
        let point = |step: &Step| Some((step.cpu_count(), self.rate().of(step)? * unit));
        Scaling::of(&main.into_iter().filter_map(point).collect::<Vec<_>>())
    }

    /// The step at one bucket that a step grew from.
    fn base(&self, index: usize) -> Option<usize> {
        let shape = &self.steps[index].shape;
        let base = |other: &Step| other.shape.buckets_active == 1 && other.shape.grows_to(shape);
        self.steps.iter().position(base)
    }
}

fn fill(step: &mut Step, valid: &[&Trial]) {
    step.cpu_shares = cpu_shares(valid.iter().flat_map(|trial| &trial.cpu_shares));

    step.errors =
        summed((valid.iter()).flat_map(|trial| trial.errors.iter().chain(&trial.connections.failed)));
    let segments = valid.iter().filter_map(|trial| trial.segments);
    step.segments = segments.reduce(Segments::plus);
    step.kernel = summed(valid.iter().flat_map(|trial| &trial.kernel));
    let memory = |part: fn(&MemoryPerConnection) -> Option<f64>| {
        let each = |trial: &&Trial| part(&trial.memory.as_ref()?.per_connection());
        statistics::median(&valid.iter().filter_map(each).collect::<Vec<_>>())
    };
    step.memory_per_connection = MemoryPerConnection {
        client_user_bytes: memory(|each| each.client_user_bytes),
        server_user_bytes: memory(|each| each.server_user_bytes),
        kernel_bytes: memory(|each| each.kernel_bytes),
    };
    step.memory = valid.iter().rev().find_map(|trial| trial.memory.clone());
}
