//! What each experiment says of its last trial while it runs.

use corelane_host::bed::{Bed, BedPlan};
use corelane_lab::classify::document::{self, HeaderTrial, LimitTrial, Trial, published};
use corelane_lab::classify::{Classification, Lists};
use corelane_lab::document::Head;
use corelane_lab::engines::{Comparison, EnginesReport, Plan, ToeplitzTrial, UdpTrial, UdpWay};
use corelane_lab::experiment::Experiment;
use corelane_lab::nic::{ModelReport, NicPlan, NicProbed, NicProof, RoundReport, TypeReport};
use corelane_lab::trial::TrialStatus;
use corelane_loops::pipeline::ThreadTrial;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn engines_report_the_rate_of_a_way_and_the_fastest_hash() {
    let plan = BedPlan::new([10, 11, 2, 1].into(), vec!["10.12.0.0/24".parse().unwrap()]);
    let comparison = Comparison {
        plan: Plan {
            udp: vec![UdpWay::Basic],
            toeplitz: vec!["tables".to_owned()],
            ..Plan::default()
        },
        left_out: Vec::new(),
        bed: Bed::loopback(&plan, "a test".to_owned()).unwrap(),
        port: 1,
        program: "corelane".into(),
        facts: Head::default(),
        descriptor_limit: 16,
    };
    let hashed = |name: &str, ns_per_hash| ToeplitzTrial {
        name: name.to_owned(),
        tuple: "ipv4-4tuple".to_owned(),
        batch: 1,
        ns_per_hash,
        ..ToeplitzTrial::default()
    };
    let mut report = EnginesReport {
        udp_trials: vec![UdpTrial {
            answered: 1_200_000,
            server_cpu_ns: 1_000_000_000,
            ..UdpTrial::default()
        }],
        toeplitz_trials: vec![hashed("tables", 7.5), hashed("oracle", 50.0)],
        ..EnginesReport::default()
    };
    comparison.conclude(&mut report);
    let results = [0, 1].map(|step| comparison.result(step, &report).unwrap());
    assert_eq!(results, ["1.20 M/CPU s", "7.50 ns/hash by tables, 1 at once"]);
    let last = &mut report.udp_trials[0].head;
    last.end(TrialStatus::Failed, "the server did not start");
    let why = Some("the server did not start".to_owned());
    assert_eq!(comparison.result(0, &report), why);
}

#[test]
fn classify_reports_the_rate_of_every_trial() {
    let request = corelane_lab::classify::Request {
        lists: Lists::all(1),
        every_combination: false,
        plan: document::Plan {
            entries: 1_000,
            burst: published::BURST,
            ring: 4096,
            duration_s: 0.001,
            cpus: vec![corelane_host::cpus::allowed().unwrap().cpus[0]],
            ..document::Plan::default()
        },
    };
    let mut experiment = Classification::new(request, Vec::new(), Head::default());
    let mut report = experiment.begin().unwrap();
    report.trials.push(Trial {
        threads: vec![ThreadTrial {
            frames: 3_000,
            wall_ns: 2_000_000,
            ..ThreadTrial::default()
        }],
        ..Trial::default()
    });
    report.limit.trials.push(LimitTrial {
        lines_per_s: 2e7,
        ..LimitTrial::default()
    });
    report.header_trials.push(HeaderTrial {
        ns_per_header: 4.25,
        ..HeaderTrial::default()
    });
    let kinds = (0..experiment.steps()).map(|step| {
        let title = experiment.title(step, &report);
        let kind = title.split(',').next().unwrap_or_default();
        let kind = if ["limit", "headers"].contains(&kind) {
            kind
        } else {
            "table"
        };
        (kind.to_owned(), experiment.result(step, &report).unwrap())
    });
    let results: BTreeSet<(String, String)> = kinds.collect();
    let expected = [
        ("headers", "4.25 ns/header"),
        ("limit", "20.0 M lines/s"),
        ("table", "1.50 M/s"),
    ];
    assert_eq!(
        results,
        expected
            .map(|(kind, result)| (kind.to_owned(), result.to_owned()))
            .into()
    );
}

#[test]
fn nic_reports_the_frames_of_the_model_or_why_it_was_skipped() {
    let proof = NicProof {
        plan: NicPlan {
            device: "eth0".to_owned(),
            rounds: Vec::new(),
            flows: 1,
            seed: 1,
        },
        program: "corelane".into(),
        facts: Head::default(),
    };
    let counts = TypeReport {
        frames: 20,
        right_hash: 19,
        right_queue: 18,
        right_program: Some(16),
    };
    let round = RoundReport {
        sent: 21,
        frames: 20,
        right_cpu: 17,
        types: BTreeMap::from([("IPV4".to_owned(), counts)]),
        ..RoundReport::default()
    };
    let mut models = [ModelReport::default(), ModelReport::default()];
    models[0].probed = Some(NicProbed {
        kernel: String::new(),
        driver: String::new(),
        queues: 4,
        rounds: vec![round],
    });
    models[1].head.step = 1;
    models[1].skipped = Some("this QEMU has no device igb".to_owned());
    let report = corelane_lab::nic::NicReport {
        head: Head::default(),
        models: models.into(),
        verdict: corelane_lab::nic::Verdict::default(),
    };
    let results = [0, 1].map(|step| proof.result(step, &report).unwrap());
    let counted = "20 frames of 21 sent: 19 with the hash, 18 by the queue, 16 by the steering program, 17 on the CPU \
                   that was computed";
    assert_eq!(results, [counted, "skipped: this QEMU has no device igb"]);
}
