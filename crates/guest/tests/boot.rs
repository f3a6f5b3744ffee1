//! Boots real guests, and checks their output and that they terminate.

use corelane_guest::{GuestError, GuestFile, GuestPlan, boot, boot_unless};
use corelane_tests::{PATIENCE, guest_parts};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn output_files_and_status_come_out_as_they_went_in() {
    let Some(parts) = guest_parts() else { return };
    let own = PathBuf::from(file!())
        .file_name()
        .map(|name| PathBuf::from("tests").join(name));
    let own = own.expect("this file has a name");
    let plan = GuestPlan {
        cpus: 2,
        nodes: 2,
        files: vec![GuestFile {
            source: own.clone(),
            target: "/etc/own/text".to_owned(),
        }],
        // It boots in some seconds, without hardware support and beside other programs in many.
        limit: 3 * PATIENCE,
        ..GuestPlan::new("cat /etc/own/text; cat /sys/devices/system/node/node*/cpulist >&2; exit 7")
    };
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    let expected = std::fs::read_to_string(own).unwrap() + "0\n1\n";
    assert_eq!((guest.output, guest.status), (expected, 7));
}

#[test]
fn a_command_that_does_not_end_is_ended_with_the_guest() {
    let Some(parts) = guest_parts() else { return };
    let plan = GuestPlan {
        limit: Duration::from_secs(1),
        ..GuestPlan::new("while true; do :; done")
    };
    match boot(&plan, &parts) {
        Err(GuestError::TooLong { limit, .. }) => assert_eq!(limit, plan.limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_guest_is_stopped_on_demand() {
    let Some(parts) = guest_parts() else { return };
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) >= 3;
    let plan = GuestPlan::new("while true; do :; done");
    match boot_unless(&plan, &parts, stop) {
        Err(GuestError::Stopped) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_emulator_that_refuses_its_devices_says_which() {
    let Some(parts) = guest_parts() else { return };
    let plan = GuestPlan {
        devices: vec!["-device".to_owned(), "no-such-device".to_owned()],
        ..GuestPlan::new("true")
    };
    let refused = boot(&plan, &parts).unwrap_err().to_string();
    assert!(refused.contains("no-such-device"), "{refused}");
}
