//! Memory nodes in an emulated machine: what memory on a remote node costs, and what several nodes ("fake NUMA") save on the
//! locks of the page allocator, as each node has its own free lists.
//!
//! Both compare `corelane lab scale tcp` in guests of four CPUs and 2 GiB. The first sets `--memory node:0` and `node:1`
//! for a server on node 0, by turns in one guest of two nodes. The second boots a guest of one node and one of two, by
//! turns, and reports rate and waits for locks. Each emulated CPU has a thread of its own, so that CPUs wait for each other's
//! locks, at the speed of an emulator and on the CPUs of this machine; its memory is equally far from all of them: this shows
//! that the comparison works and what the kernel's own placement costs, not what hardware costs.
//! On a machine with several nodes the commands that it prints measure that.
//!
//! `cargo bench -p corelane-cli --bench nodes` takes about five minutes.

use corelane_guest::{GuestError, GuestParts, GuestPlan, boot};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// CPUs of a guest: two on each of two nodes.
const CPUS: u32 = 4;
const BYTES: u64 = 2 << 30;
/// Before each document in the output.
const MARK: &str = "document\n";
/// The command of both comparisons, for an echo of writes that take several pages.
const COMMAND: &str = "corelane lab scale tcp --bed loopback --models exact --modes echo --size 16KiB \
--connections 64 --rounds 1 --max-steal 100% --json";
/// Functions whose locks belong to a node: its free lists, and the lists of pages that can be reclaimed.
const OF_NODES: [&str; 5] = [
    "rmqueue",
    "get_page_from_freelist",
    "free_pcppages",
    "free_unref",
    "lru",
];

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let (rounds, duration) = match std::env::args().any(|argument| argument == "--test") {
        true => (1, "100ms"),
        false => (5, "1s"),
    };
    let parts = match GuestParts::find() {
        Ok(parts) => parts,
        Err(missing) => return println!("skipped: {missing}"),
    };
    if let Err(error) = remote_node(&parts, rounds, duration).and_then(|()| pools(&parts, rounds, duration)) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Memory on the server's node against memory on the other one.
fn remote_node(parts: &GuestParts, rounds: usize, duration: &str) -> Result<(), GuestError> {
    let command = |node| {
        format!("{COMMAND} --duration {duration} --buckets 1 --cpus 0 --client-cpus 1 --memory node:{node}")
    };
    let (near, far) = (command(0), command(1));
    println!("remote node:\n  near: {near}\n  far:  {far}");
    let turns: Vec<String> = (0..rounds).flat_map(|_| [near.clone(), far.clone()]).collect();
    let documents = documents(parts, 2, &turns)?;
    let costs = |turn: usize| {
        let own = documents.iter().skip(turn).step_by(2);
        sorted(own.map(|document| number(document, "/steps/0/server_cpu_ns_per_kib")))
    };
    let costs = [costs(0), costs(1)];
    for (name, costs) in ["near", "far"].iter().zip(&costs) {
        let (least, most) = (costs[0], costs[costs.len() - 1]);
        println!(
            "  {name}: CPU time of the server {:.0} ns per KiB ({least:.0} to {most:.0})",
            middle(costs)
        );
    }
    println!("  far over near: {:.3}", middle(&costs[1]) / middle(&costs[0]));
    Ok(())
}

/// One node against two in the same memory.
fn pools(parts: &GuestParts, rounds: usize, duration: &str) -> Result<(), GuestError> {
    let command = format!(
        "{COMMAND} --duration {duration} --buckets {CPUS} --active {CPUS} --cpus 0-{} --placements aligned --locks",
        CPUS - 1
    );
    println!("pools: {command}");
    let mut by_nodes = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (nodes, found) in (1..).zip(&mut by_nodes) {
            found.extend(documents(parts, nodes, std::slice::from_ref(&command))?);
        }
    }
    for (nodes, found) in (1..).zip(&by_nodes) {
        let rate = median(found.iter().map(|document| number(document, "/steps/0/gbit_s")));
        let waited = median(
            found
                .iter()
                .map(|document| number(document, "/steps/0/observed/locks/wait_percent")),
        );
        let of_nodes = median(found.iter().map(|document| waits_of_nodes(document) as f64));
        println!(
            "  {nodes} {}: {rate:.3} Gb/s; all locks {waited:.3} % of the CPUs' time, {of_nodes} waits for locks of nodes",
            if nodes == 1 { "node (off)" } else { "nodes (on)" }
        );
    }
    Ok(())
}

/// Runs the commands in a guest, and returns the document of each.
fn documents(parts: &GuestParts, nodes: u32, commands: &[String]) -> Result<Vec<Value>, GuestError> {
    let run = |command: &String| {
        format!("printf '{MARK}'\n{command} 2> /tmp/error || {{ cat /tmp/error; exit 1; }}\n")
    };
    let plan = GuestPlan {
        cpus: CPUS,
        nodes,
        concurrent_cpus: true,
        node_bytes: BYTES / u64::from(nodes),
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_corelane"))],
        limit: Duration::from_secs(600),
        ..GuestPlan::new(
            "mount -t tracefs none /sys/kernel/tracing\n".to_owned()
                + &commands.iter().map(run).collect::<String>(),
        )
    };
    let (output, status) = boot(&plan, parts).map(|guest| (guest.output, guest.status))?;
    assert_eq!(status, 0, "{output}");
    let parse = |text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in:\n{output}"));
    Ok(output.split(MARK).skip(1).map(parse).collect())
}

/// Waits for locks whose callers allocate or free pages.
fn waits_of_nodes(document: &Value) -> u64 {
    let rows = document
        .pointer("/steps/0/observed/locks/rows")
        .and_then(Value::as_array);
    let is_of_node = |row: &&Value| {
        OF_NODES
            .iter()
            .any(|name| row["name"].as_str().is_some_and(|row| row.contains(name)))
    };
    rows.into_iter()
        .flatten()
        .filter(is_of_node)
        .filter_map(|row| row["count"].as_u64())
        .sum()
}

fn number(document: &Value, pointer: &str) -> f64 {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no {pointer} in {document}"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    middle(&sorted(values))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
