use super::*;
use crate::engines::{EnginesReport, UdpTrial};
use corelane_host::counters::CpuTime;
use std::collections::BTreeMap;
use std::convert::Infallible;

const SCHEDULE: Schedule = Schedule {
    rounds: 2,
    max_steal: 0.1,
    seed: 1,
};

#[test]
fn every_step_is_tried_once_a_round_in_the_seeds_order() {
    let mut tried = [Vec::new(), Vec::new()];
    let interrupted = in_order((SCHEDULE, MOST_REPEATS), 5, &AtomicBool::new(false), |turn, _| {
        tried[turn.round].push(turn.step);
        Ok::<_, Infallible>(false)
    });
    assert_eq!(interrupted, Ok(false));
    // The same seed always gives the same order.
    assert_eq!(tried, [[3, 2, 1, 4, 0], [1, 0, 2, 3, 4]]);
}

#[test]
fn nothing_is_tried_after_an_interrupt() {
    let (interrupt, mut tried) = (AtomicBool::new(false), 0);
    let interrupted = in_order((SCHEDULE, MOST_REPEATS), 5, &interrupt, |_, _| {
        tried += 1;
        interrupt.store(tried == 3, Ordering::Relaxed);
        Ok::<_, Infallible>(false)
    });
    assert_eq!((interrupted, tried), (Ok(true), 3));
}

#[test]
fn what_was_spoilt_has_its_turn_again_when_the_round_is_through() {
    let mut turns = Vec::new();
    let interrupted = in_order((SCHEDULE, MOST_REPEATS), 5, &AtomicBool::new(false), |turn, _| {
        turns.push((turn.round, turn.step));
        // Step 1 is disturbed twice in each round, and step 3 of the first round every time.
        let times = turns
            .iter()
            .filter(|earlier| **earlier == (turn.round, turn.step))
            .count();
        let is_spoilt = turn.step == 3 && turn.round == 0 || turn.step == 1 && times < 3;
        Ok::<_, Infallible>(is_spoilt)
    });
    assert_eq!(interrupted, Ok(false));
    let rounds = [0, 1].map(|round| {
        let own = turns.iter().filter(move |turn| turn.0 == round);
        own.map(|turn| turn.1).collect::<Vec<_>>()
    });
    assert_eq!(
        rounds,
        [vec![3, 2, 1, 4, 0, 3, 1, 3, 1, 3], vec![1, 0, 2, 3, 4, 1, 1]]
    );
}

#[test]
fn what_was_spoilt_in_a_quick_run_is_not_repeated() {
    let mut turns = Vec::new();
    let interrupted = in_order((SCHEDULE, 0), 3, &AtomicBool::new(false), |turn, of| {
        turns.push((turn.step, of));
        Ok::<_, Infallible>(true)
    });
    assert_eq!(interrupted, Ok(false));
    turns.sort_unstable();
    assert_eq!(turns, [(0, 6), (0, 6), (1, 6), (1, 6), (2, 6), (2, 6)]);
}

#[test]
fn more_time_stolen_than_may_be_spoils_a_trial() {
    let spoilt = |idle_ns: u64, steal_ns: u64| spoilt(0.1, &times(idle_ns, steal_ns));
    let why = "11.0 % of CPU time was stolen, and --max-steal is 10.0 %";
    assert_eq!(spoilt(89, 11).as_deref(), Some(why));
    assert_eq!(spoilt(90, 10), None);
    assert_eq!(spoilt(0, 0), None);
}

/// Four steps, tried in the order 3, 2, 1, 0 within the only round: one that is measured, one that fails, one whose
/// first trial is spoilt, and one that an interrupt cuts.
struct Fake {
    tries: usize,
}

impl Experiment for Fake {
    type Document = EnginesReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(Value::Null)
    }

    fn begin(&mut self) -> anyhow::Result<EnginesReport> {
        Ok(EnginesReport::default())
    }

    fn steps(&self) -> usize {
        4
    }

    fn title(&self, step: usize, _: &EnginesReport) -> String {
        format!("step {step}")
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut EnginesReport) -> anyhow::Result<()> {
        self.tries += 1;
        let steal_ns = match self.tries {
            2 => anyhow::bail!("the server did not start"),
            3 => 50,
            _ => 0,
        };
        if self.tries == 5 {
            running.watch().interrupt.store(true, Ordering::Relaxed);
        }
        running.clocked(times(50, steal_ns));
        report.udp_trials.push(UdpTrial {
            head: running.head(1.0),
            ..UdpTrial::default()
        });
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut EnginesReport) -> &'a mut dyn RawTrials {
        &mut report.udp_trials
    }

    fn conclude(&self, _: &mut EnginesReport) {}
}

fn times(idle_ns: u64, steal_ns: u64) -> CpuTimes {
    let time = CpuTime {
        idle_ns,
        steal_ns,
        ..CpuTime::default()
    };
    CpuTimes {
        cpus: BTreeMap::from([(0, time)]),
    }
}

#[test]
fn every_experiment_keeps_its_failed_spoilt_and_interrupted_trials_with_their_status() {
    let (mut fake, interrupt) = (Fake { tries: 0 }, AtomicBool::new(false));
    let schedule = Schedule {
        rounds: 1,
        ..SCHEDULE
    };
    let report = run(
        &mut fake,
        EnginesReport::default(),
        schedule,
        (&interrupt, None),
        |_| (),
    )
    .unwrap();
    let ended: Vec<_> = report.udp_trials.iter().map(|trial| trial.head.status).collect();
    assert_eq!(
        ended,
        [
            TrialStatus::Valid,
            TrialStatus::Failed,
            TrialStatus::Spoilt,
            TrialStatus::Valid,
            TrialStatus::Interrupted,
        ]
    );
    let failed = &report.udp_trials[1];
    assert_eq!(failed.head.why.as_deref(), Some("the server did not start"));
    assert_eq!(failed.name, format!("step {}", failed.head.step));
    assert_eq!(report.udp_trials[4].head.step, report.udp_trials[2].head.step);
    assert!(report.head.interrupted);
    assert_eq!(report.head.failed_trials, 1);
}

#[test]
fn a_trial_that_does_not_stop_early_is_a_result_in_spite_of_an_interrupt() {
    let interrupt = AtomicBool::new(true);
    let turn = Turn { step: 0, round: 0 };
    let watch = Watch {
        interrupt: &interrupt,
        lines: None,
    };
    let mut running = RunningTrial::new(turn, watch);
    assert_eq!(running.set_aside(&SCHEDULE), None);
    running.watch();
    assert_eq!(
        running.set_aside(&SCHEDULE).map(|(status, _)| status),
        Some(TrialStatus::Interrupted)
    );
}

/// An experiment whose only trial fails, after an interrupt or without, after it has begun or before.
struct Cut {
    interrupted: bool,
    begun: bool,
}

impl Experiment for Cut {
    type Document = EnginesReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(Value::Null)
    }

    fn begin(&mut self) -> anyhow::Result<EnginesReport> {
        Ok(EnginesReport::default())
    }

    fn steps(&self) -> usize {
        1
    }

    fn title(&self, _: usize, _: &EnginesReport) -> String {
        "only".to_owned()
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, _: &mut EnginesReport) -> anyhow::Result<()> {
        let interrupt = running.watch().interrupt;
        interrupt.store(self.interrupted, Ordering::Relaxed);
        if self.begun {
            running.begun();
        }
        anyhow::bail!("the generator has not run for 10 s")
    }

    fn raw<'a>(&self, _: usize, report: &'a mut EnginesReport) -> &'a mut dyn RawTrials {
        &mut report.udp_trials
    }

    fn conclude(&self, _: &mut EnginesReport) {}
}

#[test]
fn a_first_trial_that_an_interrupt_cut_or_that_had_begun_is_reported() {
    let run = |interrupted, begun| {
        let interrupt = AtomicBool::new(false);
        let outputs = (&interrupt, None);
        run(
            &mut Cut { interrupted, begun },
            EnginesReport::default(),
            SCHEDULE,
            outputs,
            |_| (),
        )
    };
    let report = run(true, false).unwrap();
    let head = &report.udp_trials[0].head;
    assert_eq!(
        (head.status, head.why.as_deref()),
        (
            TrialStatus::Interrupted,
            Some("the generator has not run for 10 s")
        )
    );
    assert!(report.head.interrupted);
    assert_eq!((report.udp_trials.len(), report.head.failed_trials), (1, 0));
    assert!(
        run(false, false).is_err(),
        "a first trial that cannot begin ends the run"
    );
    let report = run(false, true).unwrap();
    let ended: Vec<_> = report.udp_trials.iter().map(|trial| trial.head.status).collect();
    assert_eq!(ended, [TrialStatus::Failed; 2], "both rounds were tried");
    assert_eq!((report.head.interrupted, report.head.failed_trials), (false, 2));
}
