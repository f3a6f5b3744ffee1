//! Two ends of each kind, with their real connection.

use corelane_host::bed::{Bed, BedPlan, Side};
use corelane_link::{AnyLink, BareLink, FrameLayout, Link, LinkError, LinkSpec, Opener, Wrapped, memory};
use corelane_tests::{namespaces_plan, until};
use std::sync::atomic::{AtomicU32, Ordering};

/// Two ends, and the objects that must exist as long as they do.
pub struct World {
    pub name: String,
    /// One link per queue of one end.
    pub left: Vec<AnyLink>,
    /// One link per queue of the other end.
    pub right: Vec<AnyLink>,
    pub bed: Option<Bed>,
}

pub fn pair() -> Result<World, String> {
    let (left, right) = memory::pair(layout()).map_err(|error| error.to_string())?;
    Ok(World {
        name: "memory".to_owned(),
        left: vec![Wrapped::new(BareLink::Memory(left), None, None)],
        right: vec![Wrapped::new(BareLink::Memory(right), None, None)],
        bed: None,
    })
}

/// Both ends are in this process, each with its own mapping, as in two processes.
pub fn shared() -> Result<World, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "suite-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let mut left = memory::shared(&name, layout()).map_err(|error| error.to_string())?;
    let joining = std::thread::spawn({
        let name = name.clone();
        move || memory::shared(&name, FrameLayout::default())
    });
    until("the other end has joined", || {
        left.check().unwrap();
        joining.is_finished()
    });
    let right = joining.join().unwrap().unwrap();
    assert_eq!(
        right.layout(),
        layout(),
        "the joining end uses the layout of the ring"
    );
    Ok(World {
        name: "ring".to_owned(),
        left: vec![Wrapped::new(BareLink::Memory(left), None, None)],
        right: vec![Wrapped::new(BareLink::Memory(right), None, None)],
        bed: None,
    })
}

fn layout() -> FrameLayout {
    FrameLayout::new(512, 1920, 64).unwrap()
}

pub fn veth(left: &str, right: &str, queues: Option<u32>) -> Result<World, String> {
    let bed = bed(queues)?;
    let left = open_in(&bed.server, left)?;
    let right = open_in(&bed.client, right)?;
    Ok(World {
        name: format!("{} and {}", left[0].name(), right[0].name()),
        left,
        right,
        bed: Some(bed),
    })
}

/// Two ends of a veth pair, the left one opened for merged frames.
pub fn veth_merged(left: &str, right: &str) -> Result<World, String> {
    let spec = left.parse::<LinkSpec>().and_then(LinkSpec::for_merged).unwrap();
    let bed = bed(None)?;
    let left = open_spec_in(&bed.server, spec)?;
    let right = open_in(&bed.client, right)?;
    Ok(World {
        name: format!("{} and {}", left[0].name(), right[0].name()),
        left,
        right,
        bed: Some(bed),
    })
}

/// A tap device, and an AF_PACKET socket on it in place of the host's stack.
pub fn tap(queues: usize) -> Result<World, String> {
    tap_of(format!("tap:suite0,queues={queues}").parse().unwrap())
}

/// One that is opened for merged frames.
pub fn tap_merged(spec: &str) -> Result<World, String> {
    tap_of(spec.parse::<LinkSpec>().and_then(LinkSpec::for_merged).unwrap())
}

fn tap_of(spec: LinkSpec) -> Result<World, String> {
    let bed = bed(None)?;
    // Before the device exists, so that its neighbour discovery does not mix with the test's frames.
    bed.server
        .set("net.ipv6.conf.default.disable_ipv6", "1")
        .map_err(|error| error.to_string())?;
    let left = open_spec_in(&bed.server, spec)?;
    let right = open_in(&bed.server, "packet:suite0")?;
    Ok(World {
        name: format!("{} and {}", left[0].name(), right[0].name()),
        left,
        right,
        bed: Some(bed),
    })
}

fn bed(queues: Option<u32>) -> Result<Bed, String> {
    let plan = BedPlan {
        queues,
        ..namespaces_plan()
    };
    Bed::build(&plan).map_err(|error| error.to_string())
}

fn open_in(side: &Side, spec: &str) -> Result<Vec<AnyLink>, String> {
    open_spec_in(side, spec.parse().unwrap())
}

fn open_spec_in(side: &Side, spec: LinkSpec) -> Result<Vec<AnyLink>, String> {
    match side.run(move || Opener::new(spec).open()) {
        Err(error @ LinkError::Unavailable(_)) => Err(error.to_string()),
        opened => Ok(opened.unwrap()),
    }
}
