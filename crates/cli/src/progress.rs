//! Progress of long commands on standard error: a bar with the time left and the last result in a terminal, otherwise a
//! line from time to time.

use crate::standard::say;
use corelane_measure::quantity;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Time between two lines where there is no terminal: a log stays short, and a short run prints none.
const BETWEEN_LINES: Duration = Duration::from_secs(2);

/// The progress of a command. Its end, or dropping it, removes the bar.
pub struct Steps {
    /// `None` without a terminal.
    bar: Option<ProgressBar>,
    begun: Instant,
    last_line: Instant,
}

impl Steps {
    /// A command of so many steps begins.
    pub fn begin(steps: u64) -> Self {
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {wide_msg}")
            .expect("a template of known fields");
        let bar = || ProgressBar::new(steps).with_style(style);
        let now = Instant::now();
        Self {
            bar: io::stderr().is_terminal().then(bar),
            begun: now,
            last_line: now,
        }
    }

    /// So many of all steps are done; `result` is that of the last one, and may be empty.
    pub fn done(&mut self, done: u64, of: u64, result: &str) {
        let left = left(self.begun.elapsed(), done, of);
        let line = [left.as_str(), result].join("  ");
        match &self.bar {
            Some(bar) => {
                bar.set_length(of);
                bar.set_position(done);
                bar.set_message(line.trim().to_owned());
            }
            None if self.last_line.elapsed() >= BETWEEN_LINES => {
                self.last_line = Instant::now();
                let [done, of] = [done, of].map(quantity::count);
                say(&format!("{done} of {of}  {}\n", line.trim()));
            }
            None => {}
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The time left if the other steps take as long as those done: `about 12 s left`.
fn left(elapsed: Duration, done: u64, of: u64) -> String {
    if done == 0 || done >= of {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * (of - done) as f64 / done as f64;
    match seconds {
        ..90.0 => format!("about {seconds:.0} s left"),
        ..5_400.0 => format!("about {:.0} min left", seconds / 60.0),
        _ => format!("about {:.1} h left", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_time_of_the_steps_done() {
        let after = |seconds, done| left(Duration::from_secs(seconds), done, 10);
        assert_eq!(after(3, 2), "about 12 s left");
        assert_eq!(after(60, 2), "about 4 min left");
        assert_eq!(after(7_200, 4), "about 3.0 h left");
        assert_eq!([after(3, 0), after(3, 10)], ["", ""]);
    }
}
