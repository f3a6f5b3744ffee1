//! Pins the calling thread to CPUs.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

use crate::HostError;

/// Pins the calling thread, and the threads and processes it starts afterwards, to `cpu`.
///
/// Memory first touched after this call is allocated on the CPU's own node (Linux's default policy): pin first, then
/// allocate.
///
/// # Errors
///
/// [`HostError::Failed`] for a CPU that is absent, offline, numbered 1024 or higher (the size of the C library's
/// `cpu_set_t`), or outside the cpuset of the process.
pub fn current_thread(cpu: u32) -> Result<(), HostError> {
    current_thread_to(&[cpu])
}

/// Pins the calling thread, and the threads and processes it starts afterwards, to `cpus`.
///
/// # Errors
///
/// Same as [`current_thread`], with the CPU at fault, or the first CPU if the kernel rejects the whole set. An empty
/// set is rejected as CPU 0.
pub fn current_thread_to(cpus: &[u32]) -> Result<(), HostError> {
    let refused = |cpu: u32| {
        move |errno: nix::Error| {
            HostError::Failed(format!(
                "cannot pin this thread to CPU {cpu}: {}; choose one of the CPUs that `cpus::allowed` names",
                io::Error::from(errno)
            ))
        }
    };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu as usize).map_err(refused(cpu))?;
    }
    let first = cpus.first().copied().unwrap_or(0);
    sched_setaffinity(Pid::from_raw(0), &set).map_err(refused(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus;

    #[test]
    fn a_pinned_thread_runs_on_its_cpu_and_nowhere_else() {
        for cpu in cpus::allowed().unwrap().cpus {
            std::thread::spawn(move || {
                current_thread(cpu).unwrap();
                for _ in 0..1000 {
                    assert_eq!(nix::sched::sched_getcpu().unwrap(), cpu as usize);
                    std::thread::yield_now();
                }
                assert_eq!(cpus::allowed().unwrap().cpus, vec![cpu]);
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_thread_may_be_bound_to_several_cpus_and_not_to_none() {
        let allowed = cpus::allowed().unwrap().cpus;
        std::thread::spawn(move || {
            current_thread_to(&allowed).unwrap();
            assert_eq!(cpus::allowed().unwrap().cpus, allowed);
            assert!(current_thread_to(&[]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_absent_cpu_is_refused_by_number() {
        for cpu in [1023, 1024, u32::MAX] {
            let refusal = current_thread(cpu).unwrap_err().to_string();
            assert!(refusal.contains(&format!("CPU {cpu}")), "{refusal}");
        }
    }
}
