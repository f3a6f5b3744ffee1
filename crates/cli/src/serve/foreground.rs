//! The foreground run that all servers share.
//!
//! Input: a plan and a [`Foreground`], the arguments of the server, for output and a signal. Output: startup lines, one line per second in
//! which something happened, and the counts at the end.

use super::live_table::LiveTable;
use crate::interrupt::{Asked, Interrupt};
use crate::log::{log_line, offer};
use crate::outcome::Outcome;
use crate::rebalanced;
use crate::shared::{JsonArgument, ServerRunArguments, print_json};
use crate::standard::out;
use corelane_report::exposition::Exposed;
use corelane_rss::Steering;
use corelane_serve::Server;
use std::io::stderr;
use std::thread;
use std::time::{Duration, Instant};

/// How often the server, signals and the deadline are polled.
const LOOK: Duration = Duration::from_millis(20);

/// How long the counts wait for a reader of standard output, in milliseconds.
const LAST_WAIT: u8 = 250;

/// A start error of a server.
pub trait Refused {
    /// Converts it to a usage error that names the flag at fault.
    fn refused(self) -> anyhow::Error;
}

/// Output and signal of a server in the foreground, as its arguments request.
pub trait Foreground {
    type Server: Server<Error: Refused, Served: Exposed + Send>;

    /// The error of a server that cannot start.
    fn refused(&self, error: <Self::Server as Server>::Error) -> anyhow::Error {
        error.refused()
    }

    /// What is done once the server has started, before that is printed.
    fn started(&self) -> Outcome {
        Ok(())
    }

    /// What is done once it is printed that the server is ready.
    fn announced(&self) -> Outcome {
        Ok(())
    }

    /// The text printed when the server is ready.
    fn ready(&self, served: &Served<Self>) -> String;

    /// The line for the interval since `last`; not printed if nothing has changed.
    fn line(&self, served: &Served<Self>, last: &Served<Self>) -> String;

    /// What is wrong and cannot wait for the end; the first is printed on standard error in any case.
    fn remark(&self, _served: &Served<Self>) -> Option<String> {
        None
    }

    /// Whether it has remarks, so that the counts are read every second.
    const REMARKS: bool = false;

    /// Where the lines go. `json`: standard output is reserved for the document.
    fn lines(&self, json: bool) -> Lines {
        if json { Lines::Hidden } else { Lines::Output }
    }

    /// The text printed at the end.
    fn summary(served: &Served<Self>) -> String;

    /// How the sockets of the server are steered; `None` if not by our program.
    fn steering(_served: &Served<Self>) -> Option<&Steering> {
        None
    }

    /// The signal that is handled besides those that end the server.
    fn signal(&self) -> Option<i32> {
        None
    }

    /// Handles the signal.
    fn signalled(&self, _server: &mut Self::Server) -> Outcome {
        Ok(())
    }

    /// An error if the run failed although it produced counts.
    fn verdict(_served: &Served<Self>) -> Outcome {
        Ok(())
    }
}

/// The counts of a server.
pub type Served<F> = <<F as Foreground>::Server as Server>::Served;

/// The plan of a server.
pub type Plan<F> = <<F as Foreground>::Server as Server>::Plan;

/// Where the line per second goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Hidden,
    Output,
    Error,
}

/// With `--dry-run`, prints the plan. Otherwise runs the server until the duration elapses, it finishes, it is
/// interrupted, or a followed device changes in a way that cannot be followed.
pub fn serve<F: Foreground>(
    shown: &F,
    plan: Plan<F>,
    run: &ServerRunArguments,
    mut table: LiveTable,
) -> Outcome {
    if run.dry_run {
        return print_json(&plan);
    }
    // Several descriptors per bucket: with many buckets this exceeds the usual soft limit.
    corelane_host::limits::open_descriptors()?;
    run.json.check()?;
    table.check()?;
    let signal = shown.signal().map(Asked::catch).transpose()?;
    let interrupt = Interrupt::catch()?;
    let metrics = run.metrics.listen()?;
    let mut server = F::Server::start(plan).map_err(|error| shown.refused(error))?;
    let (mut last, lines) = (server.counts(), shown.lines(run.json.on_stdout()));
    table.begin(F::steering(&last))?;
    shown.started()?;
    if !run.json.on_stdout() {
        // Programs wait for it.
        offer(&mut out(), &shown.ready(&last), LAST_WAIT);
    }
    shown.announced()?;
    let started = Instant::now();
    let (mut line_due, mut lost, mut remarked) = (started + Duration::from_secs(1), None, false);
    let over = |duration| started.elapsed() >= duration;
    while !interrupt.asked() && !server.is_finished() && !run.duration.is_some_and(over) {
        thread::sleep(LOOK);
        server.poll()?;
        if signal.as_ref().is_some_and(Asked::taken) {
            shown.signalled(&mut server)?;
        }
        if let Some(metrics) = &metrics {
            metrics.look(|| Box::new(server.counts()));
        }
        if let Err(reason) = table.look(server.group()) {
            lost = Some(reason);
            break;
        }
        if let Some(rebalancing) = server.rebalancing() {
            rebalanced::log(rebalancing);
        }
        if (lines != Lines::Hidden || F::REMARKS) && Instant::now() >= line_due {
            let served = server.counts();
            let line = shown.line(&served, &last);
            if line != shown.line(&last, &last) {
                show(lines, &line);
            }
            remarked = remarked || remark(shown, &served);
            last = served;
            line_due += Duration::from_secs(1);
        }
    }
    let served = server.stop()?;
    let _ = remarked || remark(shown, &served);
    print_result::<F>(run.json, &served)?;
    lost.map_or_else(|| F::verdict(&served), Err)
}

/// Saves and prints the counts; if nobody reads standard output, prints the summary to standard error.
fn print_result<F: Foreground>(json: JsonArgument, served: &Served<F>) -> Outcome {
    let text = json.save_or_text(served, F::summary)?;
    if !offer(&mut out(), &text, LAST_WAIT) {
        offer(&mut stderr(), &F::summary(served), LAST_WAIT);
    }
    Ok(())
}

/// Prints the remark; false if there is none.
fn remark<F: Foreground>(shown: &F, served: &Served<F>) -> bool {
    shown.remark(served).inspect(|remark| log_line(remark)).is_some()
}

/// Shows the text of a second, each line unless nobody reads it: a pipe that takes some of a line may not take a table.
fn show(lines: Lines, text: &str) {
    let mut lines_of_text = text.lines().map(|line| format!("{line}\n"));
    match lines {
        Lines::Hidden => false,
        Lines::Output => lines_of_text.all(|line| offer(&mut out(), &line, 0)),
        Lines::Error => lines_of_text.all(|line| offer(&mut stderr(), &line, 0)),
    };
}
