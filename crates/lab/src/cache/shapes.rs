//! Shapes of requests, after what was published of caches in use.
//!
//! ETC, USR, APP and VAR are pools of Facebook: Atikoglu et al., "Workload analysis of a large-scale key-value store", SIGMETRICS 2012:
//! their sizes, and how many requests write or remove. The others have the keys, values and lifetimes of small objects, with what
//! Yang et al., "A large scale analysis of hundreds of in-memory cache clusters at Twitter", OSDI 2020, found to differ among clusters:
//! how popular the popular keys are, keys that come once, scans, keys that become popular, writes with short lifetimes.

use corelane_load::memcached::Sizes;
use corelane_load::memcached::shapes::ETC;

/// What the requests of a shape are like.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub name: &'static str,
    /// The exponent of Zipf's law.
    pub alpha: f64,
    /// Of 1,000 requests those that store a value, that remove a key, and that read a key which never comes again.
    pub writes: u32,
    pub removals: u32,
    pub once: u32,
    /// The sizes of keys and values.
    pub sizes: [Sizes; 2],
    /// Seconds that most items live, each key half to one and a half of it; 0 for ever.
    pub lifetime: u32,
    /// Requests after which one of the hundred most popular keys is replaced; 0 for never.
    pub shift: u32,
    /// Whether now and then every second request is of a scan, whose keys do not come again.
    pub scans: bool,
}

/// Median value of clusters 230 bytes, key 38 (section 4.4 of the paper on Twitter).
const SMALL: [Sizes; 2] = [Sizes::Fixed(38), Sizes::Pareto([10.0, 230.0, 0.3])];

const ZIPF: Shape = Shape {
    name: "",
    alpha: 1.0,
    writes: 0,
    removals: 0,
    once: 0,
    sizes: SMALL,
    lifetime: 0,
    shift: 0,
    scans: false,
};

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "ETC",
        writes: 32,
        once: 50,
        sizes: [ETC.key_size, ETC.value_size],
        lifetime: 2_000,
        ..ZIPF
    },
    Shape {
        name: "USR",
        alpha: 0.9,
        writes: 2,
        sizes: [Sizes::Range(16, 21), Sizes::Fixed(2)],
        ..ZIPF
    },
    Shape {
        name: "APP",
        writes: 100,
        removals: 60,
        once: 50,
        sizes: [ETC.key_size, Sizes::Range(200, 339)],
        shift: 20_000,
        ..ZIPF
    },
    Shape {
        name: "VAR",
        alpha: 1.1,
        writes: 700,
        sizes: [Sizes::Fixed(32), Sizes::Pareto([10.0, 30.0, 0.2])],
        ..ZIPF
    },
    Shape {
        name: "Zipf 0.8",
        alpha: 0.8,
        ..ZIPF
    },
    Shape {
        name: "Zipf 1.0",
        ..ZIPF
    },
    Shape {
        name: "Zipf 1.3",
        alpha: 1.3,
        ..ZIPF
    },
    Shape {
        name: "once",
        alpha: 0.9,
        once: 300,
        ..ZIPF
    },
    Shape {
        name: "scans",
        alpha: 0.9,
        scans: true,
        ..ZIPF
    },
    Shape {
        name: "shifting",
        once: 100,
        shift: 2_000,
        ..ZIPF
    },
    Shape {
        name: "lifetimes",
        writes: 200,
        lifetime: 300,
        ..ZIPF
    },
];
