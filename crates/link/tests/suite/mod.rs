//! One suite for every kind of link: frames sent at one end arrive at the other, whatever connects them.

mod cases;
mod worlds;

use worlds::World;

/// Runs every case in a new world of this kind, or prints why this machine cannot build one.
fn every_case(build: impl Fn() -> Result<World, String>) {
    for (name, case) in cases::ALL {
        match build() {
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
            Ok(mut world) => {
                eprintln!("{}: {name}", world.name);
                case(&mut world);
            }
        }
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
fn a_tap_device_of_several_queues_is_a_link() {
    every_case(|| worlds::tap(2));
}
