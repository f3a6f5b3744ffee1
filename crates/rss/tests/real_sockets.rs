//! The kernel, running the generated program, delivers every datagram and connection to the socket of the bucket that
//! the oracle selects.
//!
//! Each test creates a group of sockets on loopback, one per bucket, attaches the program and sends from many addresses
//! and ports. Every socket has a receive timeout, so that a lost packet fails the test instead of blocking it.

#![cfg(target_os = "linux")]

use crate::common::sockets::{
    LOOPBACK_V4, LOOPBACK_V6, WILDCARD, group, ipv4_sources, ipv6_sources, irregular,
    random_steerings_meet_the_oracle, round_robin, send_ipv4_options, sources_meet_the_oracle, steering,
};
use corelane_rss::HashFields;
use corelane_rss::steer::{self, Families};
use socket2::Type;

#[test]
fn ipv4_datagrams_reach_the_socket_that_the_oracle_names() {
    for table in [round_robin(128, 8), round_robin(128, 3), irregular(512, 5)] {
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let steering = steering(fields, table.clone());
            let group = group(&steering, Type::DGRAM, LOOPBACK_V4, Families::V4);
            sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(Type::DGRAM, 500));
        }
    }
}

#[test]
fn the_kernel_agrees_for_random_keys_tables_and_fields() {
    random_steerings_meet_the_oracle(0xc07e_1a7e);
}

#[test]
fn ipv6_datagrams_reach_the_socket_that_the_oracle_names() {
    for table in [round_robin(128, 8), irregular(512, 5)] {
        let steering = steering(HashFields::FourTuple, table);
        let group = group(&steering, Type::DGRAM, LOOPBACK_V6, Families::V6);
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(Type::DGRAM, 500));
    }
}

#[test]
fn connections_reach_the_listener_that_the_oracle_names() {
    let steering = steering(HashFields::FourTuple, irregular(128, 6));
    let listeners = group(&steering, Type::STREAM, LOOPBACK_V4, Families::V4);
    sources_meet_the_oracle(
        &steering,
        &listeners,
        LOOPBACK_V4,
        ipv4_sources(Type::STREAM, 300),
    );
    let listeners = group(&steering, Type::STREAM, LOOPBACK_V6, Families::V6);
    sources_meet_the_oracle(
        &steering,
        &listeners,
        LOOPBACK_V6,
        ipv6_sources(Type::STREAM, 300),
    );
}

#[test]
fn a_dual_stack_group_steers_both_families() {
    let steering = steering(HashFields::FourTuple, irregular(128, 6));
    for kind in [Type::DGRAM, Type::STREAM] {
        let group = group(&steering, kind, WILDCARD, Families::Both);
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(kind, 200));
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(kind, 200));
    }
}

#[test]
fn the_kernel_takes_programs_of_the_largest_tables() {
    let steering = steering(HashFields::FourTuple, irregular(4096, 256));
    let length = steer::program(&steering, Families::Both)
        .unwrap()
        .instructions()
        .len();
    assert!(length > 3900, "{length}");
    let group = group(&steering, Type::DGRAM, WILDCARD, Families::Both);
    sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(Type::DGRAM, 200));
    sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(Type::DGRAM, 200));
}

#[test]
fn ipv4_options_are_stepped_over() {
    let steering = steering(HashFields::FourTuple, round_robin(128, 8));
    for kind in [Type::DGRAM, Type::STREAM] {
        let group = group(&steering, kind, LOOPBACK_V4, Families::V4);
        for words in [1, 5, 10] {
            let sources = ipv4_sources(kind, 100).inspect(|socket| send_ipv4_options(socket, words));
            sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, sources);
        }
    }
}
