//! The format of timeline files: a run second by second, a JSON line per second, written as it happens.
//!
//! In: what an observer read since the line before. Out: a [`Second`], which is one line of the file; a [`Header`] is
//! its first line. Lines close at whole seconds of the clock, so that those of several machines can be added up
//! (`merge.rs`). `file.rs` writes files while a generator runs, `page.rs` shows them.

mod file;
mod format;
mod merge;
mod page;

pub use file::TimelineFile;
pub use format::{CpuSpent, DamagedLine, Header, Origin, SCHEMA, Second, Timeline, TrialLabel};
pub use merge::MergeError;
