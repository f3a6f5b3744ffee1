//! Known work is found in its profile, where it belongs. Needs root, or `kernel.perf_event_paranoid` of 0 or less.

use std::hint::black_box;
use std::process::id;

use corelane_observe::ObserveError;
use corelane_observe::profile::{Profile, Profiler, Settings, Target};

use crate::common::{alone, cpus, flood};

/// Some tenths of a second: a few hundred samples.
const ROUNDS: u64 = 400_000_000;

#[inline(never)]
fn spin_on_purpose(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum, round| black_box(sum ^ round).rotate_left(5))
}

/// Starts with this process among the named ones; `None`, with the reason told, where the machine does not permit it.
fn start(target: Target) -> Option<Profiler> {
    let settings = Settings {
        processes: vec![id()],
        ..Settings::default()
    };
    match Profiler::start(target, settings) {
        Err(error @ ObserveError::Forbidden { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

fn assert_every_sample_is_in_one_place(profile: &Profile) {
    let of_processes: u64 = profile
        .processes
        .iter()
        .map(|process| process.functions.samples)
        .sum();
    assert_eq!(
        profile.samples,
        of_processes + profile.softirq.samples + profile.idle_samples + profile.elsewhere_samples
    );
}

#[test]
fn a_busy_loop_is_at_the_top_of_its_process() {
    let _alone = alone();
    let Some(profiler) = start(Target::Process(id())) else {
        return;
    };
    // The threads that exist are sampled: this one is among them.
    black_box(spin_on_purpose(ROUNDS));
    let profile = profiler.finish().unwrap();
    assert_every_sample_is_in_one_place(&profile);
    let functions = &profile.processes[0].functions;
    let top = &functions.functions[0];
    let text = functions.table(5).render(100);
    assert!(top.function.ends_with("::spin_on_purpose"), "{text}");
    assert!(top.share_percent > 50.0, "{text}");
    assert!(top.image.starts_with("all-"), "{text}");
    assert_eq!(profile.lost_samples, 0);
}

#[test]
fn a_busy_loop_is_at_the_top_of_its_process_when_whole_cpus_are_sampled() {
    let _alone = alone();
    let Some(profiler) = start(Target::Cpus(cpus())) else {
        return;
    };
    black_box(spin_on_purpose(ROUNDS));
    let profile = profiler.finish().unwrap();
    assert_every_sample_is_in_one_place(&profile);
    let functions = &profile.processes[0].functions;
    let text = functions.table(5).render(100);
    assert!(
        functions.functions[0].function.ends_with("::spin_on_purpose"),
        "{text}"
    );
}

#[test]
fn a_flood_of_datagrams_shows_udp_in_softirq_and_sending_in_the_process() {
    let _alone = alone();
    let Some(profiler) = start(Target::Cpus(cpus())) else {
        return;
    };
    flood(300_000);
    let profile = profiler.finish().unwrap();
    assert_every_sample_is_in_one_place(&profile);
    let of_process = profile.processes[0].functions.table(40).render(160);
    let in_softirq = profile.softirq.table(40).render(160);
    if profile.notes.iter().any(|note| note.contains("have no names")) {
        eprintln!("skipped: {}", profile.notes.join("; "));
        return;
    }
    assert!(of_process.contains("udp_sendmsg"), "{of_process}");
    let receives = [
        "udp_queue_rcv",
        "udp4_lib_lookup",
        "__udp4_lib_rcv",
        "udp_unicast_rcv",
    ];
    assert!(
        receives.iter().any(|function| in_softirq.contains(function)),
        "{in_softirq}"
    );
    assert!(!in_softirq.contains("udp_sendmsg "), "{in_softirq}");
}

#[test]
fn kernel_functions_name_their_callers_and_the_shares_add_up() {
    let _alone = alone();
    let Some(profiler) = start(Target::Cpus(cpus())) else {
        return;
    };
    flood(300_000);
    let profile = profiler.finish().unwrap();
    for table in [&profile.softirq, &profile.processes[0].functions] {
        let shares: f64 = table
            .functions
            .iter()
            .map(|function| function.share_percent)
            .sum();
        assert!(table.samples == 0 || (shares - 100.0).abs() < 0.01, "{shares}");
        for function in &table.functions {
            let by_callers: u64 = function.callers.iter().map(|caller| caller.samples).sum();
            assert!(by_callers <= function.samples, "{function:?}");
        }
    }
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    // Beyond the highest id that `/proc/sys/kernel/pid_max` allows.
    let nobody = 1 << 22;
    let error = Profiler::start(Target::Process(nobody), Settings::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("process 4194304"), "{error}");
}

#[test]
fn a_profile_is_read_back_from_json() {
    let _alone = alone();
    let Some(profiler) = start(Target::Process(id())) else {
        return;
    };
    black_box(spin_on_purpose(ROUNDS / 10));
    let profile = profiler.finish().unwrap();
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}
