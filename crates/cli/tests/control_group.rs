//! Limits of a control group: a CPU quota is named as the limit, of a generator and of a server; a classifier that does not
//! fit into the memory is refused instead of killed.

use crate::common;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new control group of version 2 or 1, removed when dropped.
struct Group {
    directory: PathBuf,
    unified: bool,
}

impl Group {
    /// `None` after printing why there can be none with this controller.
    fn new(controller: &str, file_of_two: &str) -> Option<Self> {
        // Tests of this process run beside each other, and each has a group of its own.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelane-test-{controller}-{}-{number}", std::process::id());
        let places = [
            (Path::new("/sys/fs/cgroup").join(&name), true),
            (Path::new("/sys/fs/cgroup/unified").join(&name), true),
            (Path::new("/sys/fs/cgroup").join(controller).join(&name), false),
        ];
        for (directory, unified) in places {
            if fs::create_dir(&directory).is_err() {
                continue;
            }
            let group = Self { directory, unified };
            let has_files = !unified || group.directory.join(file_of_two).exists();
            if has_files && group.directory.join("cgroup.procs").exists() {
                return Some(group);
            }
        }
        eprintln!("skipped: no control group can be made for the controller {controller}");
        None
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.directory.join(file), text).unwrap();
    }

    /// A group that may use 5 ms of each 100 ms.
    fn with_quota() -> Option<Self> {
        let group = Self::new("cpu", "cpu.max")?;
        if group.unified {
            group.write("cpu.max", "5000 100000");
        } else {
            group.write("cpu.cfs_period_us", "100000");
            group.write("cpu.cfs_quota_us", "5000");
        }
        Some(group)
    }

    /// The start of a shell script that enters it; 0 is the writing process.
    fn enter(&self) -> String {
        format!("echo 0 > {}/cgroup.procs; exec", self.directory.display())
    }

    /// Runs the command in it.
    fn run(&self, words: &str) -> Output {
        let script = format!("{} {} {words}", self.enter(), env!("CARGO_BIN_EXE_corelane"));
        Command::new("sh").args(["-c", &script]).output().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// A group for single threads of a process, in the group of that process.
pub struct Threads {
    process: Group,
    directory: PathBuf,
}

impl Threads {
    /// `None` after printing why there can be none.
    pub fn new() -> Option<Self> {
        let process = Group::new("cpu", "cpu.max")?;
        let directory = process.directory.join("threads");
        let made = fs::create_dir(&directory).and_then(|()| {
            if process.unified {
                fs::write(directory.join("cgroup.type"), "threaded")?;
                fs::write(process.directory.join("cgroup.subtree_control"), "+cpu")?;
            }
            Ok(())
        });
        let threads = Self { process, directory };
        if let Err(error) = made {
            eprintln!("skipped: no control group can be made for single threads: {error}");
            return None;
        }
        Some(threads)
    }

    /// The start of a shell script that enters the group of the process.
    pub fn enter(&self) -> String {
        self.process.enter()
    }

    /// Lets a thread run for 1 ms of each second.
    pub fn stall(&self, thread: &str) {
        self.limit(Some("1000"));
        let file = if self.process.unified {
            "cgroup.threads"
        } else {
            "tasks"
        };
        fs::write(self.directory.join(file), thread).unwrap();
    }

    /// Lets it run as others.
    pub fn release(&self) {
        self.limit(None);
    }

    fn limit(&self, quota: Option<&str>) {
        let write = |file: &str, text: &str| fs::write(self.directory.join(file), text).unwrap();
        if self.process.unified {
            write("cpu.max", &format!("{} 1000000", quota.unwrap_or("max")));
        } else {
            write("cpu.cfs_period_us", "1000000");
            write("cpu.cfs_quota_us", quota.unwrap_or("-1"));
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The words for its quota.
fn quota(whose: &str, group: &Group) -> String {
    let directory = group.directory.display();
    format!("the CPU quota of {whose} control group {directory} (0.05 CPUs): used up in ")
}

#[test]
fn a_quota_of_the_generator_is_what_limited_it() {
    let Some(group) = Group::with_quota() else { return };
    let mut server = common::corelane("serve http 127.0.0.1:0 --buckets 1");
    let server = common::Server::of(server.stdout(Stdio::piped()).spawn().unwrap());
    let output = group.run(&format!(
        "load http http://{} --connections 8 --duration 2s --json",
        server.address
    ));
    let error = String::from_utf8_lossy(&output.stderr);
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let limited = loaded["limited_by"].as_str().unwrap_or_default();
    assert!(limited.starts_with(&quota("its", &group)), "{limited}");
}

#[test]
fn a_quota_of_the_server_is_the_limit_of_the_lab() {
    let Some(group) = Group::with_quota() else { return };
    let program = env!("CARGO_BIN_EXE_corelane");
    let subject = format!(
        "{} {program} serve http $CORELANE_ADDRESS:$CORELANE_PORT --share-cpus",
        group.enter()
    );
    let lab = "lab scale http --max-steal 100% --duration 2s --rounds 1 --active 1 --connections 8 --json --subject";
    let words: Vec<&str> = lab.split_whitespace().chain([subject.as_str()]).collect();
    let report = common::run_json(&words);
    assert_eq!(report["limit"]["cause"], "quota", "{}", report["limit"]);
    let sentence = report["limit"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains(&format!("the limit was {}", quota("the server's", &group))),
        "{sentence}"
    );
}

#[test]
fn labs_without_a_verdict_name_the_quota_of_the_run() {
    let Some(group) = Group::with_quota() else { return };
    for lab in [
        "engines --ways toeplitz,basic --rounds 1 --duration 300ms",
        "rebalance --rounds 1 --duration 300ms --rate 1k",
    ] {
        let output = group.run(&format!("lab {lab} --max-steal 100%"));
        let [text, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = format!(
            "a CPU quota was the limit, in the last of them {}",
            quota("the run's", &group)
        );
        assert!(text.contains(&named), "{lab}: {text}\n{error}");
    }
}

#[test]
fn a_classifier_beyond_the_memory_of_its_group_is_refused() {
    let Some(group) = Group::new("memory", "memory.max") else {
        return;
    };
    let file = if group.unified {
        "memory.max"
    } else {
        "memory.limit_in_bytes"
    };
    group.write(file, "67108864");
    let output = group.run("lab classify --rounds 1 --duration 10ms");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("--entries") && error.contains("of memory"),
        "{error}"
    );
}
