//! Where a frame is handled: every method, policy and state of the queues, as netisr(9) decides.

use crate::common::Lent;
use crate::work::datagram;
use corelane_packet::HashTypes;
use corelane_rss::{Bucket, IndirectionTable, Key, Toeplitz};
use corelane_stage::dispatch::{
    Dispatch, DispatchPlan, Method, Policy, Protocol, Reinjected, Spread, Workstreams,
};
use corelane_stage::{Desk, Fate, Kinds, Work};
use std::sync::Arc;
use std::time::Instant;

/// Three buckets; the table has a bucket for every hash that its remainder does not name.
fn spread() -> Arc<Spread> {
    Arc::new(Spread {
        toeplitz: Toeplitz::new(&Key::VERIFICATION),
        hash_types: HashTypes::FOUR_TUPLE,
        table: IndirectionTable::from_entries([2, 0, 1, 1].map(Bucket::new).into()).unwrap(),
        buckets: 3,
    })
}

/// What a dispatch of bucket `own` does with one frame of link 1.
fn fate(own: u16, plan: &DispatchPlan, streams: &Arc<Workstreams>, frame: &[u8]) -> Fate {
    let dispatch = Dispatch::new(Bucket::new(own), plan, spread(), Arc::clone(streams));
    let (mut desk, mut lent) = (Desk::default(), Lent(vec![(1, frame.to_vec())]));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    dispatch.arrivals(&mut work);
    work.fates().map_or(Fate::Flood, |fates| fates[0])
}

fn hash_of(frame: &[u8]) -> u32 {
    let packet = corelane_packet::Dissection::of(frame).unwrap();
    spread().hash(&packet).unwrap().value
}

fn row(streams: &Workstreams, bucket: u16, protocol: Protocol) -> [u64; 4] {
    let row = &streams.rows(Bucket::new(bucket))[protocol as usize];
    [row.dispatched, row.hybrid, row.queued, row.handled]
}

#[test]
fn a_method_and_a_policy_decide_where_a_frame_is_handled() {
    let frame = datagram(0, 53);
    let hash = hash_of(&frame);
    let of_policy = |policy| match policy {
        Policy::Source => 1,
        Policy::Flow => (hash % 3) as u16,
        Policy::Cpu => [2, 0, 1, 1][hash as usize % 4],
    };
    let (methods, policies) = (
        [Method::Direct, Method::Deferred, Method::Hybrid],
        [Policy::Source, Policy::Flow, Policy::Cpu],
    );
    for (method, policy) in methods
        .into_iter()
        .flat_map(|method| policies.map(|policy| (method, policy)))
    {
        for (own, is_waiting) in [
            (0, false),
            (1, false),
            (2, false),
            (0, true),
            (1, true),
            (2, true),
        ] {
            let plan: DispatchPlan = DispatchPlan {
                protocols: [(Protocol::Ip, format!("{method}/{policy}").parse().unwrap())].into(),
                ..DispatchPlan::default()
            };
            let streams = Arc::new(Workstreams::new(3, 8));
            if is_waiting {
                // Of another protocol: a bucket has one worker for all.
                assert_eq!(streams.reserve(Bucket::new(own), Protocol::Arp, 1), 1);
            }
            let bucket = of_policy(policy);
            let is_here = match method {
                Method::Direct => true,
                Method::Deferred => false,
                Method::Hybrid => bucket == own && !is_waiting,
            };
            let expected = match is_here {
                true => Fate::Flood,
                false => Fate::HandOver(Bucket::new(bucket), Protocol::Ip),
            };
            let what = format!("{method} {policy}, bucket {own}, waiting {is_waiting}");
            assert_eq!(fate(own, &plan, &streams, &frame), expected, "{what}");
            let ran = u64::from(is_here);
            let counts = match method {
                Method::Direct => [ran, 0, 0, ran],
                _ => [0, ran, 0, ran],
            };
            assert_eq!(row(&streams, own, Protocol::Ip), counts, "{what}");
            assert_eq!(row(&streams, own, Protocol::Ether), [1, 0, 0, 1], "{what}");
        }
    }
}

#[test]
fn frames_without_a_hash_go_by_their_link() {
    let arp = [&[2; 12][..], &[0x08, 0x06], &[0; 46]].concat();
    let other = [&[2; 12][..], &[0x88, 0xcc], &[0; 46]].concat();
    let plan = DispatchPlan::default();
    for (frame, protocol) in [(arp, Protocol::Arp), (other, Protocol::Other)] {
        let streams = Arc::new(Workstreams::new(3, 8));
        assert_eq!(fate(1, &plan, &streams, &frame), Fate::Flood);
        assert_eq!(row(&streams, 1, protocol), [0, 1, 0, 1]);
        let elsewhere = Fate::HandOver(Bucket::new(1), protocol);
        assert_eq!(fate(0, &plan, &streams, &frame), elsewhere);
    }
}

#[test]
fn a_plan_is_read_with_its_defaults_and_its_limit_is_checked() {
    let plan: DispatchPlan =
        serde_json::from_str(r#"{"default": "deferred", "ip": "default/flow", "arp": "direct"}"#).unwrap();
    let rule = |protocol| {
        let rule = plan.rule(protocol);
        (rule.method, rule.policy)
    };
    assert_eq!(rule(Protocol::Ip), (Method::Deferred, Policy::Flow));
    assert_eq!(rule(Protocol::Ip6), (Method::Deferred, Policy::Cpu));
    assert_eq!(rule(Protocol::Arp), (Method::Direct, Policy::Source));
    assert_eq!(rule(Protocol::Ether), (Method::Direct, Policy::Cpu));
    assert_eq!((plan.limit, plan.validate()), (256, Ok(())));
    let written = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<DispatchPlan>(&written).unwrap(), plan);
    for (text, message) in [
        (r#"{"limit": 10241}"#, "a queue limit of 10241: give 1 to 10240"),
        (r#"{"limit": 0}"#, "a queue limit of 0: give 1 to 10240"),
    ] {
        let plan: DispatchPlan = serde_json::from_str(text).unwrap();
        assert_eq!(plan.validate(), Err(message.to_owned()));
    }
    for (text, message) in [
        (
            r#"{"ip": "lazy"}"#,
            "'lazy': give direct, deferred or hybrid, or default",
        ),
        (r#"{"ip": "direct/random"}"#, "'random': give source, flow or cpu"),
        (r#"{"igmp": "direct"}"#, "unknown variant `igmp`"),
    ] {
        let error = serde_json::from_str::<DispatchPlan>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn what_a_stage_made_is_hashed_again_unless_its_parts_had_the_same_fields() {
    let whole = datagram(0, 53);
    let own = [2, 0, 1, 1][hash_of(&whole) as usize % 4];
    let other = (own + 1) % 3;
    let (four, two) = (HashTypes::FOUR_TUPLE, HashTypes::TWO_TUPLE);
    for (types, own, method, expected) in [
        (four, own, Method::Hybrid, [0, 1, 1, 0, 0]),
        (four, other, Method::Hybrid, [0, 1, 0, 1, 0]),
        // From its queue, but its bucket is this one; here, but its bucket is another one.
        (four, own, Method::Deferred, [0, 1, 1, 0, 0]),
        (four, other, Method::Deferred, [0, 1, 0, 1, 0]),
        (four, own, Method::Direct, [0, 1, 1, 0, 0]),
        (four, other, Method::Direct, [0, 1, 0, 0, 1]),
        (two, own, Method::Hybrid, [1, 0, 0, 0, 0]),
    ] {
        let spread = Spread {
            hash_types: types,
            ..(*spread()).clone()
        };
        let streams = Arc::new(Workstreams::new(3, 8));
        let plan = DispatchPlan {
            default: method,
            ..DispatchPlan::default()
        };
        let dispatch = Dispatch::new(Bucket::new(own), &plan, Arc::new(spread), Arc::clone(&streams));
        let fragment = datagram(0x2000, 53);
        let (mut desk, mut lent) = (Desk::default(), Lent(vec![(1, fragment)]));
        let mut work = Work::new(&mut desk, &mut lent, Instant::now());
        work.read();
        assert!(work.kinds().has(Kinds::FRAGMENT));
        work.replace(0, whole.len(), |_, bytes| bytes.copy_from_slice(&whole));
        let counts = Reinjected::default();
        dispatch.reinject(&mut work, true, &counts);
        let counted = [
            &counts.reused,
            &counts.rehashed,
            &counts.kept,
            &counts.handed_over,
            &counts.stayed,
        ];
        assert_eq!(counted.map(|count| count.get()), expected, "{method}");
        let stays = expected[3] == 0 && method != Method::Deferred;
        assert_eq!(work.goes_on(0), stays);
        if stays && expected[1] == 1 {
            let is_hybrid = u64::from(method == Method::Hybrid);
            let counted = [1 - is_hybrid, is_hybrid, 0, 1];
            assert_eq!(row(&streams, own, Protocol::IpDirect), counted);
        }
    }
}

#[test]
fn a_queue_has_its_limit_and_one_full_queue_leaves_the_others_their_room() {
    let streams = Workstreams::new(2, 8);
    let [first, second] = [0, 1].map(Bucket::new);
    assert_eq!(streams.reserve(first, Protocol::Ip, 5), 5);
    assert_eq!(streams.reserve(first, Protocol::Ip, 5), 3);
    assert_eq!(streams.reserve(first, Protocol::Ip, 1), 0);
    assert_eq!(streams.reserve(first, Protocol::Ip6, 8), 8);
    assert_eq!(streams.reserve(second, Protocol::Ip, 8), 8);
    assert!(streams.is_scheduled(first) && !streams.is_settled());
    let [_, ip, ..] = streams.rows(first);
    assert_eq!(
        (ip.length, ip.watermark, ip.dropped, ip.queued, ip.handled),
        (8, 8, 3, 8, 0)
    );
    streams.give_back(first, Protocol::Ip, 2);
    streams.took(first, Protocol::Ip, 6);
    streams.took(first, Protocol::Ip6, 8);
    streams.took(second, Protocol::Ip, 8);
    assert!(!streams.is_scheduled(first) && streams.is_settled());
    let [_, ip, ..] = streams.rows(first);
    assert_eq!(
        (ip.length, ip.watermark, ip.dropped, ip.queued, ip.handled),
        (0, 8, 5, 6, 6)
    );
    assert_eq!(ip.no_memory, 2);
}
