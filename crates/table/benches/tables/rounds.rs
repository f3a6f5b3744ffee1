//! Rounds in which several ways alternate, and the table of their medians.

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// One way of doing the work, with a number of operations per call.
pub struct Way<'a> {
    pub name: String,
    /// The name of the way whose rate is the divisor of this one's ratio.
    pub reference: &'static str,
    pub run: Box<dyn FnMut(usize) -> u64 + 'a>,
    rates: Vec<f64>,
}

impl<'a> Way<'a> {
    /// A way whose `run` processes the piece with the given number, and returns a value that depends on it.
    pub fn new(
        name: impl Into<String>,
        reference: &'static str,
        run: impl FnMut(usize) -> u64 + 'a,
    ) -> Way<'a> {
        Way {
            name: name.into(),
            reference,
            run: Box::new(run),
            rates: Vec::new(),
        }
    }

    pub fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn best(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// The CPU time of this thread. It excludes time that other programs had the CPU, but not the cost of their use of
/// caches and memory.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("every Linux has this clock")
        .into()
}

/// Runs every way once in every round, with `operations` operations each.
pub fn run(ways: &mut [Way<'_>], rounds: usize, operations: usize) {
    let mut piece = 0;
    for _ in 0..rounds {
        for way in &mut *ways {
            piece += 1;
            let started = cpu_time();
            black_box((way.run)(piece));
            way.rates
                .push(operations as f64 / (cpu_time() - started).as_secs_f64());
        }
    }
}

/// Prints rates in millions per second, and ratios to the references.
pub fn print(title: &str, ways: &[Way<'_>]) {
    println!("\n{title}");
    println!(
        "{:<44} {:>9} {:>9} {:>8} {:>8}",
        "way", "median", "best", "ratio", "of best"
    );
    for way in ways {
        let reference = ways.iter().find(|other| other.name == way.reference);
        let ratio = |of: fn(&Way<'_>) -> f64| reference.map_or(f64::NAN, |other| of(way) / of(other));
        println!(
            "{:<44} {:>9.1} {:>9.1} {:>8.2} {:>8.2}",
            way.name,
            way.median() / 1e6,
            way.best() / 1e6,
            ratio(|way| way.median()),
            ratio(|way| way.best())
        );
    }
}
