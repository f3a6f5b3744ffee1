//! Arbitrary bytes as a packet of ESP, and arbitrary content that was sealed as the association demands: it comes out, passes as it
//! is or is dropped, counted once, and is received once. For an hour: `tests/fuzz.sh 60 esp`.

#![no_main]

use corelane_stage::decapsulation::{Counts, Decapsulation, Keys, Plan};
use corelane_stage::esp::Associations;
use corelane_stage::{Desk, Stage, Work};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::sync::Arc;
use std::time::Instant;

fn run(stage: &mut impl Stage, frame: &[u8]) -> Option<Vec<u8>> {
    let (mut desk, mut lent) = (Desk::default(), vec![frame.to_vec()]);
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    stage.run(&mut work);
    work.goes_on(0).then(|| work.frame(0).to_vec())
}

fn stage(extended: bool) -> (Decapsulation, Arc<Counts>) {
    let key = "00".repeat(20);
    let file =
        format!("[[association]]\nspi = 7\ndestination = \"0.0.0.0\"\nkey = \"{key}\"\nesn = {extended}");
    let mut keys = Keys::default();
    keys.associations = Arc::new(Associations::parse(&file).unwrap());
    let plan = Plan {
        keys: Some(keys),
        verify: false,
        ..Plan::default()
    };
    let counts = Arc::new(Counts::default());
    (Decapsulation::new(plan, 7, Arc::clone(&counts)), counts)
}

/// An Ethernet frame with an IPv4 packet of this protocol to 0.0.0.0.
fn framed(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    (frame[22], frame[23]) = (64, protocol);
    frame.extend(payload);
    frame
}

fn dropped(counts: &Counts) -> u64 {
    let opened = [&counts.padding, &counts.not_tunnel_mode, &counts.dummy, &counts.ecn];
    let closed = [&counts.replayed, &counts.forged, &counts.ttl];
    opened.iter().chain(&closed).map(|count| count.get()).sum()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [options, bytes @ ..] = bytes else { return };
    let bytes = &bytes[..bytes.len().min(60_000)];
    let extended = options & 1 != 0;

    let (mut stage_of_any, counts) = stage(extended);
    let frame = framed(if options & 2 != 0 { 50 } else { 17 }, bytes);
    let left = run(&mut stage_of_any, &frame);
    assert_eq!(dropped(&counts), left.is_none().into());
    assert_eq!(counts.esp.get(), 0, "nobody guesses a key");

    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[0; 16]).unwrap());
    let header = [0, 0, 0, 7, 0, 0, 0, 1];
    let authenticated: &[u8] = match extended {
        true => &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1],
        false => &header,
    };
    let mut sealed = bytes.to_vec();
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(authenticated), &mut sealed);
    let esp = [&header[..], &[0; 8], &sealed, tag.unwrap().as_ref()].concat();
    let frame = framed(50, &esp);
    let (mut stage, counts) = stage(extended);
    let left = run(&mut stage, &frame);
    assert_eq!(counts.forged.get() + counts.replayed.get(), 0);
    assert_eq!(dropped(&counts), left.is_none().into());
    if let Some(left) = left {
        assert!(counts.esp.get() == 1 && left.len() < frame.len());
    }
    assert!(run(&mut stage, &frame).is_none());
    assert_eq!(counts.replayed.get(), 1);
});
