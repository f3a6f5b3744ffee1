//! Errors of devices and processes have a specific message: removed, down, in use, wrong number of queues. Nothing
//! stays on a device whose link is dropped.

use corelane_host::bed::{Bed, BedPlan};
use corelane_link::{AnyLink, FrameLayout, Link, LinkError, LinkSpec, Opener, memory};
use corelane_tests::{namespaces, namespaces_plan, until};
use std::process::Command;

fn bed(queues: u32) -> Option<Bed> {
    namespaces(&BedPlan {
        queues: Some(queues),
        ..namespaces_plan()
    })
}

fn open_in(bed: &Bed, spec: &str) -> Result<Vec<AnyLink>, LinkError> {
    let spec: LinkSpec = spec.parse().unwrap();
    bed.server.run(move || Opener::new(spec).open())
}

/// Runs `ip` in the server's namespace; false if it is not installed.
fn ip(bed: &Bed, arguments: &'static [&'static str]) -> bool {
    bed.server
        .run(move || match Command::new("ip").args(arguments).status() {
            Err(error) => {
                eprintln!("skipped: ip: {error}");
                false
            }
            Ok(status) => {
                assert!(status.success(), "ip {arguments:?}");
                true
            }
        })
}

/// Waits until a link reports that it is lost, checked in its own namespace as its worker does.
fn wait_for_loss(bed: &Bed, mut link: AnyLink, what: &str) {
    let what = what.to_owned();
    bed.server.run(move || {
        until(&what, || {
            let lost = |result: Result<(), LinkError>| match result {
                Err(error) => {
                    assert!(error.is_lost(), "{error}");
                    true
                }
                Ok(()) => false,
            };
            lost(link.check()) || lost(link.receive(1).map(drop))
        });
    });
}

#[test]
fn a_device_that_goes_away_or_down_is_a_lost_link() {
    for spec in ["xdp:server0", "packet:server0"] {
        for change in [
            &["link", "del", "server0"],
            &["link", "set", "server0", "down"][..],
        ] {
            let Some(bed) = bed(1) else { return };
            let link = open_in(&bed, spec).unwrap().remove(0);
            if !ip(&bed, change) {
                return;
            }
            wait_for_loss(&bed, link, &format!("{spec} is lost after {change:?}"));
        }
    }
    let Some(bed) = bed(1) else { return };
    let link = open_in(&bed, "tap:loss0").unwrap().remove(0);
    if ip(&bed, &["link", "del", "loss0"]) {
        wait_for_loss(&bed, link, "tap is lost");
    }
}

#[test]
fn a_link_comes_back_with_its_device() {
    for spec in ["xdp:server0", "packet:server0"] {
        let Some(bed) = bed(1) else { return };
        let link = open_in(&bed, spec).unwrap().remove(0);
        if !ip(&bed, &["link", "set", "server0", "down"]) {
            return;
        }
        drop(link);
        let refusal = open_in(&bed, spec).unwrap_err();
        assert!(refusal.is_lost(), "{refusal}");
        ip(&bed, &["link", "set", "server0", "up"]);
        let again = open_in(&bed, spec);
        assert!(again.is_ok(), "{spec}: {}", again.unwrap_err());
    }
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let Some(bed) = bed(2) else { return };
    let refusal = |spec| open_in(&bed, spec).unwrap_err().to_string();
    assert!(
        refusal("xdp:absent0").contains("no device absent0"),
        "{}",
        refusal("xdp:absent0")
    );
    assert!(refusal("packet:absent0").contains("no device absent0"));
    let queues = refusal("xdp:server0,queues=3");
    assert!(
        queues.contains("has 2 receive queues but 3 were requested"),
        "{queues}"
    );
    let copies = refusal("xdp:server0,mode=zerocopy");
    assert!(copies.contains("zero copy is not supported here"), "{copies}");
    let stride = refusal("xdp:server0,stride=1024");
    assert!(
        stride.contains("a stride of 1024 bytes does not do here"),
        "{stride}"
    );
    assert!(
        refusal("tap:server0").contains("not supported here"),
        "{}",
        refusal("tap:server0")
    );
    let _first = open_in(&bed, "xdp:server0").unwrap();
    let second = refusal("xdp:server0");
    assert!(second.contains("in use"), "{second}");
}

#[test]
fn a_queue_that_was_just_given_up_can_be_had_at_once() {
    let Some(bed) = bed(2) else { return };
    for round in 0..10 {
        let opened = open_in(&bed, "xdp:server0");
        assert_eq!(
            opened.map(|links| links.len()).map_err(|error| error.to_string()),
            Ok(2),
            "round {round}"
        );
    }
}

#[test]
fn a_ring_whose_other_process_ends_is_lost() {
    let name = format!("loss-{}", std::process::id());
    let mut first = memory::shared(&name, FrameLayout::default()).unwrap();
    let joining = std::thread::spawn({
        let name = name.clone();
        move || memory::shared(&name, FrameLayout::default())
    });
    until("the other end has joined", || {
        first.check().unwrap();
        joining.is_finished()
    });
    drop(joining.join().unwrap().unwrap());
    // A child that another test forks meanwhile has the connection, too, until it executes its program.
    let mut found = Ok(());
    until("the loss is seen", || {
        found = first.check();
        found.is_err()
    });
    let lost = found.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    assert!(first.is_ended());
}
