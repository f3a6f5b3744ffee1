//! The kernel agrees: what it puts into a VXLAN the bridge takes out as it was, and what the bridge puts into one the kernel
//! takes out; TCP between two stacks passes, in which one has a VXLAN and the other none.

use super::frames::{arp, datagram, tagged};
use super::namespaces::{open_in_server, start, through_until};
use corelane_host::bed::{Bed, BedPlan, Side};
use corelane_link::{AnyLink, LinkSpec, Opener};
use corelane_packet::ethernet::MacAddress;
use corelane_serve::Server as _;
use corelane_serve::bridge::{Bridge, BridgeError, BridgePlan};
use corelane_stage::decapsulation;
use corelane_stage::encapsulation::{self, DontFragment, Wrap};
use corelane_tests::{PATIENCE, namespaces, namespaces_plan, undisturbed};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;

const VNI: u32 = 0x0a_0b0c;

/// Runs `ip` with these arguments; false if it fails.
fn ip(side: &Side, arguments: &str) -> bool {
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    side.run(move || match Command::new("ip").args(&arguments).output() {
        Err(error) => panic!("ip: {error}"),
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            eprintln!("skipped: ip {}: {why}", arguments.join(" "));
            false
        }
    })
}

/// The Ethernet address of a device.
fn mac(side: &Side, device: &str) -> MacAddress {
    let device = device.to_owned();
    let shown = side.run(move || {
        let output = Command::new("ip").args(["-o", "link", "show", &device]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    });
    let words: Vec<&str> = shown.split(' ').collect();
    let at = words.iter().position(|word| *word == "link/ether").unwrap();
    words[at + 1].parse().unwrap()
}

/// Two stacks, in namespaces: the client's has a VXLAN to the server, whose end is a bridge with a tap.
struct World {
    bed: Bed,
    bridge: Bridge,
}

/// The world of outer packets of this family; `None` if this machine has none.
fn world(server: &str, client: &str) -> Option<World> {
    let server: IpAddr = server.parse().unwrap();
    let plan = match server {
        IpAddr::V4(_) => namespaces_plan(),
        IpAddr::V6(_) => BedPlan {
            loopback_ok: false,
            ..BedPlan::new(server, vec!["fd11::/64".parse().unwrap()])
        },
    };
    let bed = namespaces(&BedPlan {
        queues: Some(1),
        ..plan
    })?;
    // Devices created later send nothing on their own, so that they carry only the test's frames.
    for side in [&bed.client, &bed.server] {
        side.set("net.ipv6.conf.default.disable_ipv6", "1").unwrap();
    }
    let [outside, inside] = [mac(&bed.server, "server0"), mac(&bed.client, "client0")];
    let vxlan = format!(
        "link add vx0 mtu 1420 type vxlan id {VNI} local {client} remote {server} dstport 4789 tos inherit dev client0"
    );
    // The bridge takes the frames of the server's device, so that no ARP request is answered.
    let neighbour = format!("neigh replace {server} lladdr {outside} dev client0");
    let made = ip(&bed.client, &vxlan) && ip(&bed.client, &neighbour);
    if !made {
        return None;
    }
    // Frames that a device has to cut would be longer than the MTU of the bridge.
    assert!(ip(&bed.client, "link set vx0 gso_max_segs 1 up"));
    let mut bridge = BridgePlan::new(
        vec!["xdp:server0".to_owned(), "tap:inner0".to_owned()],
        vec![corelane_host::cpus::allowed().unwrap().cpus[0]],
    );
    bridge.stages.decapsulate = Some(decapsulation::Plan {
        link: Some(0),
        ..decapsulation::Plan::default()
    });
    bridge.stages.encapsulate = Some(encapsulation::Plan {
        source_mac: Some(outside),
        destination_mac: Some(inside),
        ..tunnel(&server.to_string(), client, Some(1))
    });
    let bridge = start(&bed, bridge)?;
    Some(World { bed, bridge })
}

#[test]
fn tunnels_that_cannot_be_between_the_links_are_refused_by_name() {
    let out = |link| {
        Some(decapsulation::Plan {
            link,
            ..decapsulation::Plan::default()
        })
    };
    let into = |link| Some(tunnel("192.0.2.1", "192.0.2.2", link));
    let refused = |decapsulate, encapsulate| {
        let mut plan = BridgePlan::new(vec!["ring:left".to_owned(), "ring:right".to_owned()], vec![0]);
        plan.stages.decapsulate = decapsulate;
        plan.stages.encapsulate = encapsulate;
        match Bridge::start(plan).err().expect("there can be no such bridge") {
            BridgeError::Setting(stage, why) => (stage, why),
            other => panic!("{other}"),
        }
    };
    let again =
        "what decapsulate takes out of such a tunnel would be put into one again: give each its own link";
    for links in [[None, None], [Some(0), None], [None, Some(1)], [Some(1), Some(1)]] {
        let why = refused(out(links[0]), into(links[1]));
        assert_eq!(why, ("encapsulate", again.to_owned()), "{links:?}");
    }
    let many = "link 2: there are 2, and the first is 0";
    assert_eq!(refused(out(Some(2)), None), ("decapsulate", many.to_owned()));
    assert_eq!(refused(None, into(Some(2))), ("encapsulate", many.to_owned()));
    let remote = "::1".parse().unwrap();
    let mixed = encapsulation::Plan {
        remote,
        ..tunnel("192.0.2.1", "192.0.2.2", None)
    };
    assert_eq!(refused(None, Some(mixed)).0, "encapsulate");
}

/// A VXLAN between these addresses for what comes from this link.
fn tunnel(local: &str, remote: &str, link: Option<usize>) -> encapsulation::Plan {
    encapsulation::Plan {
        wrap: Wrap::Vxlan { vni: VNI },
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        source_mac: None,
        destination_mac: None,
        dscp: None,
        ttl: 64,
        df: DontFragment::Inherit,
        link,
    }
}

fn open_in_client(bed: &Bed, spec: &str) -> AnyLink {
    let spec: LinkSpec = spec.parse().unwrap();
    bed.client
        .run(move || Opener::new(spec).open())
        .unwrap()
        .remove(0)
}

/// The outer addresses of both families: the server's, the client's.
const FAMILIES: [(&str, &str); 2] = [("10.11.2.1", "10.11.2.2"), ("fd11::1", "fd11::2")];

#[test]
fn what_the_kernel_puts_into_a_vxlan_comes_out_and_it_takes_out_what_is_put_in() {
    for (server, client) in FAMILIES {
        undisturbed(|| {
            let Some(World { bed, bridge }) = world(server, client) else {
                return;
            };
            let ends = |number: u32| -> [IpAddr; 2] {
                let v6 = |last| Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(last)).into();
                match number % 2 {
                    0 => [[192, 0, 2, 1].into(), [198, 51, 100, number as u8].into()],
                    _ => [v6(1), v6(number)],
                }
            };
            let frames: Vec<Vec<u8>> = (0..200)
                .map(|number| match (number % 5, ends(number)) {
                    (0, _) => arp(number),
                    (1, [from, to]) => tagged(number, from, to),
                    (_, [from, to]) => datagram(number, from, to),
                })
                .collect();
            let mut inside = open_in_server(&bed, "packet:inner0");
            let mut outside = open_in_client(&bed, "packet:vx0");
            let all = |received: &[Vec<u8>]| received.len() >= frames.len();
            let out = through_until(&mut outside, &mut inside, &frames, 1, all);
            assert!(out == frames, "{server}: taken out");
            let back = through_until(&mut inside, &mut outside, &frames, 1, all);
            assert!(back == frames, "{server}: put in");
            let bridged = bridge.stop().unwrap();
            let count = |stage: &str, count: &str| bridged.stages[stage][count];
            assert_eq!(count("decapsulate", "vxlan"), 200, "{bridged:?}");
            assert_eq!(count("encapsulate", "encapsulated"), 200, "{bridged:?}");
        });
    }
}

#[test]
fn tcp_passes_between_a_stack_with_a_vxlan_and_one_without() {
    const BYTES: usize = 1 << 20;
    for (server, client) in FAMILIES {
        undisturbed(|| {
            let Some(World { bed, bridge }) = world(server, client) else {
                return;
            };
            for (side, arguments) in [
                (&bed.server, "link set inner0 mtu 1420"),
                (&bed.server, "address add 10.99.0.1/24 dev inner0"),
                (&bed.client, "address add 10.99.0.2/24 dev vx0"),
            ] {
                assert!(ip(side, arguments), "{arguments}");
            }
            let sent: Vec<u8> = (0..BYTES).map(|number| (number * 7 / 5) as u8).collect();
            let listener = bed.server.run(|| TcpListener::bind("10.99.0.1:7000").unwrap());
            // All that came goes back.
            let echo = move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut came = vec![0; BYTES];
                stream.read_exact(&mut came).unwrap();
                stream.write_all(&came).unwrap();
            };
            let echo = bed.server.spawn(echo).unwrap();
            let bytes = sent.clone();
            let back = bed.client.run(move || {
                let mut stream = TcpStream::connect("10.99.0.1:7000").unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(&bytes).unwrap();
                let mut back = vec![0; BYTES];
                stream.read_exact(&mut back).unwrap();
                back
            });
            echo.join().unwrap();
            assert!(back == sent, "{server}");
            let bridged = bridge.stop().unwrap();
            let segments = BYTES as u64 / 1380;
            for (stage, count) in [("decapsulate", "vxlan"), ("encapsulate", "encapsulated")] {
                assert!(bridged.stages[stage][count] > segments, "{bridged:?}");
            }
        });
    }
}
