//! The CPUs of a machine and the caches they share.

use serde::{Deserialize, Serialize};

/// The CPUs present and the caches they share, as the kernel lists them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Every CPU present, online or not, by ascending id.
    pub cpus: Vec<CpuInfo>,
    /// The caches of all online CPUs, without duplicates, by level and first CPU.
    pub caches: Vec<CacheInfo>,
}

impl Topology {
    /// The ids of the CPUs online, ascending.
    pub fn online(&self) -> Vec<u32> {
        let online = self.cpus.iter().filter(|cpu| cpu.online);
        online.map(|cpu| cpu.id).collect()
    }

    /// The properties of one CPU.
    pub fn cpu(&self, id: u32) -> Option<&CpuInfo> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }
}

/// One hardware thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuInfo {
    /// The kernel's CPU number.
    pub id: u32,
    /// The core number, unique only within its package. `None` while offline, because the kernel hides it.
    pub core: Option<u32>,
    /// The package (socket) number. `None` while offline.
    pub package: Option<u32>,
    /// Its NUMA node. 0 in a kernel without NUMA; `None` while offline.
    pub node: Option<u32>,
    /// The hardware threads of its core, ascending, this one included. Only itself if SMT is off or absent.
    pub siblings: Vec<u32>,
    /// Whether the scheduler may use it.
    pub online: bool,
}

/// One cache and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// The cache level; 1 is nearest to the core.
    pub level: u32,
    /// The kind of content.
    #[serde(default)]
    pub kind: CacheKind,
    /// Its size in bytes; `None` if the hypervisor hides it.
    pub bytes: Option<u64>,
    /// The line length in bytes; `None` if the hypervisor hides it.
    pub line_bytes: Option<u32>,
    /// The number of lines per set; `None` if the hypervisor hides it.
    #[serde(default)]
    pub ways: Option<u32>,
    /// The number of sets; `None` if the hypervisor hides it.
    #[serde(default)]
    pub sets: Option<u32>,
    /// The CPUs that share it, ascending.
    #[serde(default)]
    pub shared_by: Vec<u32>,
}

/// The kind of content of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    #[default]
    Unified,
}
