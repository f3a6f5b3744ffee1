//! One side of a bed: a thread in its network namespace that runs jobs.

use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};

use super::BedError;
use crate::HostError;
use crate::cpus::list;
use crate::mounts;
use crate::tree::setting_path;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs one after another and ends when it is dropped. It keeps the namespace that it entered alive.
#[derive(Debug)]
pub(super) struct Keeper {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(role: &str) -> Result<Self, BedError> {
        let failed = |cause| {
            BedError::Failed(format!(
                "cannot start the thread that holds a side of the bed: {cause}"
            ))
        };
        let (jobs, queue) = channel::<Job>();
        let thread = thread::Builder::new()
            .name(format!("bed-{role}"))
            .spawn(move || {
                for job in queue {
                    job();
                }
            })
            .map_err(failed)?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Runs `work` on the thread and returns its result; a panic in it is propagated to the caller.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = self.thread.as_ref().expect("only drop takes the thread");
        if thread.thread().id() == thread::current().id() {
            return work();
        }
        let (answer, result) = channel();
        let job = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            // The caller waits below until the channel closes.
            let _ = answer.send(outcome);
        };
        let jobs = self.jobs.as_ref().expect("only drop takes the queue");
        jobs.send(Box::new(job))
            .expect("the thread takes jobs until the queue is dropped");
        let outcome = result.recv().expect("every job answers once");
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // Jobs catch their panics, so the thread itself never panics.
            let _ = thread.join();
        }
    }
}

/// One side of a [`Bed`](super::Bed).
#[derive(Debug)]
pub struct Side {
    keeper: Keeper,
    device: &'static str,
    address: IpAddr,
    own_namespace: bool,
}

impl Side {
    pub(super) fn new(keeper: Keeper, device: &'static str, address: IpAddr, own_namespace: bool) -> Self {
        Self {
            keeper,
            device,
            address,
            own_namespace,
        }
    }

    /// Runs `work` on the thread in this side's namespace and waits for its result.
    ///
    /// Sockets, threads and processes that `work` creates belong to the namespace. Jobs run one after another: use
    /// [`Side::spawn`] or a process for long-running work. A process that requests a signal at its parent's death
    /// (`PR_SET_PDEATHSIG`) gets it when the bed is dropped, because this thread is the parent.
    ///
    /// # Panics
    ///
    /// When `work` panics, with its panic.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.keeper.run(work)
    }

    /// Starts a thread in this side's namespace. The namespace lives until the thread ends, even past the bed.
    ///
    /// # Errors
    ///
    /// The system's error if the thread cannot be created.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        self.run(move || thread::Builder::new().spawn(work))
    }

    /// Starts a process in this side's network namespace as the first process of a new PID namespace
    /// (`pid_namespaces(7)`): when it ends, the kernel kills everything it started. It inherits orphans and has to reap
    /// them. If PID namespaces are not permitted, it starts as an ordinary process.
    ///
    /// # Errors
    ///
    /// The system's error if the process or a thread cannot be started.
    pub fn start_first(&self, mut command: Command) -> io::Result<Child> {
        let start = move || {
            // Applies only to the children of this thread, which ends here.
            let _ = unshare(CloneFlags::CLONE_NEWPID);
            command.spawn()
        };
        self.spawn(start)?
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Rejects a setting on loopback, where it would change the machine.
    fn own_namespace(&self, name: &str, value: &str) -> Result<(), HostError> {
        const WHY: &str = "on the loopback bed it would change the machine; use a bed of namespaces";
        match self.own_namespace {
            true => Ok(()),
            false => Err(HostError::setting(name, value)(forbidden(WHY))),
        }
    }

    /// The device whose counters count this side's frames.
    pub fn device(&self) -> &str {
        self.device
    }

    /// The server's address, or the address that clients use when they bind none.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Sets a network setting in this side's namespace only, by its dotted name such as `net.core.somaxconn`.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] on loopback, where the setting would change the machine; for a name outside `net`; and if
    /// the kernel rejects the value or the setting is not per namespace.
    pub fn set(&self, name: &str, value: &str) -> Result<(), HostError> {
        self.own_namespace(name, value)?;
        if !name.starts_with("net.") || name.contains('/') || name.contains("..") {
            let why = "only settings under net belong to a namespace";
            return Err(HostError::setting(name, value)(forbidden(why)));
        }
        let (name, value) = (name.to_owned(), value.to_owned());
        self.run(move || write_setting(&name, &value))
    }

    /// Assigns the CPUs `cpus[i]` to transmit queue *i* of this side's device. A queue without CPUs is never chosen; if
    /// no queue has a CPU, the kernel chooses by a hash of the frame (`Documentation/networking/scaling.rst`, XPS).
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] on loopback, where the setting would change the machine; if the kernel does not permit a
    /// mount; and if the device has fewer queues.
    pub fn give_transmit_queues(&self, cpus: &[Vec<u32>]) -> Result<(), HostError> {
        self.give_queues("tx", "xps_cpus", cpus)
    }

    /// Lets the CPUs `cpus[i]` handle the frames of receive queue *i* of this side's device, each by a hash of its flow; if a
    /// queue has none, the CPU that received them does (`Documentation/networking/scaling.rst`, RPS).
    ///
    /// # Errors
    ///
    /// Those of [`Side::give_transmit_queues`].
    pub fn give_receive_queues(&self, cpus: &[Vec<u32>]) -> Result<(), HostError> {
        self.give_queues("rx", "rps_cpus", cpus)
    }

    fn give_queues(
        &self,
        kind: &'static str,
        file: &'static str,
        cpus: &[Vec<u32>],
    ) -> Result<(), HostError> {
        let device = self.device().to_owned();
        let setting = move |queue: usize| format!("/sys/class/net/{device}/queues/{kind}-{queue}/{file}");
        self.own_namespace(&setting(0), "")?;
        let masks: Vec<String> = cpus.iter().map(|cpus| list::format_mask(cpus)).collect();
        self.run(move || {
            mounts::with_own("sysfs", "/sys", false, |mounted| {
                mounted.map_err(HostError::setting("/sys", "a mount of its own"))?;
                for (queue, mask) in masks.iter().enumerate() {
                    let path = setting(queue);
                    std::fs::write(&path, mask).map_err(HostError::setting(&path, mask))?;
                }
                Ok(())
            })
        })
    }
}

fn forbidden(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Writes a setting of the calling thread's network namespace: `/proc/sys/net` shows the settings of the opening
/// thread. A value that is already set is not written, because some containers mount `/proc/sys` read-only.
pub(super) fn write_setting(name: &str, value: &str) -> Result<(), HostError> {
    let path = setting_path(name);
    std::fs::write(&path, value).or_else(|cause| match std::fs::read_to_string(&path) {
        Ok(standing) if standing.split_whitespace().eq(value.split_whitespace()) => Ok(()),
        _ => Err(HostError::setting(name, value)(cause)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        Side::new(
            Keeper::start("test").unwrap(),
            "lo",
            "127.0.0.1".parse().unwrap(),
            false,
        )
    }

    #[test]
    fn jobs_run_in_order_on_one_thread_that_is_not_the_callers() {
        let side = side();
        let first = side.run(|| thread::current().id());
        let second = side.run(|| thread::current().id());
        assert_eq!(first, second);
        assert_ne!(first, thread::current().id());
    }

    #[test]
    fn a_panic_in_a_job_reaches_the_caller_and_the_side_lives_on() {
        let side = side();
        let panic = catch_unwind(AssertUnwindSafe(|| side.run(|| panic!("the job's own words"))));
        let words = panic.unwrap_err();
        assert_eq!(words.downcast_ref::<&str>(), Some(&"the job's own words"));
        assert_eq!(side.run(|| 7), 7);
    }

    #[test]
    fn a_job_may_use_its_own_side() {
        let side = std::sync::Arc::new(side());
        let again = std::sync::Arc::clone(&side);
        assert_eq!(side.run(move || again.run(|| 7)), 7);
    }

    #[test]
    fn a_side_without_a_namespace_of_its_own_sets_nothing() {
        let refusal = side().set("net.ipv4.ip_default_ttl", "9").unwrap_err();
        assert!(
            refusal.to_string().contains("would change the machine"),
            "{refusal}"
        );
    }
}
