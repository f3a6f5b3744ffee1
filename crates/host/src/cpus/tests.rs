//! Topology and placement of recorded machines.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::tree::recorded::Recorded;

/// Two packages of one node each, four cores per package, two threads per core; CPU n and n + 8 are siblings.
fn two_sockets() -> Recorded {
    let machine = Recorded::new([
        ("/sys/devices/system/cpu/present", "0-15\n"),
        ("/sys/devices/system/cpu/online", "0-15\n"),
        ("/sys/devices/system/node/online", "0-1\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n"),
        ("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n"),
    ]);
    for cpu in 0..16u32 {
        let (first, package) = (cpu % 8, cpu % 8 / 4);
        let directory = format!("{CPU_DIRECTORY}/cpu{cpu}");
        let siblings = format!("{first},{}\n", first + 8);
        let package_cpus = list::format(&(0..16).filter(|n| n % 8 / 4 == package).collect::<Vec<_>>());
        let files = [
            ("topology/core_id", format!("{}\n", first % 4)),
            ("topology/physical_package_id", format!("{package}\n")),
            ("topology/thread_siblings_list", siblings.clone()),
            ("cache/index0/level", "1\n".to_owned()),
            ("cache/index0/type", "Data\n".to_owned()),
            ("cache/index0/size", "48K\n".to_owned()),
            ("cache/index0/coherency_line_size", "64\n".to_owned()),
            ("cache/index0/ways_of_associativity", "12\n".to_owned()),
            ("cache/index0/number_of_sets", "64\n".to_owned()),
            ("cache/index0/shared_cpu_list", siblings),
            ("cache/index3/level", "3\n".to_owned()),
            ("cache/index3/type", "Unified\n".to_owned()),
            ("cache/index3/size", "32768K\n".to_owned()),
            ("cache/index3/coherency_line_size", "64\n".to_owned()),
            ("cache/index3/shared_cpu_list", package_cpus),
        ];
        for (file, text) in files {
            machine.write(&format!("{directory}/{file}"), &text);
        }
    }
    machine
}

fn everything(topology: &Topology) -> Allowed {
    Allowed {
        cpus: topology.online(),
        cgroup_quota_cpus: None,
    }
}

const PLAIN: PlacementOptions = PlacementOptions {
    use_siblings: false,
    use_other_nodes: false,
    share: false,
};

#[test]
fn cores_packages_nodes_and_siblings_are_read() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    assert_eq!(topology.online(), (0..16).collect::<Vec<_>>());
    assert_eq!(
        topology.cpu(14),
        Some(&CpuInfo {
            id: 14,
            core: Some(2),
            package: Some(1),
            node: Some(1),
            siblings: vec![6, 14],
            online: true,
        })
    );
}

#[test]
fn a_shared_cache_is_listed_once() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let levels: Vec<(u32, usize)> = topology
        .caches
        .iter()
        .map(|cache| (cache.level, cache.shared_by.len()))
        .collect();
    let mut expected = vec![(1, 2); 8];
    expected.extend([(3, 8); 2]);
    assert_eq!(levels, expected);
    assert_eq!(topology.caches[9].bytes, Some(32 << 20));
    assert_eq!(topology.caches[9].line_bytes, Some(64));
    assert_eq!(
        (topology.caches[0].ways, topology.caches[0].sets),
        (Some(12), Some(64))
    );
}

#[test]
fn an_offline_cpu_is_listed_without_a_core_and_never_used() {
    let machine = two_sockets();
    machine.write("/sys/devices/system/cpu/online", "0-1,3-15\n");
    let topology = topology_in(&machine.tree()).unwrap();
    let offline = topology.cpu(2).unwrap();
    assert!(!offline.online && offline.core.is_none() && offline.node.is_none());
    assert_eq!(offline.siblings, [2]);
    let mut allowed = everything(&topology);
    allowed.cpus.push(2);
    let cpus = placement(&topology, &allowed, 3, PLAIN).unwrap();
    assert!(!cpus.contains(&2), "{cpus:?}");
}

#[test]
fn a_kernel_without_numa_has_one_node() {
    let machine = Recorded::new([
        ("/sys/devices/system/cpu/online", "0\n"),
        ("/sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        (
            "/sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "-1\n",
        ),
        (
            "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
            "0\n",
        ),
    ]);
    let topology = topology_in(&machine.tree()).unwrap();
    assert_eq!(topology.cpus.len(), 1);
    assert_eq!(topology.cpus[0].node, Some(0));
    assert_eq!(topology.cpus[0].package, Some(0));
    assert!(topology.caches.is_empty());
}

#[test]
fn a_file_that_is_not_as_documented_is_named() {
    let machine = two_sockets();
    machine.write("/sys/devices/system/cpu/cpu3/topology/core_id", "three\n");
    let refusal = topology_in(&machine.tree()).unwrap_err().to_string();
    assert!(refusal.contains("cpu3/topology/core_id"), "{refusal}");
}

#[test]
fn this_machine_has_every_cpu_this_process_may_use() {
    let topology = topology().unwrap();
    for cpu in allowed().unwrap().cpus {
        assert!(topology.cpu(cpu).unwrap().online);
    }
}

#[test]
fn workers_take_distinct_cores_of_one_node_first() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let cpus = placement(&topology, &everything(&topology), 4, PLAIN).unwrap();
    assert_eq!(cpus, vec![0, 1, 2, 3]);
}

#[test]
fn other_nodes_and_siblings_come_only_when_asked_cores_before_siblings() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let allowed = everything(&topology);
    let nodes = PlacementOptions {
        use_other_nodes: true,
        ..PLAIN
    };
    let siblings = PlacementOptions {
        use_siblings: true,
        ..PLAIN
    };
    let both = PlacementOptions {
        use_siblings: true,
        ..nodes
    };
    assert_eq!(placement(&topology, &allowed, 8, nodes), Ok((0..8).collect()));
    assert_eq!(
        placement(&topology, &allowed, 8, siblings),
        Ok(vec![0, 1, 2, 3, 8, 9, 10, 11])
    );
    assert_eq!(placement(&topology, &allowed, 16, both), Ok((0..16).collect()));
}

#[test]
fn a_refusal_names_both_numbers_and_what_was_held_back() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let refusal = placement(&topology, &everything(&topology), 5, PLAIN).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "5 workers need 5 CPUs and 4 can be used (4 SMT siblings and 4 on other nodes held back): \
         request at most 4 workers, admit SMT siblings or other nodes, or let workers share CPUs"
    );
}

#[test]
fn sharing_goes_round_robin() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let share = PlacementOptions { share: true, ..PLAIN };
    assert_eq!(
        placement(&topology, &everything(&topology), 6, share),
        Ok(vec![0, 1, 2, 3, 0, 1])
    );
}

#[test]
fn the_home_node_is_the_one_with_the_most_allowed_cores() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let allowed = Allowed {
        cpus: vec![0, 8, 4, 5, 12],
        cgroup_quota_cpus: None,
    };
    assert_eq!(placement(&topology, &allowed, 2, PLAIN), Ok(vec![4, 5]));
}

#[test]
fn the_only_thread_allowed_of_a_core_is_no_sibling() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let allowed = Allowed {
        cpus: vec![8, 9],
        cgroup_quota_cpus: None,
    };
    assert_eq!(placement(&topology, &allowed, 2, PLAIN), Ok(vec![8, 9]));
}

#[test]
fn no_worker_and_no_cpu_are_refused() {
    let topology = topology_in(&two_sockets().tree()).unwrap();
    let nothing = Allowed {
        cpus: vec![99],
        cgroup_quota_cpus: None,
    };
    let every = everything(&topology);
    let refusal = |allowed, workers| {
        placement(&topology, allowed, workers, PLAIN)
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(&every, 0).starts_with("0 workers requested"));
    assert!(refusal(&nothing, 1).starts_with("no CPU is both online and allowed"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_placement_uses_allowed_cpus_once_unless_shared(
        cpus in prop::collection::btree_set(0u32..16, 1..16),
        workers in 1usize..20,
        use_siblings: bool,
        use_other_nodes: bool,
    ) {
        static TOPOLOGY: LazyLock<Topology> =
            LazyLock::new(|| topology_in(&two_sockets().tree()).unwrap());
        let topology = &*TOPOLOGY;
        let allowed = Allowed { cpus: cpus.into_iter().collect(), cgroup_quota_cpus: None };
        let options = PlacementOptions { use_siblings, use_other_nodes, share: false };
        match placement(topology, &allowed, workers, options) {
            Ok(placed) => {
                prop_assert_eq!(placed.len(), workers);
                prop_assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), workers);
                prop_assert!(placed.iter().all(|cpu| allowed.cpus.contains(cpu)));
                if !use_other_nodes {
                    let nodes: BTreeSet<_> = placed.iter().map(|cpu| topology.cpu(*cpu).unwrap().node).collect();
                    prop_assert_eq!(nodes.len(), 1);
                }
                if !use_siblings {
                    let cores: BTreeSet<_> = placed.iter().map(|cpu| cpu % 8).collect();
                    prop_assert_eq!(cores.len(), workers);
                }
            }
            Err(error) => {
                let text = error.to_string();
                let start = format!("{workers} workers need {workers} CPUs and ");
                let cpus = text.strip_prefix(&start).and_then(|rest| rest.split_once(" can be used"));
                prop_assert!(cpus.is_some_and(|(cpus, _)| cpus.parse::<usize>().unwrap() < workers), "{text}");
            }
        }
    }
}
