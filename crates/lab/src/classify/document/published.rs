//! What the post "Intel DDIO, LLC cache, buffer alignment, prefetching, shared locks and packet rates" printed, row by
//! row, each beside the step that repeats it. Other hardware: context, never a comparison.

pub use super::setting::{BUCKETS, BURST, ENTRIES, STRIDES};

use super::setting::Setting;
use super::step::Step;
use corelane_measure::quantity::metric_brief;
use serde::{Deserialize, Serialize};

/// The post's title.
pub const TITLE: &str = "Intel DDIO, LLC cache, buffer alignment, prefetching, shared locks and packet rates";

/// Its machine, as far as it says: "Sandybridge", "8 core * 2.5MB per core", netmap's bridge between two 10 Gb/s ports.
pub const MACHINE: &str =
    "Sandy Bridge, 8 cores, 20 MB last-level cache, two 10 Gb/s ports, netmap on FreeBSD";

/// The post's rows. They come from other hardware: context, not a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The post's title.
    pub title: String,
    /// The post's machine.
    pub other_hardware: String,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// A row that the post printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// What it was measured with.
    #[serde(flatten)]
    pub setting: Setting,
    /// Frames per second.
    pub frames_per_s: Option<f64>,
    /// Memory read.
    pub mem_read_mb_s: Option<f64>,
    /// Memory written.
    pub mem_write_mb_s: Option<f64>,
    /// CPU time over time, of one core.
    pub cpu_share: Option<f64>,
    /// The step that repeats it here, by its place in `steps`.
    pub step: Option<usize>,
    /// Where the step differs from the row, or why there is none.
    pub note: Option<String>,
}

/// Every row of the post, in its order, not yet beside any step. Of the first two it says "it's keeping up line rate
/// bridging on one core (~14 million packets per second)".
///
/// # Panics
/// Never: a test reads them.
#[must_use]
pub fn rows() -> Vec<PublishedRow> {
    serde_json::from_str(include_str!("published.json")).expect("rows of this type")
}

/// The post's rows, each with the step that repeats it: the same setting, but for the number of entries when another
/// was asked for, and the number of threads when there are fewer CPUs.
pub(super) fn beside(steps: &[Step], most_threads: usize) -> Published {
    let mut rows = rows();
    for row in &mut rows {
        let threads = row.setting.threads.min(most_threads);
        let wanted = Setting {
            threads,
            ..row.setting
        };
        row.step = steps.iter().position(|step| step.setting.repeats(&wanted));
        let Some(step) = row.step else {
            row.note = Some("left out of this run".to_owned());
            continue;
        };
        let entries = steps[step].setting.entries;
        let fewer_threads = (threads != row.setting.threads).then(|| format!("{threads} threads here"));
        let other_entries =
            (entries != row.setting.entries).then(|| format!("{} entries", metric_brief(entries as f64)));
        let notes: Vec<String> = fewer_threads.into_iter().chain(other_entries).collect();
        row.note = (!notes.is_empty()).then(|| notes.join("; "));
    }
    Published {
        title: TITLE.to_owned(),
        other_hardware: MACHINE.to_owned(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_post_is_there_once_but_for_the_one_it_repeats() {
        let rows = rows();
        let rates: Vec<f64> = rows
            .iter()
            .filter_map(|row| row.frames_per_s)
            .map(|rate| rate / 1e6)
            .collect();
        let printed = [
            14.0, 14.0, 6.5, 10.0, 10.0, 11.1, 11.7, 10.0, 10.8, 11.5, 3.7, 4.5, 4.8, 5.0, 5.6, 5.6, 5.5,
            7.7, 7.5, 6.1, 7.1, 7.1, 8.9, 8.9, 12.0, 7.0, 4.7,
        ];
        assert_eq!(rates, printed);
    }

    #[test]
    fn a_row_stands_beside_the_step_with_its_setting_and_says_where_that_differs() {
        let mut settings: Vec<Setting> = rows().into_iter().map(|row| row.setting).collect();
        for setting in &mut settings {
            setting.threads = setting.threads.min(2);
            setting.entries = setting.entries.min(1000);
        }
        let steps: Vec<Step> = settings.into_iter().map(Step::planned).collect();
        let beside = beside(&steps, 2).rows;
        assert!(beside.iter().all(|row| row.step.is_some()), "{beside:?}");
        let note = beside.last().unwrap().note.clone().unwrap();
        assert_eq!(note, "2 threads here; 1 k entries");
        assert_eq!(
            super::beside(&[], 2).rows[0].note.as_deref(),
            Some("left out of this run")
        );
    }
}
