//! Guests of tests: emulated machines, whose kernel has what this machine's may lack.

use crate::PATIENCE;
use corelane_guest::{GuestError, GuestParts, GuestPlan};
use std::path::PathBuf;

/// Modules of tunnels, of ESP with AES-GCM, and of the devices to have them on. Their dependencies are found; what AES-GCM and
/// its initial vectors need is named here because the kernel loads it by name.
const TUNNELS: [&str; 19] = [
    "veth",
    "tun",
    "vxlan",
    "geneve",
    "ip_gre",
    "ip6_gre",
    "ipip",
    "sit",
    "ip6_tunnel",
    "esp4",
    "esp6",
    "xfrm_user",
    "gcm",
    "ctr",
    "ghash-generic",
    "seqiv",
    "drbg",
    "jitterentropy_rng",
    "sha512_generic",
];

/// What a guest needs, or `None` after printing the reason to skip the test.
///
/// # Panics
/// If what is there cannot be read.
#[must_use]
pub fn guest_parts() -> Option<GuestParts> {
    or_skipped(GuestParts::find())
}

/// A guest whose kernel has tunnels (`ip link add type gre`, `ip xfrm`), with iproute2's `ip`, which runs this command; or
/// `None` after printing the reason to skip the test. More programs and files may be added.
///
/// # Panics
/// If what is there cannot be read.
#[must_use]
pub fn guest_with_tunnels(command: &str) -> Option<(GuestPlan, GuestParts)> {
    let parts = guest_parts()?;
    let modules = or_skipped(parts.modules(&TUNNELS))?;
    let ip = ["/usr/sbin/ip", "/sbin/ip", "/bin/ip"].map(PathBuf::from);
    let Some(ip) = ip.into_iter().find(|path| path.is_file()) else {
        eprintln!("skipped: there is no ip: apt-get install iproute2");
        return None;
    };
    let plan = GuestPlan {
        modules,
        programs: vec![ip],
        limit: 3 * PATIENCE,
        ..GuestPlan::new(command)
    };
    Some((plan, parts))
}

fn or_skipped<T>(found: Result<T, GuestError>) -> Option<T> {
    match found {
        Err(missing @ GuestError::Missing(_)) => {
            eprintln!("skipped: {missing}");
            None
        }
        found => Some(found.unwrap_or_else(|error| panic!("{error}"))),
    }
}
