//! Arbitrary bytes as a frame: it comes out of its tunnels, passes as it is or is dropped, counted once; and what is put into a
//! tunnel comes out as it was. For an hour: `tests/fuzz.sh 60 decapsulate`.

#![no_main]

use corelane_packet::Dissection;
use corelane_rss::Key;
use corelane_stage::decapsulation::{self, Decapsulation};
use corelane_stage::encapsulation::{self, DontFragment, Encapsulation, Wrap};
use corelane_stage::{Desk, Stage, Work};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

fn run(stage: &mut impl Stage, frame: &[u8]) -> Option<Vec<u8>> {
    let (mut desk, mut lent) = (Desk::default(), vec![frame.to_vec()]);
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    stage.run(&mut work);
    assert_eq!(work.len(), 1);
    work.goes_on(0).then(|| work.frame(0).to_vec())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [options, frame @ ..] = bytes else { return };
    unwrap(*options, frame);
    wrap(options >> 4, frame);
});

fn unwrap(options: u8, frame: &[u8]) {
    let (nesting, verify) = (options >> 1 & 7, options & 1 != 0);
    let plan = decapsulation::Plan {
        nesting,
        verify,
        ..decapsulation::Plan::default()
    };
    let counts = Arc::new(decapsulation::Counts::default());
    let left = run(&mut Decapsulation::new(plan.clone(), 7, Arc::clone(&counts)), frame);
    let taken = [
        &counts.ipip,
        &counts.gre,
        &counts.vxlan,
        &counts.geneve,
        &counts.mpls,
    ];
    let taken: u64 = taken.iter().map(|count| count.get()).sum();
    let dropped = [&counts.checksum, &counts.ttl, &counts.ecn];
    let dropped: u64 = dropped.iter().map(|count| count.get()).sum();
    assert_eq!(dropped, left.is_none().into());
    assert!(taken <= nesting.into());
    let Some(left) = left else { return };
    assert!(taken > 0 || left == frame);
    assert!(left.len() <= frame.len());
    if counts.too_deep.get() == 0 {
        let again = run(&mut Decapsulation::new(plan, 7, Arc::default()), &left);
        assert!(
            again.as_ref() == Some(&left),
            "what is out of its tunnels is in none"
        );
    }
}

fn wrap(options: u8, frame: &[u8]) {
    let wrap = match options & 3 {
        0 => Wrap::Vxlan { vni: 7 },
        1 => Wrap::Gre { key: None },
        2 => Wrap::Gre { key: Some(7) },
        _ => Wrap::Ipip,
    };
    let [local, remote] = match options & 4 {
        0 => [1, 2].map(|end| Ipv4Addr::from_bits(end).into()),
        _ => [1, 2].map(|end| Ipv6Addr::from_bits(end).into()),
    };
    let plan = encapsulation::Plan {
        wrap,
        local,
        remote,
        source_mac: None,
        destination_mac: None,
        dscp: None,
        ttl: 64,
        df: DontFragment::Inherit,
        link: None,
    };
    let counts = Arc::new(encapsulation::Counts::default());
    let mut stage = Encapsulation::new(plan, &Key::VERIFICATION, (0, 1), Arc::clone(&counts));
    let wrapped = run(&mut stage, frame).expect("no frame is too long here");
    if counts.encapsulated.get() == 0 {
        assert!(wrapped == frame);
        return;
    }
    let outer = Dissection::of(&wrapped).expect("its headers are right");
    assert!(!outer.has_wrong_checksum());
    assert_eq!(outer.packet_end(), wrapped.len());
    let content = match (wrap, Dissection::of(frame)) {
        (Wrap::Vxlan { .. }, _) => frame,
        (_, Ok(packet)) if !packet.is_truncated() => &frame[..packet.packet_end()],
        _ => return,
    };
    let plan = decapsulation::Plan {
        nesting: 1,
        ..decapsulation::Plan::default()
    };
    let unwrapped = run(&mut Decapsulation::new(plan, 7, Arc::default()), &wrapped);
    assert!(unwrapped.as_deref() == Some(content), "what was put in comes out");
}
