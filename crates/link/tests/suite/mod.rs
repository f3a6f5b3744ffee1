//! One suite for every kind of link: frames sent at one end arrive at the other, whatever connects them.

mod cases;
mod merged;
mod worlds;

use corelane_link::Link as _;
use corelane_tests::{undisturbed, until};
use std::net::UdpSocket;
use worlds::World;

/// A virtual device receives what the other stack sends with unfinished checksums.
#[test]
fn datagrams_of_another_stack_have_whole_checksums() {
    undisturbed(|| {
        for spec in [
            "packet:server0",
            "packet:server0,truncate=0",
            "xdp:server0",
            "xdp:server0,hook=generic",
        ] {
            let mut world = match worlds::veth(spec, "packet:client0", None) {
                Ok(world) => world,
                Err(reason) => return eprintln!("skipped: {reason}"),
            };
            let bed = world.bed.as_ref().expect("a bed");
            bed.client.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                for length in 1..=20 {
                    let sent = socket.send_to(&vec![length; usize::from(length)], "10.11.2.1:8080");
                    sent.unwrap();
                }
            });
            let mut came = 0;
            until("all datagrams arrive", || {
                let burst = world.left[0].receive(64).unwrap();
                for frame in burst
                    .iter()
                    .filter(|frame| frame[12..14] == [8, 0] && frame[23] == 17)
                {
                    // The pseudo-header is both addresses, the protocol and the length.
                    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                    let words = frame[26..end]
                        .chunks(2)
                        .map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
                    let sum = words.sum::<u64>() + 17 + (end - 34) as u64;
                    assert_eq!(sum % 0xffff, 0, "{spec}: {frame:02x?}");
                    came += 1;
                }
                came >= 20
            });
        }
    });
}

/// Runs every case in a new world of this kind, or prints why this machine cannot build one.
fn every_case(build: impl Fn() -> Result<World, String>) {
    for (name, case) in cases::ALL {
        undisturbed(|| match build() {
            Err(why) => eprintln!("skipped: {why}"),
            Ok(mut world) => {
                eprintln!("{}: {name}", world.name);
                case(&mut world);
            }
        });
    }
}

#[test]
fn a_ring_within_a_process_is_a_link() {
    every_case(worlds::pair);
}

#[test]
fn a_ring_between_processes_is_a_link() {
    every_case(worlds::shared);
}

#[test]
fn packet_sockets_on_veth_are_links() {
    every_case(|| worlds::veth("packet:server0", "packet:client0", None));
}

#[test]
fn several_packet_sockets_of_a_device_are_a_link_together() {
    every_case(|| worlds::veth("packet:server0,queues=2", "packet:client0,stride=2048", None));
}

#[test]
fn af_xdp_on_veth_is_a_link_at_the_stride_of_the_post() {
    every_case(|| worlds::veth("xdp:server0", "xdp:client0", None));
}

#[test]
fn af_xdp_on_veth_is_a_link_at_aligned_strides_and_with_headroom() {
    every_case(|| {
        worlds::veth(
            "xdp:server0,stride=2048,headroom=128",
            "xdp:client0,stride=4096,wakeup=always",
            None,
        )
    });
}

#[test]
fn af_xdp_on_several_queues_is_a_link() {
    every_case(|| worlds::veth("xdp:server0,queues=2,mode=copy", "xdp:client0,queues=2", Some(2)));
}

#[test]
fn af_xdp_behind_the_driver_is_a_link() {
    every_case(|| worlds::veth("xdp:server0,hook=generic", "packet:client0", None));
}

#[test]
fn a_tap_device_is_a_link() {
    every_case(|| worlds::tap(1));
}

#[test]
fn a_tap_device_and_a_packet_socket_for_merged_frames_are_links() {
    every_case(|| worlds::tap_merged("tap:suite0"));
    every_case(|| worlds::veth_merged("packet:server0", "packet:client0"));
}

#[test]
fn a_tap_device_of_several_queues_is_a_link() {
    every_case(|| worlds::tap(2));
}
