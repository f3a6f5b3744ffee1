//! The foreground that every server runs in.
//!
//! In: a plan, and what is shown of the server and asked of it meanwhile. Out: what it says at its start, a line each second,
//! and its counts at the end.

use super::device::Followed;
use crate::interrupt::Interrupt;
use crate::outcome::Outcome;
use crate::shared::{OutputArguments, print, print_json};
use corelane_serve::Server;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What is shown of a server, and what its user asks of it while it runs.
pub trait Foreground {
    type Server: Server;

    /// Prepares what the user may ask with, before the server starts.
    fn prepare(&mut self) -> Outcome {
        Ok(())
    }

    /// Names the flag at fault.
    fn refused(error: <Self::Server as Server>::Error) -> anyhow::Error;

    /// What is said when the server is ready.
    fn ready(&self, served: &Served<Self>) -> anyhow::Result<String>;

    /// What happened since `last` was shown.
    fn line(&self, served: &Served<Self>, last: &Served<Self>) -> String;

    /// Where the lines go; `json` when standard output is for the document.
    fn lines(&self, json: bool) -> Lines {
        if json { Lines::Hidden } else { Lines::Output }
    }

    /// What it came to.
    fn summary(served: &Served<Self>) -> String;

    /// Does what signals and others have asked for since the last look.
    fn look(&mut self, _server: &mut Self::Server) -> Outcome {
        Ok(())
    }

    /// Whether the run has failed, although there are counts.
    fn verdict(_served: &Served<Self>) -> Outcome {
        Ok(())
    }
}

/// The counts of a server.
pub type Served<F> = <<F as Foreground>::Server as Server>::Served;

/// The plan of a server.
pub type Plan<F> = <<F as Foreground>::Server as Server>::Plan;

/// Where a line each second goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Hidden,
    Output,
    Error,
}

/// Prints the plan, as `--dry-run` asks; or starts the server, says that it is ready, and runs it until its time is over, it
/// has ended, it is interrupted, or the device that it follows becomes another.
pub fn serve<F: Foreground>(
    mut shown: F,
    plan: Plan<F>,
    output: &OutputArguments,
    duration: Option<Duration>,
    mut followed: Option<Followed>,
) -> Outcome {
    if output.dry_run {
        return print_json(&plan);
    }
    // A socket a bucket and more beside each: more than the usual soft limit for many buckets.
    corelane_host::limits::open_descriptors()?;
    let interrupt = Interrupt::catch()?;
    shown.prepare()?;
    let mut server = F::Server::start(plan).map_err(F::refused)?;
    let (mut last, lines) = (server.served(), shown.lines(output.json));
    if !output.json {
        let mut out = std::io::stdout().lock();
        write!(out, "{}", shown.ready(&last)?)?;
        out.flush()?;
    }
    let started = Instant::now();
    let (mut line_due, mut lost) = (started + Duration::from_secs(1), None);
    let over = |duration| started.elapsed() >= duration;
    while !interrupt.asked() && !server.is_finished() && !duration.is_some_and(over) {
        thread::sleep(LOOK);
        server.poll()?;
        shown.look(&mut server)?;
        if let Some(followed) = &mut followed {
            match followed.changed() {
                Ok(None) => {}
                Ok(Some(table)) => followed.announce(server.change_table(table)?),
                Err(reason) => {
                    lost = Some(reason);
                    break;
                }
            }
        }
        if lines != Lines::Hidden && Instant::now() >= line_due {
            let served = server.served();
            let line = shown.line(&served, &last);
            match lines {
                Lines::Error => writeln!(std::io::stderr(), "{line}")?,
                _ => writeln!(std::io::stdout(), "{line}")?,
            }
            last = served;
            line_due += Duration::from_secs(1);
        }
    }
    let served = server.stop()?;
    print(output.json, &served, F::summary)?;
    lost.map_or_else(|| F::verdict(&served), Err)
}
