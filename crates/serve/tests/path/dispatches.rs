//! The same traffic under every dispatch and policy: fragments in a tunnel, whose packets are fragmented themselves.

use super::simulation::{Arrival, Scenario, Simulation};
use super::traffic::{Datagram, cut, tunnelled};
use corelane_link::FaultPlan;
use corelane_packet::HashTypes;
use corelane_stage::dispatch::{Method, Policy};
use corelane_stage::reassembly::Placement;
use fastrand::Rng;

/// Datagrams of 24 flows, and the frames that they come in.
fn traffic() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut draws = Rng::with_seed(11);
    let datagrams: Vec<Datagram> = (0..150)
        .map(|number| Datagram::new(draws.u32(..24), number, draws.usize(8..3000)))
        .collect();
    let inner = datagrams.iter().flat_map(|datagram| datagram.fragments(1000));
    let outer = (0..).zip(inner).map(|(number, frame)| tunnelled(&frame, number));
    let came = outer.flat_map(|frame| cut(&frame, 600)).collect();
    (
        datagrams.into_iter().map(|datagram| datagram.frame).collect(),
        came,
    )
}

#[test]
fn every_dispatch_and_policy_delivers_the_same_bytes() {
    let (mut sent, came) = traffic();
    sent.iter_mut().for_each(|frame| frame[0] = 0);
    sent.sort();
    for (method, policy, at) in [Method::Direct, Method::Deferred, Method::Hybrid]
        .into_iter()
        .flat_map(|method| [Policy::Source, Policy::Flow, Policy::Cpu].map(|policy| (method, policy)))
        .flat_map(|(method, policy)| [Placement::Arrival, Placement::Owner].map(|at| (method, policy, at)))
    {
        let scenario = Scenario {
            seed: 7,
            buckets: 4,
            workers: 2,
            hash_types: HashTypes::FOUR_TUPLE,
            at,
            method,
            policy: Some(policy),
            decapsulates: true,
            arrival: match at {
                Placement::Arrival => Arrival::Rss,
                Placement::Owner => Arrival::Random,
            },
            faults: FaultPlan::default(),
            limit: 4096,
            replans: false,
        };
        let (mut simulation, mut draws) = (Simulation::new(&scenario), Rng::with_seed(3));
        for (number, frame) in came.iter().enumerate() {
            simulation.receive(&scenario, number, frame, &mut draws);
            if draws.u8(..8) == 0 {
                simulation.settle(&mut draws);
            }
        }
        simulation.settle(&mut draws);
        simulation.balances(&scenario);
        let mut delivered = simulation.delivered.concat();
        delivered.iter_mut().for_each(|frame| frame[0] = 0);
        delivered.sort();
        assert!(
            delivered == sent,
            "{scenario:?}: {} of {}",
            delivered.len(),
            sent.len()
        );
        assert_eq!(simulation.count("waiting"), 0, "{scenario:?}");
    }
}
