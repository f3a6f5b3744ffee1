//! Adds up the timelines of generators that ran at the same time.
//!
//! Lines are aligned by the whole second at which they close, each by the clock of its machine. Counts, errors and
//! durations are added; rates are, too, because the first and the last line of a generator cover a part of a second.

use super::format::{CpuSpent, Header, Origin, Second, Timeline};
use corelane_measure::counters::Counters;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why a file cannot be merged with the others.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MergeError {
    /// A file of an experiment.
    #[error("a timeline of `lab` covers trials one after the other; give those of `load`")]
    Trials,
    /// A file that has several generators' lines added up.
    #[error("it is the result of a merge; give the timelines of the generators")]
    Merged,
    /// A file of another kind of generator.
    #[error("it measures {found}, the first file {expected}; give files of one kind of generator")]
    Kinds {
        /// What the first file measures.
        expected: String,
        /// What this file measures.
        found: String,
    },
}

impl Timeline {
    /// Adds up the lines of generators that ran at the same time.
    ///
    /// # Errors
    /// The place of the first file that does not fit, and why.
    pub fn merged(files: &[Self]) -> Result<Self, (usize, MergeError)> {
        let kind = |file: &Self| format!("{} ({})", file.header.durations, counted(&file.header));
        let expected = files.first().map(kind).unwrap_or_default();
        for (place, file) in files.iter().enumerate() {
            let found = kind(file);
            if file.lines.iter().any(|line| line.trial.is_some()) {
                return Err((place, MergeError::Trials));
            }
            if file.header.aligned.is_some() {
                return Err((place, MergeError::Merged));
            }
            if found != expected {
                return Err((place, MergeError::Kinds { expected, found }));
            }
        }
        let unknown = Origin::default();
        let mut by_second = BTreeMap::<i64, Vec<(&Origin, Second)>>::new();
        for file in files {
            let origin = file.header.generators.first().unwrap_or(&unknown);
            for (second, line) in file.by_second() {
                by_second.entry(second).or_default().push((origin, line));
            }
        }
        let lines: Vec<Second> = by_second.into_values().map(|lines| together(&lines)).collect();
        let start = lines.first().map_or(0.0, |line| line.unix_s - line.interval_s);
        let since_start = |line: Second| Second {
            at_s: line.unix_s - start,
            ..line
        };
        Ok(Self {
            header: header(files),
            lines: lines.into_iter().map(since_start).collect(),
            cut_bytes: files.iter().map(|file| file.cut_bytes).sum(),
        })
    }

    /// One line per whole second: the last of a run closes shortly after the one before.
    fn by_second(&self) -> BTreeMap<i64, Second> {
        let mut by_second = BTreeMap::<i64, Second>::new();
        for line in &self.lines {
            let second = line.unix_s.round() as i64;
            match by_second.get_mut(&second) {
                Some(before) => before.extend(line),
                None => drop(by_second.insert(second, line.clone())),
            }
        }
        by_second
    }
}

/// The names that a file counts.
fn counted(header: &Header) -> String {
    let fields = Header::units(&[]);
    let names = header.units.keys().filter(|name| !fields.contains_key(*name));
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn header(files: &[Timeline]) -> Header {
    let generators: Vec<Origin> = (files.iter())
        .flat_map(|file| file.header.generators.iter().cloned())
        .collect();
    let machines: BTreeSet<&String> = (generators.iter())
        .filter_map(|origin| origin.machine.as_ref())
        .collect();
    let unknown = generators.iter().any(|origin| origin.machine.is_none());
    let clocks = match machines.len() {
        1 if !unknown => "all of one machine, so by one clock".to_owned(),
        0 | 1 => "each by the clock of its machine, taken as correct; which machines is unknown".to_owned(),
        machines => {
            format!(
                "each by the clock of its machine, taken as correct; the difference of the {machines} clocks was not measured"
            )
        }
    };
    Header {
        aligned: Some(format!("by the whole second at which a line closes; {clocks}")),
        generators,
        ..files.first().map(|file| file.header.clone()).unwrap_or_default()
    }
}

/// The sum of the lines of one second.
fn together(lines: &[(&Origin, Second)]) -> Second {
    let mut all = Second {
        generators: Some(lines.len()),
        ..Second::default()
    };
    let mut stages = BTreeSet::new();
    for (_, line) in lines {
        all.unix_s = all.unix_s.max(line.unix_s);
        all.interval_s = all.interval_s.max(line.interval_s);
        all.per_second.add(&line.per_second);
        all.levels.add(&line.levels);
        all.add_events(line);
        stages.insert(line.stage.as_str());
    }
    all.stage = stages.into_iter().collect::<Vec<_>>().join(", ");
    all.cpu = cpu(lines);
    all.drops = drops(lines);
    all
}

/// The busy time of a machine counts once. CPU time of another generator on the same machine is not counted in
/// `others_s`.
fn cpu(lines: &[(&Origin, Second)]) -> Option<CpuSpent> {
    let mut machines = BTreeMap::<&String, (CpuSpent, CpuSpent)>::new();
    let mut apart = CpuSpent::default();
    for (origin, line) in lines {
        let spent = line.cpu?;
        let Some(machine) = &origin.machine else {
            apart.add(&spent);
            continue;
        };
        let (sum, most) = machines.entry(machine).or_default();
        sum.own_s += spent.own_s;
        let busy = |spent: &CpuSpent| spent.own_s + spent.others_s;
        if busy(&spent) >= busy(most) {
            *most = spent;
        }
    }
    let of_machine = |(sum, most): (CpuSpent, CpuSpent)| CpuSpent {
        own_s: sum.own_s,
        others_s: (most.own_s + most.others_s - sum.own_s).max(0.0),
        ..most
    };
    Some(
        machines
            .into_values()
            .map(of_machine)
            .fold(apart, |all, one| all.plus(&one)),
    )
}

/// Generators in one network namespace see the same drops, which count once.
fn drops(lines: &[(&Origin, Second)]) -> Option<BTreeMap<String, u64>> {
    let mut seen = BTreeMap::<(&String, u64), BTreeMap<String, u64>>::new();
    let mut all = BTreeMap::new();
    for (origin, line) in lines {
        let drops = line.drops.as_ref()?;
        let Some(place) = origin.machine.as_ref().zip(origin.network_namespace) else {
            all.add(drops);
            continue;
        };
        let most = seen.entry(place).or_default();
        for (cause, count) in drops {
            let most = most.entry(cause.clone()).or_default();
            *most = (*most).max(*count);
        }
    }
    seen.values().for_each(|drops| all.add(drops));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::histogram::Histogram;

    fn file(machine: &str, lines: &[(f64, f64, u64)]) -> Timeline {
        let line = |(unix_s, interval_s, count): &(f64, f64, u64)| {
            let mut durations = Histogram::new();
            durations.record_many(5_000, *count);
            let errors = BTreeMap::from([("reset".to_owned(), 1)]);
            Second {
                unix_s: *unix_s,
                interval_s: *interval_s,
                counts: BTreeMap::from([("ok".to_owned(), *count)]),
                drops: Some(errors.clone()),
                errors,
                durations: Some(durations),
                cpu: Some(CpuSpent {
                    own_s: 0.5,
                    others_s: 1.0,
                    ..CpuSpent::default()
                }),
                ..Second::default()
            }
            .with_rates()
        };
        Timeline {
            header: Header {
                generators: vec![Origin {
                    machine: Some(machine.to_owned()),
                    network_namespace: Some(7),
                    ..Origin::default()
                }],
                units: Header::units(&[("ok", "requests")]),
                ..Header::default()
            },
            lines: lines.iter().map(line).collect(),
            cut_bytes: 0,
        }
    }

    #[test]
    fn lines_of_one_second_are_added_and_a_machine_counts_once() {
        let one = file("a", &[(100.01, 0.5, 50), (101.02, 1.01, 101), (101.3, 0.28, 28)]);
        let two = file("a", &[(101.0, 1.0, 300), (102.0, 1.0, 300)]);
        let merged = Timeline::merged(&[one.clone(), two]).unwrap();
        let found: Vec<_> = merged
            .lines
            .iter()
            .map(|line| (line.counts["ok"], line.generators))
            .collect();
        assert_eq!(found, [(50, Some(1)), (429, Some(2)), (300, Some(1))]);
        let second = &merged.lines[1];
        assert!((second.per_second["ok"] - 400.0).abs() < 1e-6, "{second:?}");
        assert_eq!(second.durations.as_ref().map(Histogram::count), Some(429));
        // The first generator has two lines in this second, so its 3 busy seconds are the machine's.
        assert_eq!(second.cpu.map(|cpu| (cpu.own_s, cpu.others_s)), Some((1.5, 1.5)));
        assert_eq!(
            (second.errors["reset"], second.drops.as_ref().unwrap()["reset"]),
            (3, 2)
        );
        assert!(merged.header.aligned.unwrap().contains("one clock"));
        let apart = Timeline::merged(&[one, file("b", &[(101.0, 1.0, 1)])]).unwrap();
        assert_eq!(
            apart.lines[1].cpu.map(|cpu| (cpu.own_s, cpu.others_s)),
            Some((1.5, 3.0))
        );
        assert!(apart.header.aligned.unwrap().contains("2 clocks"));
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused_by_their_place() {
        let one = file("a", &[(100.0, 1.0, 1)]);
        let mut other = one.clone();
        other.header.units = Header::units(&[("returned", "datagrams")]);
        let merged = Timeline::merged(&[one.clone(), one.clone()]).unwrap();
        let refused = Timeline::merged(&[one.clone(), merged]);
        assert_eq!(refused.unwrap_err(), (1, MergeError::Merged));
        let (place, error) = Timeline::merged(&[one.clone(), other]).unwrap_err();
        assert!(place == 1 && error.to_string().contains("(returned)"), "{error}");
        let mut lab = one.clone();
        lab.lines[0].trial = Some(super::super::TrialLabel::default());
        assert_eq!(Timeline::merged(&[one, lab]), Err((1, MergeError::Trials)));
    }
}
