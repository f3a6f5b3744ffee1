//! Runs a guest: starts the emulator as a child process, limits its time, and reads the result from its first serial
//! port.

use crate::image::{self, STATUS};
use crate::{GuestError, GuestParts, GuestPlan};
use std::fs::File;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between polls of the emulator.
const LOOK: Duration = Duration::from_millis(20);

/// Number of last console lines in an error: enough for a panic with its trace.
const SHOWN_CONSOLE_LINES: usize = 40;

/// The kernel's command line: console on the second serial port, warnings and errors only, no mitigations (they are
/// slow in emulation), an immediate reboot on panic, which ends the emulator, and no test of the timer's interrupt, which
/// fails when the emulator gets too little of a busy machine ("IO-APIC + timer doesn't work").
const KERNEL_ARGUMENTS: &str = "console=ttyS1 quiet panic=-1 mitigations=off no_timer_check";

/// The output of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestOutput {
    /// The command's standard output and standard error.
    pub output: String,
    /// The exit status that the shell saw.
    pub status: i32,
    /// The kernel's console output.
    pub console: String,
    /// Duration, including boot.
    pub took: Duration,
}

/// Boots a guest, runs its command, and returns when the guest is off. The emulator is killed when the calling thread
/// ends, and has no file on disk.
///
/// # Errors
/// [`GuestError`]. A failed command is not an error; see [`GuestOutput`].
pub fn boot(plan: &GuestPlan, parts: &GuestParts) -> Result<GuestOutput, GuestError> {
    boot_unless(plan, parts, || false)
}

/// Like [`boot`], until `stop` returns true: it is asked some times per second.
///
/// # Errors
/// As those of [`boot`], and [`GuestError::Stopped`].
pub fn boot_unless(
    plan: &GuestPlan,
    parts: &GuestParts,
    stop: impl Fn() -> bool,
) -> Result<GuestOutput, GuestError> {
    plan.check()?;
    let started = Instant::now();
    let image = image::build(plan, parts)?;
    let mut emulator = Emulator::start(plan, parts, image)
        .map_err(|cause| GuestError::Failed(format!("{}: {cause}", parts.qemu.display())))?;
    let deadline = started + plan.limit;
    let ended = emulator.wait(|| stop() || Instant::now() >= deadline);
    // The output of both serial ports is complete: the emulator has ended.
    let [output, console] = [&emulator.output, &emulator.console].map(|port| port.recv().unwrap_or_default());
    let lines: Vec<&str> = console.lines().collect();
    let console_end = lines[lines.len().saturating_sub(SHOWN_CONSOLE_LINES)..].join("\n");
    match (ended, split(&output)) {
        (None, _) if stop() => Err(GuestError::Stopped),
        (None, _) => Err(GuestError::TooLong {
            limit: plan.limit,
            output,
            console: console_end,
        }),
        (Some(_), Some((output, status))) => Ok(GuestOutput {
            output: output.to_owned(),
            status,
            console,
            took: started.elapsed(),
        }),
        (Some(status), None) => Err(GuestError::Failed(format!(
            "the guest ended before its command did ({status}); it had printed:\n{output}\nand on the \
             console:\n{console_end}"
        ))),
    }
}

/// Splits the output into the text before the status line and the status.
fn split(output: &str) -> Option<(&str, i32)> {
    let (before, after) = output.rsplit_once(STATUS)?;
    Some((before, after.lines().next()?.trim().parse().ok()?))
}

/// The running emulator; killed on drop.
struct Emulator {
    process: Child,
    output: Reading,
    console: Reading,
}

/// Reads a stream to its end on a separate thread, so its writer never blocks.
type Reading = mpsc::Receiver<String>;

/// The machine of every plan.
const MACHINE: &str = "-M q35 -cpu max -nodefaults -no-reboot -display none -serial file:/dev/stdout \
                       -serial file:/dev/stderr -initrd /dev/stdin -kernel";

impl Emulator {
    /// The image is standard input, which the emulator opens as a file. The first serial port is standard output; the
    /// second and the emulator's messages are standard error.
    fn start(plan: &GuestPlan, parts: &GuestParts, image: File) -> io::Result<Self> {
        let mut process = Command::new(&parts.setpriv)
            .args(["--pdeathsig", "KILL"])
            .arg(&parts.qemu)
            .args(MACHINE.split_whitespace())
            .arg(&parts.kernel)
            .arg("-append")
            .arg(format!("{KERNEL_ARGUMENTS} {}", plan.kernel_arguments.join(" ")))
            .args(plan.machine_arguments())
            .args(&plan.devices)
            .stdin(image)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            output: read(process.stdout.take().expect("standard output is piped")),
            console: read(process.stderr.take().expect("standard error is piped")),
            process,
        })
    }

    /// The exit status; `None` if the emulator was killed, because it was to end.
    fn wait(&mut self, is_to_end: impl Fn() -> bool) -> Option<String> {
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Err(error) => return Some(error.to_string()),
                Ok(None) if is_to_end() => {
                    self.end();
                    return None;
                }
                Ok(None) => thread::sleep(LOOK),
            }
        }
    }

    fn end(&mut self) {
        // Fails only if it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(mut stream: impl Read + Send + 'static) -> Reading {
    let (send, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Data read before an error is kept.
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_last_line_and_not_part_of_the_output() {
        assert_eq!(
            split("one\ntwo\ncorelane-guest-status: 3\n"),
            Some(("one\ntwo\n", 3))
        );
        assert_eq!(split("one\n"), None);
        assert_eq!(split("corelane-guest-status: "), None);
    }
}
