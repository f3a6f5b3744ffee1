//! Inference where the queues do not follow the hashes.

use crate::common::random::Draws;
use corelane_rss::infer::{Sample, Verdict, infer, infer_tolerating};
use corelane_rss::{HashFields, Key, Protocol, Toeplitz, Tuple};
use std::net::{Ipv4Addr, SocketAddr};

/// TCP flows with their hashes under a key, and the queue that `queue` gives to each hash.
fn samples(
    count: usize,
    random: &mut Draws,
    mut queue: impl FnMut(u32, &mut Draws) -> u16,
) -> (Key, Vec<Sample>) {
    let key = random.key();
    let toeplitz = Toeplitz::new(&key);
    let samples = (0..count).map(|_| {
        let mut end = || SocketAddr::from((Ipv4Addr::from(random.next() as u32), random.next() as u16));
        let tuple = Tuple::new(end(), end()).unwrap();
        let hash = toeplitz.hash(&tuple, HashFields::FourTuple);
        Sample {
            tuple,
            protocol: Protocol::Tcp,
            hash: Some(hash),
            queue: Some(queue(hash, random)),
        }
    });
    let samples = samples.collect();
    (key, samples)
}

#[test]
fn queues_that_no_table_gives_are_no_settled_result() {
    let (key, samples) = samples(900, &mut Draws::new(1), |_, random| (random.next() % 8) as u16);
    let found = infer(&samples, Some(&key));
    assert_eq!((found.verdict, found.table), (Verdict::NoTableFits, None));
    // The hashes are explained all the same.
    assert!(found.key_is_enough);
    let found = infer_tolerating(&samples, Some(&key), 20);
    assert_eq!((found.verdict, found.set_aside.len()), (Verdict::NoTableFits, 0));
}

#[test]
fn flows_that_a_rule_steers_elsewhere_are_no_settled_result() {
    // As aRFS steers three flows of ten.
    let (key, samples) = samples(900, &mut Draws::new(2), |hash, random| match random.next() % 10 {
        0..3 => 9,
        _ => (hash % 8) as u16,
    });
    assert_eq!(infer(&samples, Some(&key)).verdict, Verdict::NoTableFits);
}

#[test]
fn one_queue_and_right_queues_are_settled() {
    for queues in [1, 8] {
        let (key, samples) = samples(900, &mut Draws::new(3), |hash, _| (hash % queues) as u16);
        assert_eq!(
            infer(&samples, Some(&key)).verdict,
            Verdict::Settled,
            "{queues} queues"
        );
    }
}

#[test]
fn too_few_queues_ask_for_more() {
    let (key, mut samples) = samples(900, &mut Draws::new(4), |hash, _| (hash % 128) as u16);
    samples[40..].iter_mut().for_each(|sample| sample.queue = None);
    let found = infer(&samples, Some(&key));
    assert_eq!(found.verdict, Verdict::NotEnough);
    assert!(
        found
            .needed
            .iter()
            .any(|needed| needed.contains("more samples with queues")),
        "{:?}",
        found.needed
    );
}

#[test]
fn queues_alone_that_contradict_every_dialect_of_the_key_fit_nothing() {
    let (key, mut samples) = samples(900, &mut Draws::new(5), |_, random| (random.next() % 6) as u16);
    samples.iter_mut().for_each(|sample| sample.hash = None);
    let found = infer(&samples, Some(&key));
    assert_eq!((found.verdict, found.key), (Verdict::NothingFits, None));
}

#[test]
fn a_table_of_48_or_192_entries_is_found() {
    for entries in [48, 192] {
        let mut random = Draws::new(6);
        let table: Vec<u16> = (0..entries).map(|_| (random.next() % 5) as u16).collect();
        let (key, samples) = samples(2000, &mut random, |hash, _| table[hash as usize % entries]);
        let found = infer(&samples, Some(&key));
        assert_eq!(
            found.verdict,
            Verdict::Settled,
            "{entries} entries: {:?}",
            found.needed
        );
        let found = found.table.unwrap();
        assert_eq!(found.entries, table.iter().copied().map(Some).collect::<Vec<_>>());
    }
}

#[test]
fn queues_that_contradict_a_table_of_48_or_192_entries_are_set_aside() {
    for entries in [48, 192] {
        let mut random = Draws::new(7);
        let table: Vec<u16> = (0..entries).map(|_| (random.next() % 5) as u16).collect();
        let (key, mut samples) = samples(2000, &mut random, |hash, _| table[hash as usize % entries]);
        let wrong: Vec<usize> = (0..8).map(|number| 7 + 240 * number).collect();
        for place in &wrong {
            samples[*place].queue = samples[*place].queue.map(|queue| (queue + 1) % 5);
        }
        let found = infer_tolerating(&samples, Some(&key), 20);
        assert_eq!(found.set_aside, wrong, "{entries} entries");
        assert_eq!(found.verdict, Verdict::Settled, "{:?}", found.needed);
        let found = found.table.unwrap();
        assert_eq!(found.entries, table.iter().copied().map(Some).collect::<Vec<_>>());
    }
}
