//! Loading 6 million addresses: from text, from a snapshot, and into the kernel's sets for comparison.
//!
//! Times are the CPU time of this thread, or the user and system time of the whole command for `ipset restore` and `nft
//! -f`, which run in network namespaces of their own.

use crate::ENTRIES;
use crate::keys;
use crate::rounds::cpu_time;
use corelane_table::{AddressMap, IpPrefix, ListOptions, Placement, Seed, SnapshotMemory, Value, read_list};
use nix::sys::resource::{UsageWho, getrusage};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: usize = 7;

pub fn run() {
    let mut random = fastrand::Rng::with_seed(3);
    let addresses: Vec<_> = (0..ENTRIES).map(|_| keys::ipv4(&mut random)).collect();
    let text = addresses.iter().fold(String::new(), |mut text, address| {
        writeln!(text, "{address}").expect("strings take any text");
        text
    });
    let folder = std::env::temp_dir().join(format!("corelane-table-bench-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder for temporary files");
    println!(
        "\nloading {ENTRIES} addresses, {} MB of text; medians of {ROUNDS} rounds",
        text.len() / 1_000_000
    );

    let mut numbers = Vec::new();
    let loaded = median(|| {
        let (map, _) = from_text(&text);
        numbers.push(map.len());
    });
    let read = median(|| {
        let count = |_: IpPrefix, _: Value| Ok(());
        black_box(read_list(text.as_bytes(), &ListOptions::default(), count)).expect("a valid list");
    });
    let (map, _) = from_text(&text);
    let path = folder.join("snapshot");
    let create = || {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("a file")
    };
    let saved = median(|| map.save(&create()).expect("a saved snapshot"));
    let open =
        |memory| AddressMap::open(&File::open(&path).expect("the file"), memory).expect("a valid snapshot");
    let mapped = median(|| {
        black_box(open(SnapshotMemory::Mapped));
    });
    let copied = median(|| {
        black_box(open(SnapshotMemory::Copied(Placement::default())));
    });
    print("text, read only", read, loaded);
    print("text", loaded, loaded);
    print("snapshot, saved", saved, loaded);
    print("snapshot, mapped", mapped, loaded);
    print("snapshot, copied into huge pages", copied, loaded);
    kernel(&folder, &addresses, loaded);
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

fn from_text(text: &str) -> (AddressMap, u64) {
    let options = ListOptions::default();
    let loaded = AddressMap::from_list(text.as_bytes(), &options, Seed::default(), Placement::default());
    let (map, summary) = loaded.expect("a valid list");
    (map, summary.elements)
}

/// Loads the same addresses into ipset and nftables, if they are installed.
fn kernel(folder: &std::path::Path, addresses: &[Ipv4Addr], loaded: Duration) {
    let mut ipset = format!(
        "create s hash:ip family inet hashsize 4194304 maxelem {}\n",
        addresses.len()
    );
    let mut nft = "table ip t {\nset s {\ntype ipv4_addr\nelements = {\n".to_owned();
    for address in addresses {
        // -exist: random addresses repeat.
        writeln!(ipset, "add s {address} -exist").expect("strings take any text");
        writeln!(nft, "{address},").expect("strings take any text");
    }
    nft.push_str("}\n}\n}\n");
    for (program, arguments, text) in [("ipset", ["restore", "-file"], ipset), ("nft", ["-f", ""], nft)] {
        let path = folder.join(program);
        fs::write(&path, text).expect("a temporary file");
        let arguments = arguments.iter().filter(|argument| !argument.is_empty());
        let before = children();
        let ran = Command::new("unshare")
            .args(["--net", "--", program])
            .args(arguments)
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match ran {
            Ok(status) if status.success() => print(program, children() - before, loaded),
            Ok(status) => println!(
                "{program:<34} skipped: it ended with {status} (not installed, not root, or no support)"
            ),
            Err(error) => println!("{program:<34} skipped: {error}"),
        }
    }
}

/// CPU time of the children that have ended.
fn children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("every Linux counts it");
    let time =
        |time: nix::sys::time::TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1_000);
    time(usage.user_time()) + time(usage.system_time())
}

fn print(name: &str, time: Duration, loaded: Duration) {
    let ratio = time.as_secs_f64() / loaded.as_secs_f64();
    println!(
        "{name:<34} {:>9.1} ms {ratio:>9.3} of the text load",
        time.as_secs_f64() * 1e3
    );
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = cpu_time();
            work();
            cpu_time() - started
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}
