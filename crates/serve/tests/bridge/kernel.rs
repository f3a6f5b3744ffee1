//! Comparison with a kernel bridge and an nftables set: with the same frames and the same list, the same frames pass.

use super::frames::{arp, datagram, number_of};
use super::namespaces::{
    bed, open_in_client, open_in_server, run, start, through, through_until, wait_until_up,
};
use corelane_serve::Server as _;
use corelane_serve::bridge::{BridgePlan, OnMatch, Sides, TablePlan};
use corelane_tests::undisturbed;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Entries for IPv4 and for IPv6, and frames, some of which match.
fn listed() -> (Vec<String>, Vec<String>, Vec<Vec<u8>>) {
    let mut draws = fastrand::Rng::with_seed(6);
    let v4 = |draws: &mut fastrand::Rng| Ipv4Addr::from(0x0a00_0000 | draws.u32(..1 << 12));
    let v6 = |draws: &mut fastrand::Rng| Ipv6Addr::from(0x2001_0db8 << 96 | draws.u128(..1 << 10));
    let mut list4: Vec<String> = (0..600).map(|_| v4(&mut draws).to_string()).collect();
    // The prefixes do not contain the single addresses, because sets with overlapping intervals are rejected.
    list4.extend(["10.1.0.0/16".to_owned(), "10.2.128.0/17".to_owned()]);
    let mut list6: Vec<String> = (0..150).map(|_| v6(&mut draws).to_string()).collect();
    list6.push("2001:db9::/32".to_owned());
    for list in [&mut list4, &mut list6] {
        list.sort();
        list.dedup();
    }
    let frames = (0..2000u32).map(|number| {
        let mut address4 = || -> IpAddr {
            match draws.u8(..4) {
                0 => Ipv4Addr::from(0x0a00_0000 | draws.u32(..1 << 18)).into(),
                _ => v4(&mut draws).into(),
            }
        };
        if number % 3 > 0 {
            return datagram(number, address4(), address4());
        }
        let mut address6 = || -> IpAddr {
            match draws.u8(..4) {
                0 => Ipv6Addr::from((0x2001_0db8 + draws.u128(..3)) << 96 | 1 << 90).into(),
                _ => v6(&mut draws).into(),
            }
        };
        datagram(number, address6(), address6())
    });
    let frames = frames.collect();
    (list4, list6, frames)
}

/// A rule set for a kernel bridge that drops frames if either address matches.
fn rule_set(list4: &[String], list6: &[String]) -> String {
    format!(
        "table bridge filter {{\n\
         set v4 {{ type ipv4_addr; flags interval; elements = {{ {} }} }}\n\
         set v6 {{ type ipv6_addr; flags interval; elements = {{ {} }} }}\n\
         chain forward {{ type filter hook forward priority 0; policy accept;\n\
         ip saddr @v4 drop; ip daddr @v4 drop; ip6 saddr @v6 drop; ip6 daddr @v6 drop; }}\n}}\n",
        list4.join(", "),
        list6.join(", ")
    )
}

/// The frames that a kernel bridge with the rules passes; `None` if the kernel or the tools do not support it.
fn passed_by_kernel(rules: &str, frames: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let bed = bed(1)?;
    let made = run(
        &bed,
        "ip",
        &["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"],
    ) && run(
        &bed,
        "ip",
        &["link", "add", "out0", "type", "veth", "peer", "name", "out1"],
    ) && run(&bed, "nft", &["-f", rules]);
    if !made {
        return None;
    }
    for device in ["server0", "out0"] {
        assert!(run(&bed, "ip", &["link", "set", device, "master", "br0"]));
    }
    for device in ["br0", "out0", "out1"] {
        assert!(run(&bed, "ip", &["link", "set", device, "up"]));
    }
    for device in ["out0", "out1"] {
        wait_until_up(&bed.server, device);
    }
    let mut inside = open_in_server(&bed, "packet:out1");
    let mut outside = open_in_client(&bed, "packet:client0");
    // The last frame always passes and marks the end.
    Some(through_until(&mut outside, &mut inside, frames, 0, |received| {
        received.last() == frames.last()
    }))
}

#[test]
fn the_bridge_passes_what_a_kernel_bridge_with_the_same_list_passes() {
    undisturbed(|| {
        let (list4, list6, mut frames) = listed();
        frames.push(arp(u32::MAX));
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().join("rules");
        fs::write(&rules, rule_set(&list4, &list6)).unwrap();
        let Some(kernel) = passed_by_kernel(rules.to_str().unwrap(), &frames) else {
            return;
        };

        let Some(bed_of_ours) = bed(1) else { return };
        let list = folder.path().join("list");
        fs::write(&list, format!("{}\n{}\n", list4.join("\n"), list6.join("\n"))).unwrap();
        let plan = BridgePlan {
            tables: vec![TablePlan {
                set: None,
                file: list,
                sides: Sides::Both,
                on_match: OnMatch::Drop,
            }],
            ..BridgePlan::new(
                vec!["xdp:server0".to_owned(), "tap:bridged0".to_owned()],
                vec![first_cpu()],
            )
        };
        let Some(bridge) = start(&bed_of_ours, plan) else {
            return;
        };
        let mut inside = open_in_server(&bed_of_ours, "packet:bridged0");
        let mut outside = open_in_client(&bed_of_ours, "packet:client0");
        let ours = through(&mut outside, &mut inside, &frames, kernel.len());

        assert!(
            kernel.len() > 200 && kernel.len() < frames.len() - 200,
            "{} pass",
            kernel.len()
        );
        let numbers = |frames: &[Vec<u8>]| -> Vec<u32> {
            frames[..frames.len() - 1]
                .iter()
                .map(|frame| number_of(frame))
                .collect()
        };
        assert_eq!(numbers(&ours), numbers(&kernel));
        assert_eq!(ours, kernel);
        assert_eq!(bridge.stop().unwrap().passed, kernel.len() as u64);
    });
}

fn first_cpu() -> u32 {
    corelane_host::cpus::allowed().unwrap().cpus[0]
}
