//! Known work appears in the profile at its place. Needs root, or `kernel.perf_event_paranoid` of 0 or less.

use std::hint::black_box;
use std::process::id;

use corelane_observe::ObserveError;
use corelane_observe::profile::{FunctionTable, Processes, Profile, Profiler};

use crate::common::{alone, cpus, flood};

/// Takes some tenths of a second, which gives a few hundred samples.
const ROUNDS: u64 = 400_000_000;

#[inline(never)]
fn spin_on_purpose(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum, round| black_box(sum ^ round).rotate_left(5))
}

/// Samples all CPUs, with this process as the server; `None`, after printing the reason, if the machine does not permit
/// it.
fn start() -> Option<Profiler> {
    let processes = Processes {
        server: vec![id()],
        generator: id(),
    };
    match Profiler::start(&cpus(), &processes) {
        Err(error @ ObserveError::Forbidden { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

/// Profiles the work, and again while samples were lost: beside other programs they may be read too late. `None` if the
/// machine does not permit it.
fn profiled(work: impl Fn()) -> Option<Profile> {
    let turn = || {
        let profiler = start()?;
        work();
        Some(profiler.finish().unwrap())
    };
    let mut profile = turn()?;
    for _ in 0..9 {
        if profile.lost_samples > 0 {
            profile = turn()?;
        }
    }
    Some(profile)
}

fn assert_every_sample_is_in_one_place(profile: &Profile) {
    assert_eq!(
        profile.samples,
        profile.workers.samples
            + profile.clients.samples
            + profile.softirq.samples
            + profile.idle_samples
            + profile.elsewhere_samples
    );
}

#[test]
fn a_busy_loop_is_at_the_top_of_its_process() {
    let _alone = alone();
    let Some(profile) = profiled(|| {
        black_box(spin_on_purpose(ROUNDS));
    }) else {
        return;
    };
    assert_every_sample_is_in_one_place(&profile);
    let rows = &profile.workers.rows;
    assert!(rows[0].function.ends_with("::spin_on_purpose"), "{rows:?}");
    assert!(rows[0].samples_percent > 50.0, "{rows:?}");
    assert!(rows[0].image.starts_with("all-"), "{rows:?}");
    assert_eq!(profile.lost_samples, 0);
}

#[test]
fn a_flood_of_datagrams_shows_udp_in_softirq_and_sending_in_the_process() {
    let _alone = alone();
    let Some(profile) = profiled(|| flood(300_000)) else {
        return;
    };
    assert_every_sample_is_in_one_place(&profile);
    let names = |table: &FunctionTable| -> Vec<String> {
        table.rows.iter().map(|row| row.function.clone()).collect()
    };
    let (of_process, in_softirq) = (names(&profile.workers), names(&profile.softirq));
    if profile.notes.iter().any(|note| note.contains("have no names")) {
        eprintln!("skipped: {}", profile.notes.join("; "));
        return;
    }
    // A function is sampled where the CPU was, so that a short one may have no sample of its own.
    let of_udp = ["udp_sendmsg", "udp_send_skb"];
    let sends = [&of_udp[..], &["ip_make_skb", "ip_append_data"]].concat();
    let receives = [
        "udp_queue_rcv",
        "udp4_lib_lookup",
        "__udp4_lib_rcv",
        "udp_unicast_rcv",
    ];
    let any = |names: &[String], of: &[&str]| {
        let is_one = |name: &String| of.iter().any(|function| name.contains(function));
        names.iter().any(is_one)
    };
    assert!(any(&of_process, &sends), "{of_process:?}");
    assert!(any(&in_softirq, &receives), "{in_softirq:?}");
    // TCP's resets, of other programs, are made in softirq by what the process sends with, too.
    assert!(!any(&in_softirq, &of_udp), "{in_softirq:?}");
}

#[test]
fn kernel_functions_name_their_callers_and_the_shares_add_up() {
    let _alone = alone();
    let Some(profiler) = start() else {
        return;
    };
    flood(300_000);
    let profile = profiler.finish().unwrap();
    for table in [&profile.softirq, &profile.workers] {
        let shares: f64 = table.rows.iter().map(|row| row.samples_percent).sum();
        assert!(table.samples == 0 || (shares - 100.0).abs() < 0.01, "{shares}");
        for row in &table.rows {
            let by_callers: f64 = row.callers.iter().map(|caller| caller.samples_percent).sum();
            assert!(by_callers <= row.samples_percent + 1e-9, "{row:?}");
        }
    }
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    // Beyond the highest id that `/proc/sys/kernel/pid_max` allows, so no process has it.
    let nobody = 1 << 22;
    let processes = Processes {
        server: vec![id()],
        generator: nobody,
    };
    let error = Profiler::start(&cpus(), &processes).err().unwrap();
    assert!(error.to_string().contains("process 4194304"), "{error}");
}

#[test]
fn a_profile_is_read_back_from_json() {
    let _alone = alone();
    let Some(profiler) = start() else {
        return;
    };
    black_box(spin_on_purpose(ROUNDS / 10));
    let profile = profiler.finish().unwrap();
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}
