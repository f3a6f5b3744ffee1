//! Bridges between devices in network namespaces that the test creates.

use super::frames::{datagram, number_of};
use corelane_host::bed::{Bed, BedPlan, Side};
use corelane_link::{AnyLink, Link, LinkError, LinkSpec, Opener};
use corelane_report::exposition::{Exposition, Format};
use corelane_serve::Server;
use corelane_serve::bridge::{Bridge, BridgeError, BridgePlan, OnMatch, Sides, TablePlan};
use corelane_tests::{namespaces, namespaces_plan, undisturbed, until};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;

pub fn bed(queues: u32) -> Option<Bed> {
    let bed = namespaces(&BedPlan {
        queues: Some(queues),
        ..namespaces_plan()
    })?;
    // Devices created later send nothing on their own, so that they carry only the test's frames.
    bed.server.set("net.ipv6.conf.default.disable_ipv6", "1").unwrap();
    Some(bed)
}

/// Runs a program in the server's namespace; false if it is missing or fails.
pub fn run(bed: &Bed, program: &'static str, arguments: &[&str]) -> bool {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    bed.server
        .run(move || match Command::new(program).args(&arguments).output() {
            Err(error) => {
                eprintln!("skipped: {program}: {error}");
                false
            }
            Ok(output) => {
                if !output.status.success() {
                    eprintln!(
                        "skipped: {program} {arguments:?}: {}",
                        String::from_utf8_lossy(&output.stderr)
                    );
                }
                output.status.success()
            }
        })
}

/// A bridge in the server's namespace; `None` if that is not possible.
pub fn start(bed: &Bed, plan: BridgePlan) -> Option<Bridge> {
    match bed.server.run(move || Bridge::start(plan)) {
        Err(BridgeError::Link(error @ LinkError::Unavailable(_))) => {
            eprintln!("skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

pub fn open_in_server(bed: &Bed, spec: &str) -> AnyLink {
    let spec: LinkSpec = spec.parse().unwrap();
    bed.server
        .run(move || Opener::new(spec).open())
        .unwrap()
        .remove(0)
}

pub fn open_in_client(bed: &Bed, spec: &str) -> AnyLink {
    if let Some(device) = spec.strip_prefix("packet:") {
        wait_until_up(&bed.client, device);
    }
    let spec: LinkSpec = spec.parse().unwrap();
    bed.client
        .run(move || Opener::new(spec).open())
        .unwrap()
        .remove(0)
}

/// Waits until the kernel sends on a device: it learns asynchronously that the other end of a pair is up, and drops
/// earlier frames.
pub fn wait_until_up(side: &Side, device: &str) {
    until("the device is up", || {
        let name = device.to_owned();
        let shown = side.run(move || Command::new("ip").args(["-o", "link", "show", &name]).output());
        shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains("state UP"))
    });
}

/// Sends all frames, a few at a time, and receives until `expected` frames have arrived: as many of each one, unless
/// fewer are expected than sent.
pub fn through(from: &mut AnyLink, to: &mut AnyLink, frames: &[Vec<u8>], expected: usize) -> Vec<Vec<u8>> {
    let each = expected / frames.len();
    through_until(from, to, frames, each, |received| received.len() >= expected)
}

/// Frames sent at a time.
const PART: usize = 64;

/// Sends all frames, a few at a time, and receives until `enough` holds. If `each` arrives so many times, not zero, then no
/// more than two parts are on their way, so that no queue overflows while a program waits for its CPU.
pub fn through_until(
    from: &mut AnyLink,
    to: &mut AnyLink,
    frames: &[Vec<u8>],
    each: usize,
    enough: impl Fn(&[Vec<u8>]) -> bool,
) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    let mut receive_until = |what: &str, enough: &dyn Fn(&[Vec<u8>]) -> bool| {
        until(what, || {
            received.extend(to.receive(1024).unwrap().iter().map(<[u8]>::to_vec));
            enough(&received)
        });
    };
    for (sent_before, part) in frames.chunks(PART).enumerate() {
        assert_eq!(
            from.send(part.iter().map(Vec::as_slice)).unwrap().taken,
            part.len()
        );
        receive_until("the frames before arrive", &|received| {
            received.len() >= sent_before * PART * each
        });
    }
    receive_until("enough frames arrive", &enough);
    received
}

fn flows(count: u32) -> Vec<Vec<u8>> {
    let to: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    (0..count)
        .map(|number| datagram(number, Ipv4Addr::from(0x0a00_0000 + number % 256).into(), to))
        .collect()
}

/// A bridge of these links, without tables.
pub fn plan(links: &[&str], workers: usize) -> BridgePlan {
    let cpus: Vec<u32> = corelane_host::cpus::allowed()
        .unwrap()
        .cpus
        .into_iter()
        .cycle()
        .take(workers)
        .collect();
    BridgePlan::new(links.iter().map(|link| (*link).to_owned()).collect(), cpus)
}

#[test]
fn every_kind_of_link_is_bridged_with_every_other() {
    undisturbed(|| {
        for links in [
            ["xdp:server0", "tap:bridged0"],
            ["packet:server0", "tap:bridged0"],
            ["xdp:server0,stride=2048,mode=copy", "tap:bridged0,queues=2"],
        ] {
            let Some(bed) = bed(1) else { return };
            let Some(bridge) = start(&bed, plan(&links, 1)) else {
                return;
            };
            let mut inside = open_in_server(&bed, "packet:bridged0");
            let mut outside = open_in_client(&bed, "packet:client0");
            let frames = flows(500);
            assert_eq!(
                through(&mut outside, &mut inside, &frames, 500),
                frames,
                "{links:?} inwards"
            );
            assert_eq!(
                through(&mut inside, &mut outside, &frames, 500),
                frames,
                "{links:?} outwards"
            );
            let bridged = bridge.stop().unwrap();
            assert_eq!((bridged.received, bridged.passed), (1000, 1000), "{links:?}");
        }
    });
}

#[test]
fn every_queue_has_its_worker() {
    undisturbed(|| {
        let Some(bed) = bed(2) else { return };
        let Some(bridge) = start(&bed, plan(&["xdp:server0", "tap:bridged0,queues=2"], 2)) else {
            return;
        };
        let mut inside = open_in_server(&bed, "packet:bridged0");
        let mut outside = open_in_client(&bed, "packet:client0");
        let frames = flows(500);
        let mut received = through(&mut outside, &mut inside, &frames, 500);
        received.sort_by_key(|frame| number_of(frame));
        assert_eq!(received, frames);
        let bridged = bridge.stop().unwrap();
        assert_eq!(
            (bridged.workers, bridged.links[0].queues, bridged.received),
            (2, 2, 500)
        );
    });
}

#[test]
fn more_workers_than_queues_are_refused() {
    let Some(bed) = bed(1) else { return };
    let too_many = BridgePlan {
        workers: Some(2),
        ..plan(&["packet:server0", "tap:bridged0,queues=2"], 2)
    };
    let refusal = bed.server.run(move || Bridge::start(too_many)).err().unwrap();
    assert!(
        refusal
            .to_string()
            .contains("2 workers were asked for and packet:server0/0 has 1 queues"),
        "{refusal}"
    );
}

#[test]
fn a_table_replaced_under_traffic_loses_no_frame_of_a_device() {
    undisturbed(|| {
        let Some(bed) = bed(1) else { return };
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        let text = |skip: u32| -> String {
            (0..50_000u32)
                .map(|number| format!("{}\n", Ipv4Addr::from(0x0b00_0000 + number * 3 + skip)))
                .collect()
        };
        fs::write(&list, text(0)).unwrap();
        let plan = BridgePlan {
            tables: vec![TablePlan {
                set: None,
                file: list.clone(),
                sides: Sides::Both,
                on_match: OnMatch::Drop,
            }],
            reload_every: Some(Duration::from_millis(1)),
            ..plan(&["xdp:server0", "tap:bridged0"], 1)
        };
        let Some(bridge) = start(&bed, plan) else { return };
        let mut inside = open_in_server(&bed, "packet:bridged0");
        let mut outside = open_in_client(&bed, "packet:client0");
        let frames = flows(640);
        let (mut sent, mut written) = (0, 1);
        until("the table is replaced four times", || {
            // A file that is replaced again before two polls found the same version is not read.
            if bridge.bridged().tables[0].loads == written {
                let next = folder.path().join("next");
                fs::write(&next, text(sent % 3)).unwrap();
                fs::rename(&next, &list).unwrap();
                written += 1;
            }
            assert_eq!(
                through(&mut outside, &mut inside, &frames, 640).len(),
                640,
                "{:?}",
                bridge.bridged()
            );
            sent += 640;
            bridge.bridged().tables[0].loads >= 5
        });
        let bridged = bridge.stop().unwrap();
        assert_eq!(bridged.passed, u64::from(sent));
        assert_eq!(bridged.links[0].tally.receive_dropped, 0);
    });
}

#[test]
fn a_link_that_is_lost_is_counted_and_bridged_again_when_it_returns() {
    undisturbed(|| {
        for links in [
            ["xdp:server0", "tap:bridged0"],
            ["packet:server0", "tap:bridged0"],
        ] {
            let Some(bed) = bed(1) else { return };
            let Some(bridge) = start(&bed, plan(&links, 1)) else {
                return;
            };
            let mut inside = open_in_server(&bed, "packet:bridged0");
            let mut outside = open_in_client(&bed, "packet:client0");
            assert_eq!(through(&mut outside, &mut inside, &flows(100), 100).len(), 100);
            if !run(&bed, "ip", &["link", "set", "server0", "down"]) {
                return;
            }
            until("the link is lost", || !bridge.bridged().links[0].up);
            // Frames from the other side have no destination meanwhile, and are counted.
            inside.send(flows(10).iter().map(Vec::as_slice)).unwrap();
            until("the frames are counted", || {
                bridge.bridged().links[0].not_sent["link_lost"] >= 10
            });
            assert!(run(&bed, "ip", &["link", "set", "server0", "up"]));
            until("the link returns", || bridge.bridged().links[0].up);
            // The peer lost its carrier, too: its socket reports the error once.
            drop(outside);
            let mut outside = open_in_client(&bed, "packet:client0");
            let received = through(&mut outside, &mut inside, &flows(100), 100);
            assert_eq!(received.len(), 100, "{:?}", bridge.bridged());
            let bridged = bridge.stop().unwrap();
            assert_eq!(
                (bridged.links[0].lost, bridged.links[0].returned),
                (1, 1),
                "{links:?}"
            );
            assert!(bridged.links[0].last_loss.is_some());
        }
    });
}

#[test]
fn faults_and_capture_of_a_link_go_on_when_it_returns() {
    undisturbed(|| {
        let Some(bed) = bed(1) else { return };
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen.pcapng");
        let link = format!("packet:server0,capture={},duplicate=100%", seen.display());
        let Some(bridge) = start(&bed, plan(&[&link, "tap:bridged0"], 1)) else {
            return;
        };
        let mut inside = open_in_server(&bed, "packet:bridged0");
        for returned in [0, 1] {
            until("the link has returned", || {
                bridge.bridged().links[0].returned == returned
            });
            let mut outside = open_in_client(&bed, "packet:client0");
            assert_eq!(through(&mut outside, &mut inside, &flows(100), 200).len(), 200);
            if returned == 0 {
                if !run(&bed, "ip", &["link", "set", "server0", "down"]) {
                    return;
                }
                until("the link is lost", || !bridge.bridged().links[0].up);
                assert!(run(&bed, "ip", &["link", "set", "server0", "up"]));
            }
        }
        let bridged = bridge.stop().unwrap();
        assert_eq!(
            bridged.links[0].faults.as_ref().unwrap()["duplicated"],
            200,
            "{bridged:?}"
        );
        assert_eq!(bridged.links[0].tally.received, 400, "{bridged:?}");
        let metrics = Exposition::of(&bridged, Format::Text);
        let sample =
            format!("corelane_bridge_frames_faulted_total{{link=\"{link}\",fault=\"duplicated\"}} 200\n");
        assert!(
            metrics.contains(&sample) && !metrics.contains("held"),
            "{metrics}"
        );
        assert_eq!(bridged.links[1].faults, None);
        let mut captured = open_in_server(&bed, &format!("pcap:{}", seen.display()));
        let twice = [flows(100), flows(100)].concat();
        let captured: Vec<Vec<u8>> = captured
            .receive(1024)
            .unwrap()
            .iter()
            // The bridge's own frames, which find loops.
            .filter(|frame| frame[12..14] != [0x90, 0])
            .map(<[u8]>::to_vec)
            .collect();
        assert!(captured == twice, "{} frames", captured.len());
    });
}
