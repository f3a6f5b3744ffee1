//! One suite for all engines: the contract that workers rely on, tested on epoll, io_uring and the simulator.

mod addresses;
mod cases;
mod real;
mod real_streams;
mod sends;
mod starved;
pub mod streams;
pub mod world;

use corelane_worker::engine::EngineSettings;

/// Default settings.
fn usual() -> EngineSettings {
    EngineSettings::default()
}

/// One datagram per system call.
fn one_at_a_time() -> EngineSettings {
    EngineSettings {
        datagram_batch: 1,
        ..usual()
    }
}

/// Receives that end after 1,000 bytes.
fn bursts() -> EngineSettings {
    EngineSettings {
        stream_burst_bytes: 1_000,
        ..usual()
    }
}

/// Buffers of 100 bytes.
fn small_buffers() -> EngineSettings {
    EngineSettings {
        receive_buffer_bytes: 100,
        ..usual()
    }
}

/// The smallest arena: 64 KiB.
fn small_arena() -> EngineSettings {
    EngineSettings {
        arena_bytes: 1,
        ..usual()
    }
}

/// Coalesced sends.
fn coalescing() -> EngineSettings {
    EngineSettings {
        coalesce: true,
        ..usual()
    }
}

/// Coalesced sends and merged receives.
fn merging() -> EngineSettings {
    EngineSettings {
        coalesce: true,
        gro: true,
        ..usual()
    }
}

/// Reported destinations.
fn addressed() -> EngineSettings {
    EngineSettings {
        destinations: true,
        ..usual()
    }
}

/// Runs each case on each engine: `name: settings => case`.
macro_rules! suite {
    ($($name:ident: $settings:expr => $case:path;)*) => {
        suite!(@on epoll, crate::suite::world::on_epoll, $($name: $settings => $case;)*);
        suite!(@on io_uring, crate::suite::world::on_io_uring, $($name: $settings => $case;)*);
        suite!(@on simulated, crate::suite::world::on_simulated, $($name: $settings => $case;)*);
    };
    (@on $engine:ident, $start:path, $($name:ident: $settings:expr => $case:path;)*) => {
        mod $engine {
            #[allow(unused_imports)]
            use super::*;
            use crate::suite::world::{Case, World};
            use corelane_worker::engine::Engine;

            $(
                #[test]
                fn $name() {
                    struct ThisCase;
                    impl Case for ThisCase {
                        fn run<E: Engine>(self, engine: E, world: &dyn World) {
                            $case(engine, world);
                        }
                    }
                    corelane_tests::undisturbed(|| $start(&$settings, ThisCase));
                }
            )*
        }
    };
}

suite! {
    datagrams_come_back_from_an_echo: usual() => cases::echo;
    datagrams_come_back_one_at_a_time: one_at_a_time() => cases::echo;
    datagrams_come_back_from_a_coalescing_echo: coalescing() => cases::echo;
    datagrams_come_back_merged_and_split: merging() => cases::echo;
    answers_leave_from_the_address_that_was_asked: addressed() => addresses::every_address;
    answers_leave_from_the_address_that_was_asked_one_at_a_time:
        EngineSettings { datagram_batch: 1, ..addressed() } => addresses::every_address;
    answers_leave_from_the_address_that_was_asked_merged:
        EngineSettings { destinations: true, ..merging() } => addresses::every_address;
    order_is_kept_in_every_flow: usual() => cases::order;
    order_is_kept_in_every_flow_one_at_a_time: one_at_a_time() => cases::order;
    order_is_kept_in_every_flow_merged: merging() => cases::order;
    payloads_of_every_length_arrive_whole: usual() => cases::lengths;
    payloads_of_every_length_arrive_whole_merged: merging() => cases::lengths;
    a_spent_id_gets_no_event_of_the_next_socket_in_its_slot: usual() => cases::stale_id;
    a_full_arena_is_reported_and_recovers: small_arena() => cases::full_arena;
    datagrams_over_the_buffer_are_truncated_and_marked: small_buffers() => cases::truncation;
    datagrams_over_the_buffer_are_truncated_and_marked_one_at_a_time:
        EngineSettings { datagram_batch: 1, ..small_buffers() } => cases::truncation;
    datagrams_over_the_protocol_fail_as_too_large: usual() => cases::oversize;
    a_wake_from_another_thread_is_reported_once: usual() => cases::wake;
    a_deadline_is_kept_and_not_before_time: usual() => cases::deadline;
    a_deadline_in_the_past_does_not_wait: usual() => cases::past_deadline;
    a_closed_port_is_reported_to_a_connected_socket: usual() => cases::refused;
    a_thousand_sockets_each_get_their_answer: usual() => cases::thousand_sockets;
    a_burst_over_many_sockets_arrives_whole: usual() => cases::burst_over_many_sockets;
    a_burst_over_many_sockets_arrives_whole_one_at_a_time: one_at_a_time() => cases::burst_over_many_sockets;
    datagrams_queued_before_close_are_sent: usual() => cases::close_with_sends_pending;
    closed_is_reported_once_and_last: usual() => cases::closed_last;
    a_socket_that_does_not_receive_keeps_datagrams_for_later: usual() => cases::receive_off_and_on;
    receiving_may_go_off_and_on_within_a_turn: usual() => cases::receive_off_and_on_in_one_turn;
    a_handler_may_close_a_socket_inside_its_event: usual() => cases::close_in_event;
    sends_on_a_spent_id_are_counted: usual() => cases::send_after_close;
    a_turn_is_bounded: usual() => cases::bounded_turn;
}

/// TCP.
mod tcp {
    use super::*;

    suite! {
        bytes_come_back_from_an_echo: usual() => streams::echo;
        bytes_come_back_through_small_buffers:
            EngineSettings { stream_buffer_bytes: 100, ..usual() } => streams::echo;
        bytes_come_back_in_short_bursts: bursts() => streams::echo;
        a_connection_that_does_not_receive_keeps_a_burst_for_later: bursts() => streams::receive_off;
        each_end_knows_the_other: usual() => streams::each_end_knows_the_other;
        a_connection_has_the_requested_local_address: usual() => streams::from_a_local_address;
        a_closed_port_refuses_a_connection: usual() => streams::refused;
        a_connection_may_end_on_one_side: usual() => streams::half_closed;
        an_abort_resets_the_peer: usual() => streams::aborted;
        an_abort_is_reported_to_a_writer_that_does_not_receive: usual() => streams::aborted_while_not_receiving;
        pieces_of_every_kind_leave_in_order: usual() => streams::mixed_pieces;
        a_file_shorter_than_queued_ends_the_connection: usual() => streams::short_file;
        a_full_queue_is_reported_and_drains: usual() => streams::full_queue;
        a_reader_that_stops_does_not_delay_others: usual() => streams::stopped_reader;
        discarded_bytes_are_never_sent_and_the_rest_arrives: usual() => streams::discarded;
        a_connection_that_does_not_receive_keeps_bytes_for_later: usual() => streams::receive_off;
        nothing_comes_while_a_connection_does_not_receive: usual() => streams::receive_off_in_event;
        bytes_written_before_the_connection_is_open_are_sent_then: usual() => streams::before_it_is_open;
        bytes_written_before_close_are_sent: usual() => streams::close_after_writing;
        a_spent_connection_gets_no_event_of_the_next_in_its_slot: usual() => streams::stale_id;
        a_thousand_connections_each_get_their_answer: usual() => streams::thousand_connections;
        a_handler_may_close_a_connection_inside_its_event: usual() => streams::close_in_event;
    }
}
