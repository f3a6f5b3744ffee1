//! Building a bed of two network namespaces.
//!
//! Input: a checked plan. Output: a bed whose two namespaces, each unshared by its own thread, hold the two ends of a
//! veth pair. For many TCP connections each namespace has its own hash table of established connections and raised limits
//! on queues and ports; no setting of the machine is changed.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use nix::sched::{CloneFlags, unshare};

use super::addresses::{GATEWAY_IPV4, GATEWAY_IPV6, merged, without};
use super::side::{Keeper, Side, write_setting};
use super::user_namespace::{hint, in_user_namespace};
use super::wire::{End, NOARP, UP, Wire};
use super::{Bed, BedError, BedKind, BedPlan};
use crate::HostError;
use crate::tree::setting_path;

/// Locally administered unicast link addresses (second lowest bit of the first byte, IEEE 802-2014 section 8.2). Fixed,
/// so that captures of two runs can be compared.
const SERVER: End = End {
    device: "server0",
    link_address: [0x02, 0x63, 0x6c, 0, 0, 1],
};
const CLIENT: End = End {
    device: "client0",
    link_address: [0x02, 0x63, 0x6c, 0, 0, 2],
};

/// How long an end may take to become ready after both are up. The kernel needs well under a millisecond, but for IPv6 a
/// work queue has to run, which waits for the kernel's network lock: on a busy machine that removes namespaces, seconds.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The longest time between two looks. Each takes the same lock.
const LONGEST_LOOK: Duration = Duration::from_millis(10);

/// The size of the established-connections table that child namespaces get (`Documentation/networking/ip-sysctl.rst`,
/// since Linux 6.1).
const CHILD_TABLE: &str = "net.ipv4.tcp_child_ehash_entries";

/// The maximum of the setting (`tcp_child_ehash_entries_max` in `net/ipv4/sysctl_net_ipv4.c`).
const LARGEST_TABLE: u32 = 16 << 20;

/// The longest queue of connections waiting to be accepted, and of connections not yet established. A listener's
/// backlog was 16 bits wide until Linux 4.1, and servers still pass such values.
const LONGEST_QUEUE: &str = "65535";

/// Every port except those reserved for root.
const ALL_PORTS: &str = "1024 65535";

pub(super) fn build(plan: &BedPlan, client_address: IpAddr) -> Result<Bed, BedError> {
    let pools = merged(&plan.clients);
    let ipv6 = plan.server.is_ipv6();

    let (server, server_namespace) = enter_namespace("server", ipv6, plan.connections)?;
    let (client, _) = enter_namespace("client", ipv6, plan.connections)?;

    let (mtu, queues) = (plan.mtu, plan.queues);
    client.run(move || -> Result<(), HostError> {
        Wire::open()?.pair(&CLIENT, &SERVER, server_namespace.as_raw_fd(), mtu, queues)
    })?;

    let address = plan.server;
    let (routes, networks) = (pools.clone(), merged(&plan.server_networks));
    let remote: Vec<IpNet> = networks.iter().copied().chain([IpNet::from(address)]).collect();
    server
        .run(move || -> Result<(), HostError> { configure(&SERVER, &CLIENT, address, &networks, &routes) })?;
    let locals: Vec<IpNet> = pools.iter().flat_map(|pool| without(*pool, address)).collect();
    client.run(move || -> Result<(), HostError> {
        if ipv6 {
            // IPv4 binds any address of a local route; by default IPv6 requires it on a device
            // (`Documentation/networking/ip-sysctl.rst`, ip_nonlocal_bind).
            write_setting("net.ipv6.ip_nonlocal_bind", "1")?;
        }
        configure(&CLIENT, &SERVER, client_address, &locals, &remote)
    })?;
    server.run(move || wait_until_ready(SERVER.device, address, client_address))?;
    client.run(move || wait_until_ready(CLIENT.device, client_address, address))?;

    let unprivileged = in_user_namespace();
    Ok(Bed {
        server: Side::new(server, SERVER.device, plan.server, true),
        client: Side::new(client, CLIENT.device, client_address, true),
        kind: match unprivileged {
            true => BedKind::UserNamespace,
            false => BedKind::Namespaces,
        },
        reason: unprivileged.then(|| "not root".to_owned()),
        clients: pools,
    })
}

/// Starts a thread, gives it a network namespace of its own, and returns a handle on that namespace.
fn enter_namespace(role: &str, ipv6: bool, held: Option<u32>) -> Result<(Keeper, File), BedError> {
    let keeper = Keeper::start(role)?;
    let namespace = keeper.run(move || -> Result<File, BedError> {
        let refused = |cause: io::Error| BedError::Namespace {
            hint: hint(&cause),
            cause,
        };
        match held {
            None => unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| refused(errno.into()))?,
            Some(held) => {
                enter_sized_namespace(held).map_err(refused)?;
                raise_limits(held)?;
            }
        }
        quiet(ipv6)?;
        File::open("/proc/thread-self/ns/net").map_err(refused)
    })?;
    Ok((keeper, namespace))
}

/// Moves the calling thread into a network namespace whose table of established connections has one entry per
/// connection. The machine's own table, which namespaces share by default, has 262,144 entries on 24 GiB, so every
/// packet would walk a long chain.
///
/// The kernel reads the size from the parent namespace. So an intermediate namespace is created, configured and left at
/// once; no setting of the machine changes. Kernels without the setting use the shared table.
fn enter_sized_namespace(connections: u32) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let path = setting_path(CHILD_TABLE);
    if fs::exists(&path)? {
        fs::write(path, connections.min(LARGEST_TABLE).to_string())?;
        unshare(CloneFlags::CLONE_NEWNET)?;
    }
    Ok(())
}

/// Raises what limits connections in the calling thread's namespace.
fn raise_limits(connections: u32) -> Result<(), HostError> {
    write_setting("net.core.somaxconn", LONGEST_QUEUE)?;
    write_setting("net.ipv4.tcp_max_syn_backlog", LONGEST_QUEUE)?;
    write_setting("net.ipv4.ip_local_port_range", ALL_PORTS)?;
    // Connections closed at the same time all stay in TIME_WAIT, so none of their ports is reused too early.
    write_setting("net.ipv4.tcp_max_tw_buckets", &connections.to_string())
}

/// Settings of a new namespace that keep foreign frames off the link and accept every reply. They apply to devices
/// created afterwards.
fn quiet(ipv6: bool) -> Result<(), HostError> {
    // A namespace starts with the machine's own reverse-path filter, which may be strict.
    write_setting("net.ipv4.conf.all.rp_filter", "0")?;
    write_setting("net.ipv4.conf.default.rp_filter", "0")?;
    if ipv6 {
        // 1 is "none": no link-local address, hence no router solicitation and no multicast report for it.
        write_setting("net.ipv6.conf.default.addr_gen_mode", "1")
    } else if std::path::Path::new("/proc/sys/net/ipv6").exists() {
        write_setting("net.ipv6.conf.all.disable_ipv6", "1")
    } else {
        Ok(())
    }
}

/// Brings the loopback device and `own` up, gives `own` its address, and routes `remote` prefixes to the other end.
/// `local` prefixes become local: every address in them is this side's own (AnyIP).
fn configure(
    own: &End,
    other: &End,
    address: IpAddr,
    local: &[IpNet],
    remote: &[IpNet],
) -> Result<(), HostError> {
    let gateway: IpAddr = match address {
        IpAddr::V4(_) => GATEWAY_IPV4.into(),
        IpAddr::V6(_) => GATEWAY_IPV6.into(),
    };
    let mut wire = Wire::open()?;
    let loopback = wire.link("lo")?.index;
    let device = wire.link(own.device)?.index;
    wire.switch(loopback, UP)?;
    wire.switch(device, UP | NOARP)?;
    wire.add_address(device, address)?;
    wire.add_neighbour(device, gateway, other.link_address)?;
    for prefix in local {
        wire.add_local_route(loopback, *prefix)?;
    }
    for prefix in remote {
        wire.add_route(device, *prefix, gateway)?;
    }
    Ok(())
}

/// Waits until one end carries frames both ways: the device has carrier, `own` is a local address, and packets to
/// `other` leave with it as their source. IPv6 makes an address usable and routable slightly after it was added
/// (`addrconf_dad_work` in `net/ipv6/addrconf.c`) and drops frames that arrive earlier.
fn wait_until_ready(device: &'static str, own: IpAddr, other: IpAddr) -> Result<(), BedError> {
    let mut wire = Wire::open()?;
    let (start, mut look) = (Instant::now(), Duration::from_micros(200));
    while !(wire.link(device)?.state == "up" && wire.is_local(own) && wire.comes_from(own, other)) {
        if start.elapsed() > READY_WITHIN {
            return Err(BedError::Failed(format!(
                "device {device} of the test bed was not ready within {} ms; try again when the machine is less busy",
                READY_WITHIN.as_millis()
            )));
        }
        thread::sleep(look);
        look = (look * 2).min(LONGEST_LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_queues_of_the_plan() {
        let plan = BedPlan {
            queues: Some(3),
            ..BedPlan::new(
                "10.11.2.1".parse().unwrap(),
                vec!["10.11.2.0/24".parse().unwrap()],
            )
        };
        let bed = match build(&plan, "10.11.2.2".parse().unwrap()) {
            Err(error @ BedError::Namespace { .. }) => {
                eprintln!("skipped: {error}");
                return;
            }
            built => built.unwrap(),
        };
        for (side, device) in [(&bed.server, SERVER.device), (&bed.client, CLIENT.device)] {
            let link = side.run(move || Wire::open().unwrap().link(device).unwrap());
            let queues = (link.receive_queues, link.transmit_queues);
            assert_eq!(queues, (Some(3), Some(3)), "{device}");
        }
    }
}
