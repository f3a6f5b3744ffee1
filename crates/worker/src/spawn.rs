//! The thread of one bucket.

use crate::memory;
use crate::system::descriptor;
use corelane_host::HostError;
use corelane_host::memory::MemoryPolicy;
use nix::sys::prctl;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc;
use std::thread;

/// Timer slack of a worker, in nanoseconds. Linux's default is 50,000 (`timer_slack_ns`, proc(5)), most of a short
/// round trip; 1 is the minimum.
const TIMER_SLACK: u64 = 1;

/// The settings of a worker thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerSettings {
    /// The thread's name; the kernel shows its first 15 bytes.
    pub name: String,
    /// The CPU to pin to; `None` inherits the affinity of the starting thread.
    pub cpu: Option<u32>,
    /// The node of all memory that it touches first.
    pub memory: MemoryPolicy,
    /// Gives the thread its own descriptor table, so that the limit of open descriptors applies to it alone. See
    /// [`spawn`].
    pub own_descriptors: bool,
}

impl WorkerSettings {
    /// A thread on that CPU, with everything else at its default.
    #[must_use]
    pub fn new(name: impl Into<String>, cpu: impl Into<Option<u32>>) -> Self {
        Self {
            name: name.into(),
            cpu: cpu.into(),
            memory: MemoryPolicy::default(),
            own_descriptors: false,
        }
    }
}

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The kernel started no thread.
    #[error("cannot start thread {0}: {1}")]
    Thread(String, io::Error),
    /// The thread was not pinned to its CPU.
    #[error("{0}")]
    Pin(HostError),
    /// The kernel refused the memory policy.
    #[error("{name} cannot apply the memory policy {policy}: {cause}{}", memory::hint(.cause))]
    Memory {
        /// The worker.
        name: String,
        /// The policy.
        policy: MemoryPolicy,
        /// Why.
        cause: io::Error,
    },
    /// The worker has no descriptor table of its own.
    #[error("cannot give {0} its own descriptor table (unshare, close_range: Linux 5.9): {1}")]
    Descriptors(String, io::Error),
}

/// A running worker.
#[derive(Debug)]
pub struct Worker<R> {
    thread: thread::JoinHandle<Option<R>>,
}

impl<R> Worker<R> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.thread.thread().name().unwrap_or_default()
    }

    /// Whether its body has returned.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the body to return.
    ///
    /// # Errors
    /// The payload of the body's panic.
    pub fn join(self) -> thread::Result<R> {
        let returned = self.thread.join()?;
        Ok(returned.expect("a worker that spawn returned runs its body"))
    }
}

/// Starts a worker: pins the thread, sets its [memory policy](WorkerSettings::memory), then runs the body. So memory
/// that the body touches first follows the policy: by default the node of its CPU. Memory touched earlier, such as the
/// body's captures, stays where it is. The thread's timers have no slack.
///
/// With [`own_descriptors`](WorkerSettings::own_descriptors) the thread leaves the process's descriptor table. In its
/// own table only the standard streams stay open, so no pipe or socket of the process stays open because of a worker.
/// The body must open what it uses itself; descriptors captured by the body are invalid in the new table.
/// [`spawn_with`] passes some.
///
/// # Errors
/// See [`SpawnError`]; the body is not run in that case.
pub fn spawn<R: Send + 'static>(
    settings: WorkerSettings,
    body: impl FnOnce() -> R + Send + 'static,
) -> Result<Worker<R>, SpawnError> {
    spawn_with(settings, Vec::new(), |_| body())
}

/// Like [`spawn`], but passes descriptors to the body, in order. They are closed for the rest of the process and open
/// for the worker, whether or not it has its own table.
///
/// # Errors
/// See [`SpawnError`]; the body is not run in that case.
pub fn spawn_with<R: Send + 'static>(
    settings: WorkerSettings,
    descriptors: Vec<OwnedFd>,
    body: impl FnOnce(Vec<OwnedFd>) -> R + Send + 'static,
) -> Result<Worker<R>, SpawnError> {
    let WorkerSettings {
        name,
        cpu,
        memory,
        own_descriptors,
    } = settings;
    let (settled, is_settled) = mpsc::channel();
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let (shared, kept) = if own_descriptors {
        (Vec::new(), descriptors)
    } else {
        (descriptors, Vec::new())
    };
    let own_name = name.clone();
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        let prepared = prepare(own_name, cpu, memory, own_descriptors, numbers, shared);
        let (outcome, descriptors) = match prepared {
            Ok(descriptors) => (Ok(()), Some(descriptors)),
            Err(error) => (Err(error), None),
        };
        // Receiving fails only if the spawning thread is gone; the body runs anyway.
        let _ = settled.send(outcome);
        descriptors.map(body)
    });
    let thread = thread.map_err(|cause| SpawnError::Thread(name, cause))?;
    let outcome = is_settled
        .recv()
        .expect("the thread reports before it runs anything that panics");
    // The worker has its own copies by now, if it has its own table.
    drop(kept);
    outcome.map(|()| Worker { thread })
}

/// Pins the thread, sets its memory policy, and prepares its descriptors: the passed ones, or copies in its own table.
fn prepare(
    name: String,
    cpu: Option<u32>,
    policy: MemoryPolicy,
    own_descriptors: bool,
    numbers: Vec<RawFd>,
    shared: Vec<OwnedFd>,
) -> Result<Vec<OwnedFd>, SpawnError> {
    if let Some(cpu) = cpu {
        corelane_host::pin::current_thread(cpu).map_err(SpawnError::Pin)?;
    }
    if let Err(cause) = memory::set_of_thread(policy) {
        return Err(SpawnError::Memory { name, policy, cause });
    }
    // If this fails, timers are up to 50 µs late; the worker works anyway.
    let _ = prctl::set_timerslack(TIMER_SLACK);
    if !own_descriptors {
        return Ok(shared);
    }
    descriptor::own_table(numbers).map_err(|cause| SpawnError::Descriptors(name, cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Buffers, PageLocations};
    use crate::system::memory::Pages;
    use std::io::{self, Read, Write};
    use std::net::UdpSocket;

    fn settings(own_descriptors: bool) -> WorkerSettings {
        let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let cpu = (0..nix::sched::CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap());
        WorkerSettings {
            own_descriptors,
            ..WorkerSettings::new("worker 0", cpu.unwrap() as u32)
        }
    }

    #[test]
    fn a_worker_runs_on_its_cpu_under_its_name() {
        let settings = settings(false);
        let cpu = settings.cpu.unwrap();
        let worker = spawn(settings, || {
            let name = thread::current().name().map(str::to_owned);
            (nix::sched::sched_getcpu().unwrap(), name)
        })
        .unwrap();
        assert_eq!(
            worker.join().unwrap(),
            (cpu as usize, Some("worker 0".to_owned()))
        );
    }

    #[test]
    fn a_worker_that_cannot_be_pinned_never_starts() {
        let absent = WorkerSettings {
            cpu: Some(1_023),
            ..settings(false)
        };
        let error = spawn(absent, || panic!("the body must not run")).unwrap_err();
        assert!(error.to_string().contains("CPU 1023"), "{error}");
    }

    #[test]
    fn a_worker_of_a_node_that_is_not_there_never_starts() {
        let absent = WorkerSettings {
            memory: MemoryPolicy::Node(999),
            ..settings(false)
        };
        let error = spawn(absent, || panic!("the body must not run")).unwrap_err();
        assert!(error.to_string().contains("node 999"), "{error}");
    }

    #[test]
    fn a_worker_bound_to_a_node_has_its_memory_there() {
        let node = corelane_host::memory::nodes().unwrap()[0];
        let bound = WorkerSettings {
            memory: MemoryPolicy::Node(node),
            ..settings(false)
        };
        let own_pages = || {
            let mut pages = Pages::new(1 << 20).unwrap();
            pages.bytes_mut(0..1 << 20).fill(1);
            let pages = Buffers::new([&pages])
                .pages_by_node(&PageLocations::read())
                .unwrap();
            pages.into_keys().collect::<Vec<u32>>()
        };
        let worker = match spawn(bound, own_pages) {
            Err(error @ SpawnError::Memory { .. }) if !error.to_string().contains("os error 22") => {
                eprintln!("skipped: {error}");
                return;
            }
            worker => worker.unwrap(),
        };
        assert_eq!(worker.join().unwrap(), [node]);
    }

    #[test]
    fn a_panic_of_the_body_comes_back_from_join() {
        let worker = spawn(settings(false), || panic!("on purpose")).unwrap();
        assert!(worker.join().is_err());
    }

    #[test]
    fn handed_descriptors_belong_to_the_worker_in_either_table() {
        for own_descriptors in [false, true] {
            let (mut reader, writer) = io::pipe().unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let handed = vec![OwnedFd::from(socket), OwnedFd::from(writer)];
            let worker = spawn_with(settings(own_descriptors), handed, move |handed| {
                let mut handed = handed.into_iter();
                let socket = UdpSocket::from(handed.next().unwrap());
                let mut writer = io::PipeWriter::from(handed.next().unwrap());
                writer.write_all(b"here").unwrap();
                socket.local_addr().unwrap()
            });
            let mut text = String::new();
            // Returns only if no other table holds the writing end.
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "here");
            assert_eq!(worker.unwrap().join().unwrap(), address);
        }
    }

    #[test]
    fn a_table_of_its_own_holds_nothing_of_the_process_open() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (release, released) = mpsc::channel::<()>();
        let worker = spawn(settings(true), move || released.recv()).unwrap();
        drop(writer);
        let mut nothing = Vec::new();
        reader.read_to_end(&mut nothing).unwrap();
        assert!(!worker.is_finished());
        release.send(()).unwrap();
        worker.join().unwrap().unwrap();
    }

    #[test]
    fn tables_of_their_own_count_descriptors_apart() {
        let shared = spawn(settings(false), || UdpSocket::bind("127.0.0.1:0").unwrap());
        let _first = shared.unwrap().join().unwrap();
        let lowest = spawn(settings(true), || {
            UdpSocket::bind("127.0.0.1:0").unwrap().as_raw_fd()
        });
        assert_eq!(lowest.unwrap().join().unwrap(), 3);
    }
}
