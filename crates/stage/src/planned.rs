//! What a stage is for the list of stages (`way`): a name, settings and counts.

use crate::Stage;
use crate::counts::StageCounts;
use corelane_rss::{Bucket, Key};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;

/// What a stage may need to know of where it runs.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its bucket.
    pub bucket: Bucket,
    /// The number of buckets.
    pub buckets: u16,
    /// The seed of everything that must not be guessed from outside, and is repeatable.
    pub seed: u64,
    /// The key of its hash.
    pub key: Key,
}

/// A stage that can be planned: by a flag of its name, or a section of a file.
pub trait PlannedStage: Stage + Sized + Send {
    /// Its name: of the flag, the section, and in documents.
    const NAME: &'static str;
    /// What it does, for the help text of the flag.
    const ABOUT: &'static str;
    /// The value of the flag, for its help.
    const VALUE: &'static str = "SETTINGS";
    /// The setting that a word without a name is; there is no stage without it.
    const BARE: Option<&'static str> = None;
    /// Whether the frames that it makes have the addresses of those that they are made of: a hash of addresses alone is then
    /// the same.
    const SAME_ADDRESSES: bool = false;
    /// Its settings.
    type Plan: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync;
    /// Its counts.
    type Counts: StageCounts + Debug;

    /// A stage with these settings.
    fn of(plan: &Self::Plan, context: &Context, counts: Arc<Self::Counts>) -> Self;
}

/// What is said of a stage; see [`PlannedStage`].
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The value of its flag.
    pub value: &'static str,
    /// The setting that needs no name.
    pub bare: Option<&'static str>,
}

impl Listed {
    pub(crate) const fn of<K: PlannedStage>() -> Listed {
        Listed {
            name: K::NAME,
            about: K::ABOUT,
            value: K::VALUE,
            bare: K::BARE,
        }
    }
}
