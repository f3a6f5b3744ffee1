//! What memcached's flags do to the process: the background, the file with its number, its user, its limits.

use super::arguments::ProcessArguments;
use crate::log::log_line;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::standard::{say, write_lines};
use corelane_host::{limits, resolver};
use nix::errno::Errno;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::unistd::{Uid, User, dup2_stderr, dup2_stdout, setgid, setgroups, setsid, setuid};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit, id};

/// Starts this program again, with the same arguments, in the background, and waits until it is ready. Ends this process with
/// its exit code if it does not become ready. With `verbose` it keeps standard error, as memcached does.
pub fn start_in_background(verbose: bool) -> Outcome {
    let (reader, writer) = io::pipe()?;
    // Workers have tables of descriptors of their own: what this process inherits, such as a terminal, would stay open there.
    let errors = match verbose {
        true => Stdio::inherit(),
        false => writer.try_clone()?.into(),
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--in-background")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .spawn()?;
    let mut lines = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        if line == READY {
            show(&lines);
            return Ok(());
        }
        lines.push(line);
    }
    lines.iter().for_each(|line| say(&format!("{line}\n")));
    let status = child.wait()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => exit(code),
        None => anyhow::bail!("the server ended before it was ready: {status}"),
    }
}

/// The line that ends what a process in the background prints: no other is empty.
const READY: &str = "";

/// Lines of the log go to standard error.
fn show(lines: &[String]) {
    let (log, printed): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("corelane: "));
    log.iter().for_each(|line| say(&format!("{line}\n")));
    write_lines(printed.into_iter().cloned());
}

/// What is done before a server starts: leaves the terminal, and raises limits.
pub fn prepare(arguments: &ProcessArguments, connections: u32) -> anyhow::Result<Option<User>> {
    if arguments.in_background {
        // It fails only if this process has a session of its own already.
        let _ = setsid();
    }
    if arguments.enable_coredumps && limits::core_files() == 0 {
        let reason = "core files are not allowed here: raise the limit (ulimit -c, LimitCORE=)";
        return Err(cannot_run(format!("--enable-coredumps: {reason}")));
    }
    let descriptors = limits::open_descriptors_for(connections as usize)?;
    if descriptors < connections as usize {
        let reason = format!(
            "{connections} connections need as many descriptors, but {descriptors} are allowed: raise the limit \
             (ulimit -Hn, LimitNOFILE=)"
        );
        return Err(usage("--conn-limit", reason));
    }
    let name = arguments.user.as_deref().filter(|_| Uid::effective().is_root());
    name.map(user).transpose()
}

fn user(name: &str) -> anyhow::Result<User> {
    resolver::without_shared_libraries();
    let found = User::from_name(name).map_err(io::Error::from)?;
    found.ok_or_else(|| usage("--user", format!("there is no user '{name}'")))
}

/// What is done once the sockets are open: locks memory, becomes the user, writes the process number.
pub fn settle(arguments: &ProcessArguments, user: Option<&User>, unix_socket: Option<&Path>) -> Outcome {
    if arguments.lock_memory {
        lock_memory()?;
    }
    if let Some(user) = user {
        if let Some(path) = unix_socket {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        become_user(user)?;
    }
    if arguments.enable_coredumps {
        // A process that changed its user leaves none otherwise.
        let _ = prctl::set_dumpable(true);
    }
    if let Some(path) = &arguments.pidfile {
        // As memcached, which serves without, too.
        if let Err(error) = write_number(path) {
            log_line(&format!(
                "cannot write the process number to {}: {error}",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Locks what there is now. What comes later is locked only without a limit: beyond one it could not be allocated.
fn lock_memory() -> Outcome {
    let limit = limits::lockable_memory();
    let flags = match limit {
        None => MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE,
        Some(_) => MlockAllFlags::MCL_CURRENT,
    };
    mlockall(flags).map_err(|error| {
        let limit = limit.map_or("none".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        let remedy =
            "raise it (ulimit -l, LimitMEMLOCK=), and let the unit's SystemCallFilter= pass mlockall";
        cannot_run(format!(
            "--lock-memory: {}: the limit of locked memory is {limit}: {remedy}",
            io::Error::from(error)
        ))
    })
}

fn become_user(user: &User) -> Outcome {
    let failed = |what: &str, error: Errno| {
        let error = io::Error::from(error);
        usage("--user", format!("cannot {what} of '{}': {error}", user.name))
    };
    // Where it may not, as in some containers, there are no groups to lose.
    match setgroups(&[]) {
        Ok(()) | Err(Errno::EPERM) => {}
        Err(error) => return Err(failed("leave the groups", error)),
    }
    setgid(user.gid).map_err(|error| failed("take the group", error))?;
    setuid(user.uid).map_err(|error| failed("take the identity", error))
}

/// Replaces the file, so that a reader sees a whole number.
fn write_number(path: &Path) -> io::Result<()> {
    if let Some(other) = number_in(path).filter(|number| *number != id() && is_running(*number)) {
        log_line(&format!(
            "{} has the number of process {other}, which runs",
            path.display()
        ));
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".tmp");
    let new = PathBuf::from(new);
    fs::write(&new, format!("{}\n", id()))?;
    fs::rename(&new, path)
}

fn number_in(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn is_running(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Removes the file with the number of this process.
pub fn remove_number(path: &Path) {
    if number_in(path) == Some(id()) {
        // The user that this process has become may not: the number that is left is of no process.
        let _ = fs::remove_file(path);
    }
}

/// Lets the starter of a process in the background end, and closes its outputs; standard error stays with `verbose`, as memcached's does.
pub fn detach(verbose: bool) -> Outcome {
    write_lines([READY.to_owned()]);
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    if !verbose {
        dup2_stderr(&nowhere)?;
    }
    Ok(())
}
