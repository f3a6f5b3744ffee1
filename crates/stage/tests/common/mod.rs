//! Frames lent from a list, a stage that runs over them, and what tshark shows.

use corelane_stage::{Batch, Desk, Stage, Work};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Frames lent from a list, each with the index of its link.
pub struct Lent(pub Vec<(usize, Vec<u8>)>);

impl Batch for Lent {
    fn frames(&self) -> usize {
        self.0.len()
    }

    fn frame(&self, number: usize) -> &[u8] {
        &self.0[number].1
    }

    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        &mut self.0[number].1
    }

    fn link(&self, number: usize) -> usize {
        self.0[number].0
    }
}

/// A stage, and what stays from batch to batch.
pub struct Runner<S> {
    pub stage: S,
    desk: Desk,
    start: Instant,
    /// Time since the start.
    pub elapsed: Duration,
}

impl<S: Stage> Runner<S> {
    pub fn new(stage: S) -> Runner<S> {
        Runner {
            stage,
            desk: Desk::default(),
            start: Instant::now(),
            elapsed: Duration::ZERO,
        }
    }

    /// The frames that leave, of a batch from link 0.
    pub fn run(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.run_from(frames.iter().map(|frame| (0, frame.clone())).collect())
    }

    /// The frames that leave, of a batch from any links.
    pub fn run_from(&mut self, frames: Vec<(usize, Vec<u8>)>) -> Vec<Vec<u8>> {
        self.over(frames, S::run)
    }

    /// The frames that leave at the end.
    pub fn end(&mut self) -> Vec<Vec<u8>> {
        self.over(Vec::new(), S::end)
    }

    fn over(
        &mut self,
        frames: Vec<(usize, Vec<u8>)>,
        run: impl FnOnce(&mut S, &mut Work<'_, Lent>),
    ) -> Vec<Vec<u8>> {
        let mut lent = Lent(frames);
        let mut work = Work::new(&mut self.desk, &mut lent, self.start + self.elapsed);
        work.read();
        run(&mut self.stage, &mut work);
        work.settle();
        let leaving = (0..work.len()).filter(|place| work.goes_on(*place));
        leaving.map(|place| work.frame(place).to_vec()).collect()
    }
}

/// The lines of these fields that tshark shows of a capture, one for each frame, if it is here.
pub fn tshark(path: &Path, options: &[&str], fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", path.to_str().unwrap(), "-T", "fields"]);
    command.args(options);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: tshark: {error}");
            return None;
        }
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}
