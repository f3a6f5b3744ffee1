//! Plans: what is refused before anything is opened, and what changes while a bridge runs.

use super::frames::datagram;
use super::rings::{Rings, ip, table, written};
use corelane_packet::HashTypes;
use corelane_rss::{IndirectionTable, Key};
use corelane_serve::Server;
use corelane_serve::bridge::{Bridge, BridgePlan, BucketsPlan, OnMatch, Sides, Verdict};
use corelane_stage::StagePlans;
use corelane_stage::dispatch::{DispatchPlan, Method};
use corelane_tests::until;
use serde_json::{Value, json};

fn buckets(buckets: u16) -> BucketsPlan {
    BucketsPlan {
        key: Key::VERIFICATION,
        hash_types: HashTypes::TWO_TUPLE,
        table: IndirectionTable::round_robin(128, buckets.into()).unwrap(),
        buckets,
        dispatch: DispatchPlan::default(),
    }
}

fn stages(plans: Value) -> StagePlans {
    serde_json::from_value(plans).unwrap()
}

/// A VXLAN, for frames of all links or of one.
fn vxlan(link: Option<usize>) -> Value {
    let mut plan = json!({ "kind": "vxlan", "vni": 7, "local": "192.0.2.1", "remote": "192.0.2.2" });
    if let Some(link) = link {
        plan["link"] = link.into();
    }
    plan
}

type Change = fn(&mut BridgePlan);

/// Changes of a plan, and why they are refused.
const REFUSED: [(Change, &str); 25] = [
    (
        |plan| plan.links.truncate(1),
        "link: a bridge needs two links or more",
    ),
    (|plan| plan.burst = 5000, "batch: 5000 frames: give 1 to 4096"),
    (|plan| plan.burst = 0, "batch: 0 frames: give 1 to 4096"),
    (
        |plan| plan.stages = stages(json!({ "segment": {} })),
        "segment: there are no merged segments to cut: add coalesce",
    ),
    (
        |plan| {
            plan.links[1] = "xdp:eth0".to_owned();
            plan.stages = stages(json!({ "coalesce": {} }));
        },
        ", or add segment",
    ),
    (
        |plan| plan.stages = stages(json!({ "coalesce": {} })),
        ", or add segment",
    ),
    (
        |plan| plan.stages = stages(json!({ "coalesce": {}, "fragment": { "mtu": 1400 } })),
        "coalesce: merged segments are too long for encapsulate and fragment: add segment",
    ),
    (
        |plan| plan.stages = stages(json!({ "coalesce": {}, "encapsulate": vxlan(None) })),
        "coalesce: merged segments are too long for encapsulate and fragment: add segment",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": {}, "encapsulate": vxlan(None) })),
        "encapsulate: what decapsulate takes out of such a tunnel",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": { "link": 1 }, "encapsulate": vxlan(None) })),
        "encapsulate: what decapsulate takes out of such a tunnel",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": { "link": 1 }, "encapsulate": vxlan(Some(1)) })),
        "encapsulate: what decapsulate takes out of such a tunnel",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": { "link": 2 } })),
        "decapsulate: link 2: there are 2, and the first is 0",
    ),
    (
        |plan| plan.stages = stages(json!({ "encapsulate": vxlan(Some(9)) })),
        "encapsulate: link 9: there are 2, and the first is 0",
    ),
    (
        |plan| plan.buckets.as_mut().unwrap().buckets = 2,
        "buckets: the table names 4 buckets, and there are 2",
    ),
    (
        |plan| plan.buckets.as_mut().unwrap().dispatch.limit = 20_000,
        "dispatch: a queue limit of 20000: give 1 to 10240",
    ),
    (
        |plan| plan.buckets.as_mut().unwrap().dispatch.limit = 0,
        "dispatch: a queue limit of 0: give 1 to 10240",
    ),
    (
        |plan| plan.buckets.as_mut().unwrap().hash_types = HashTypes::NONE,
        "hash: there is nothing to hash for the policy cpu of ip: give source",
    ),
    (
        |plan| {
            plan.buckets = None;
            plan.stages = stages(json!({ "reassemble": { "at": "owner" } }));
        },
        "reassemble: without buckets no fragment is brought to its owner: add buckets, or give at=arrival",
    ),
    (
        |plan| dispatch(plan, "ether", "deferred"),
        "dispatch: ether deferred: frames are queued by what they carry: leave ether out, or give direct",
    ),
    (
        |plan| dispatch(plan, "ether", "direct/flow"),
        "dispatch: ether direct/flow: frames are queued",
    ),
    (
        |plan| dispatch(plan, "ether", "default"),
        "dispatch: ether default: frames are queued",
    ),
    (
        |plan| dispatch(plan, "arp", "deferred/cpu"),
        "dispatch: arp deferred/cpu: such frames have no hash: give source",
    ),
    (
        |plan| dispatch(plan, "other", "default/flow"),
        "dispatch: other default/flow: such frames have no hash: give source",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": { "kinds": [] } })),
        "decapsulate: no kinds of tunnels: name one, or leave decapsulate out",
    ),
    (
        |plan| plan.stages = stages(json!({ "decapsulate": { "kinds": "gre", "keys": "no.toml" } })),
        "decapsulate: keys are for esp, which is not among the kinds: add it, or leave keys out",
    ),
];

/// Gives a protocol a method and a policy.
fn dispatch(plan: &mut BridgePlan, protocol: &str, given: &str) {
    let protocols = &mut plan.buckets.as_mut().unwrap().dispatch.protocols;
    protocols.insert(protocol.parse().unwrap(), given.parse().unwrap());
}

/// Changes that are accepted.
const ACCEPTED: [Change; 6] = [
    |_| (),
    |plan| plan.stages = stages(json!({ "coalesce": {}, "segment": {}, "fragment": { "mtu": 1400 } })),
    |plan| plan.stages = stages(json!({ "decapsulate": { "link": 1 }, "encapsulate": vxlan(Some(0)) })),
    |plan| plan.stages = stages(json!({ "decapsulate": { "kinds": "gre" }, "encapsulate": vxlan(None) })),
    |plan| {
        let buckets = plan.buckets.as_mut().unwrap();
        buckets.hash_types = HashTypes::NONE;
        buckets.dispatch.default = Method::Direct;
    },
    |plan| {
        dispatch(plan, "ether", "direct");
        dispatch(plan, "arp", "deferred/source");
        dispatch(plan, "other", "direct");
    },
];

#[test]
fn combinations_that_make_no_sense_are_refused_by_name() {
    let plan = || BridgePlan {
        buckets: Some(buckets(4)),
        ..BridgePlan::new(vec!["ring:left".to_owned(), "ring:right".to_owned()], vec![0])
    };
    for (change, message) in REFUSED {
        let mut plan = plan();
        change(&mut plan);
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
        assert_eq!(Bridge::start(plan).err().unwrap().to_string(), error);
    }
    for change in ACCEPTED {
        let mut plan = plan();
        change(&mut plan);
        plan.check().unwrap();
    }
}

#[test]
fn another_plan_is_taken_between_two_batches_and_no_frame_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let first = written(&folder, "first", "10.0.0.1\n");
    let second = written(&folder, "second", "10.0.0.2\n");
    let mut plan = None;
    let mut rings = Rings::start(2, |planned| {
        planned.tables = vec![table(&first, Sides::Both, OnMatch::Drop)];
        planned.buckets = Some(buckets(2));
        plan = Some(planned.clone());
    });
    let plan = plan.unwrap();
    let frames: Vec<Vec<u8>> = (0..4)
        .map(|number| datagram(number, ip(&format!("10.0.0.{number}")), ip("10.0.0.9")))
        .collect();
    rings.send(0, &frames);
    rings.settle();
    assert_eq!(rings.receive(1).len(), 3, "without that of 10.0.0.1");

    let mut other = BridgePlan {
        tables: vec![
            table(&second, Sides::Src, OnMatch::Drop),
            table(&first, Sides::Both, OnMatch::Count),
        ],
        otherwise: Verdict::Drop,
        ..plan.clone()
    };
    let buckets = other.buckets.as_mut().unwrap();
    buckets.dispatch.default = Method::Deferred;
    buckets.dispatch.limit = 100;
    buckets.hash_types = HashTypes::FOUR_TUPLE;
    rings.bridge.replan(Ok(other));
    until("the plan is taken", || rings.bridge.bridged().plans_taken == 1);
    // Each worker takes it before its next batch but one.
    until("all frames are dropped", || {
        rings.send(0, &frames);
        rings.settle();
        rings.receive(1).is_empty()
    });
    let bridged = rings.bridge.bridged();
    let (of_second, of_first) = (&bridged.tables[0], &bridged.tables[1]);
    assert_eq!((&of_second.file, &of_first.file), (&second, &first));
    assert!(of_first.matched >= 2 && of_second.matched >= 1, "{bridged:?}");
    assert_eq!((of_first.on_match, of_second.loads), (OnMatch::Count, 1));
    let dispatch = bridged.dispatch.as_ref().unwrap();
    assert_eq!((dispatch.method, dispatch.queue_limit), (Method::Deferred, 100));

    rings.bridge.replan(Ok(BridgePlan {
        tables: Vec::new(),
        ..plan
    }));
    until("all frames pass", || {
        rings.send(0, &frames);
        rings.settle();
        rings.receive(1).len() == frames.len()
    });
    let bridged = rings.bridge.stop().unwrap();
    assert_eq!((bridged.plans_taken, bridged.plans_refused), (2, 0));
    assert_eq!(bridged.unaccounted(), 0, "{bridged:?}");
}

/// Changes that a running bridge does not take.
const FIXED: [(Change, &str); 8] = [
    (
        |plan| plan.links[0] = "ring:other".to_owned(),
        "link: this cannot change while the bridge runs: restart it",
    ),
    (|plan| plan.workers = Some(1), "workers: this cannot"),
    (|plan| plan.cpus.push(1), "cpus: this cannot"),
    (|plan| plan.burst = 7, "batch: this cannot"),
    (|plan| plan.buckets = Some(buckets(3)), "buckets: this cannot"),
    (|plan| plan.buckets = None, "buckets: this cannot"),
    (
        |plan| plan.stages = StagePlans::default(),
        "reassemble: this cannot",
    ),
    (
        |plan| plan.buckets.as_mut().unwrap().dispatch.limit = 512,
        "dispatch: a queue limit of 512: the bridge was started for at most 256",
    ),
];

#[test]
fn what_cannot_change_is_refused_by_name_and_the_plan_before_stays() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(&folder, "list", "10.0.0.1\n");
    let wrong = written(&folder, "wrong", "10.0.0.1\nnonsense\n");
    let mut plan = None;
    let mut rings = Rings::start(2, |planned| {
        planned.tables = vec![table(&list, Sides::Both, OnMatch::Drop)];
        planned.buckets = Some(buckets(2));
        planned.stages = stages(json!({ "reassemble": {} }));
        plan = Some(planned.clone());
    });
    let plan = plan.unwrap();
    let with_wrong = BridgePlan {
        tables: vec![table(&wrong, Sides::Both, OnMatch::Drop)],
        otherwise: Verdict::Drop,
        ..plan.clone()
    };
    let changed = FIXED.map(|(change, why)| {
        let mut plan = plan.clone();
        change(&mut plan);
        (plan, why)
    });
    let refused = changed.into_iter().chain([(with_wrong, "wrong: line 2")]);
    for (number, (plan, why)) in (1..).zip(refused) {
        rings.bridge.replan(Ok(plan));
        until("the plan is refused", || {
            rings.bridge.bridged().plans_refused == number
        });
        let refusal = rings.bridge.bridged().last_plan_refusal.unwrap();
        assert!(refusal.contains(why), "{why}: {refusal}");
    }
    rings.bridge.replan(Err("line 1: no TOML".to_owned()));
    until("it is counted", || rings.bridge.bridged().plans_refused == 10);
    let frames = ["10.0.0.1", "10.0.0.2"].map(|source| datagram(0, ip(source), ip("10.0.0.9")));
    rings.send(0, &frames);
    rings.settle();
    assert_eq!(rings.receive(1), frames[1..]);
    let bridged = rings.bridge.stop().unwrap();
    assert_eq!(bridged.last_plan_refusal.as_deref(), Some("line 1: no TOML"));
    assert_eq!(bridged.plans_taken, 0);
}
