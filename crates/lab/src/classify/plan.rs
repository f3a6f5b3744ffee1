//! Which steps are measured: the post's rows and what surrounds them, or every combination of what is asked for.

use super::frames::FRAME_BYTES;
use crate::classify::document::published::{BUCKETS, STRIDES};
use crate::classify::document::{LockKind, PrefetchKind, Setting, TableKind};
use thiserror::Error;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Request {
    /// What steps may have.
    pub lists: Lists,
    /// Every combination of the lists, instead of the post's rows and what surrounds them.
    pub every_combination: bool,
    /// Addresses in the full tables.
    pub entries: usize,
    /// Frames pulled at once.
    pub burst: usize,
    /// Frame buffers of each ring; made a multiple of the burst.
    pub ring: usize,
    /// Seconds of one trial.
    pub duration_s: f64,
    /// Rounds.
    pub rounds: u32,
    /// CPUs: the first T of them run the threads of a step of T threads.
    pub cpus: Vec<u32>,
    /// Seed of addresses and order.
    pub seed: u64,
}

/// What steps may have; a step with anything else is left out.
#[derive(Debug, Clone)]
pub struct Lists {
    /// Kinds of table.
    pub tables: Vec<TableKind>,
    /// Buckets of the post's table.
    pub buckets: Vec<u64>,
    /// Whether the post's table is measured empty, full, or both.
    pub filled: Vec<bool>,
    /// Frames of a batch; steps with a prefetch distance have the whole burst.
    pub batches: Vec<usize>,
    /// Kinds of prefetching.
    pub prefetch: Vec<PrefetchKind>,
    /// Prefetch distances; none leaves such steps out.
    pub distances: Vec<usize>,
    /// Strides.
    pub strides: Vec<usize>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Locks.
    pub locks: Vec<LockKind>,
}

impl Lists {
    /// Everything, on this many CPUs.
    #[must_use]
    pub fn all(cpus: usize) -> Lists {
        let doubling = std::iter::successors(Some(1), |threads| Some(threads * 2));
        let mut threads: Vec<usize> = doubling.take_while(|threads| *threads < cpus).collect();
        threads.push(cpus.max(1));
        Lists {
            tables: TableKind::ALL.to_vec(),
            buckets: BUCKETS.to_vec(),
            filled: vec![false, true],
            batches: vec![1, 2, 4, 8, 16, 32, 64],
            prefetch: PrefetchKind::ALL.to_vec(),
            distances: vec![8, 16, 32, 64],
            // The post's, an odd number of lines on either side, and strides that share more factors with the sets.
            strides: vec![STRIDES[0], STRIDES[1], 1984, 2112, 1536, 4096],
            threads,
            locks: LockKind::ALL.to_vec(),
        }
    }
}

/// Why there is no experiment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Buffers would overlap.
    #[error("a stride of {stride}: give {FRAME_BYTES} to 65536 bytes, so that frames do not overlap")]
    Stride {
        /// The one asked for.
        stride: usize,
    },
    /// No frame, or more than are pulled at once.
    #[error("a batch of {batch}: give 1 to the burst, which is {burst}")]
    Batch {
        /// The one asked for.
        batch: usize,
        /// Frames of a burst.
        burst: usize,
    },
    /// No frame, or more than the rings are made for.
    #[error("{frames} frames: give 1 to {MOST_FRAMES}")]
    Frames {
        /// As many as asked for.
        frames: usize,
    },
    /// No entry, or too many for memory.
    #[error("{entries} entries: give 1 to {MOST_ENTRIES}")]
    Entries {
        /// As many as asked for.
        entries: usize,
    },
    /// No bucket, or too many.
    #[error("{buckets} buckets: give 1 to {MOST_BUCKETS}")]
    Buckets {
        /// As many as asked for.
        buckets: u64,
    },
    /// No lookup, or more than a burst has.
    #[error("a prefetch distance of {distance}: give 1 to {most}, the lookups of a burst")]
    Distance {
        /// The one asked for.
        distance: usize,
        /// Lookups of a burst.
        most: usize,
    },
    /// More threads than CPUs.
    #[error(
        "{threads} threads: give 1 to {cpus}, the CPUs that may be used; threads that share a CPU show nothing"
    )]
    Threads {
        /// As many as asked for.
        threads: usize,
        /// CPUs.
        cpus: usize,
    },
    /// The lists leave nothing.
    #[error("no step has all that was asked for: leave out a list, or ask for every combination")]
    Nothing,
}

/// Frames of a ring: 4 GiB of buffers at the widest stride.
const MOST_FRAMES: usize = 1 << 15;
/// Entries that a table of this experiment may have: 100 times the post's.
const MOST_ENTRIES: usize = 600_000_000;
/// Buckets: 16 GiB of heads.
const MOST_BUCKETS: u64 = 1 << 30;

/// The settings of all steps, each once.
///
/// # Errors
/// See [`RequestError`].
pub fn settings(request: &Request) -> Result<Vec<Setting>, RequestError> {
    check(request)?;
    let planner = Planner { request };
    let proposed = if request.every_combination {
        planner.every_combination()
    } else {
        planner.surroundings()
    };
    let mut settings: Vec<Setting> = Vec::new();
    for setting in proposed {
        if planner.wanted(&setting) && !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    if settings.is_empty() {
        return Err(RequestError::Nothing);
    }
    Ok(settings)
}

fn check(request: &Request) -> Result<(), RequestError> {
    let Lists {
        batches,
        strides,
        buckets,
        distances,
        threads,
        ..
    } = &request.lists;
    let (burst, cpus, entries) = (request.burst, request.cpus.len(), request.entries);
    if let Some(frames) = [burst, request.ring]
        .into_iter()
        .find(|frames| !(1..=MOST_FRAMES).contains(frames))
    {
        return Err(RequestError::Frames { frames });
    }
    if !(1..=MOST_ENTRIES).contains(&entries) {
        return Err(RequestError::Entries { entries });
    }
    if let Some(&stride) = strides
        .iter()
        .find(|stride| !(FRAME_BYTES..=1 << 16).contains(*stride))
    {
        return Err(RequestError::Stride { stride });
    }
    if let Some(&batch) = batches.iter().find(|batch| !(1..=burst).contains(*batch)) {
        return Err(RequestError::Batch { batch, burst });
    }
    if let Some(&buckets) = buckets
        .iter()
        .find(|buckets| !(1..=MOST_BUCKETS).contains(*buckets))
    {
        return Err(RequestError::Buckets { buckets });
    }
    let most = 2 * burst;
    if let Some(&distance) = distances.iter().find(|distance| !(1..=most).contains(*distance)) {
        return Err(RequestError::Distance { distance, most });
    }
    if let Some(&threads) = threads.iter().find(|threads| !(1..=cpus).contains(*threads)) {
        return Err(RequestError::Threads { threads, cpus });
    }
    Ok(())
}

struct Planner<'a> {
    request: &'a Request,
}

/// Prefetching within a batch.
const WITHIN_A_BATCH: [PrefetchKind; 4] = [
    PrefetchKind::None,
    PrefetchKind::Header,
    PrefetchKind::Bucket,
    PrefetchKind::Both,
];

impl Planner<'_> {
    /// The tables: none, the post's with one empty bucket, empty and full, the exact one.
    fn tables(&self) -> Vec<Setting> {
        let setting = |table, table_buckets, entries| Setting {
            table,
            table_buckets,
            entries,
            burst: self.request.burst,
            batch: 1,
            prefetch: PrefetchKind::None,
            prefetch_distance: None,
            stride: STRIDES[1],
            threads: 1,
            lock: LockKind::None,
        };
        let full = self.request.entries as u64;
        let mut tables = vec![
            setting(TableKind::None, None, 0),
            setting(TableKind::Post, Some(1), 0),
        ];
        for &buckets in &self.request.lists.buckets {
            tables.push(setting(TableKind::Post, Some(buckets), 0));
            tables.push(setting(TableKind::Post, Some(buckets), full));
        }
        tables.push(setting(TableKind::Exact, None, full));
        tables
    }

    /// The post's rows and what surrounds them: one or two things vary at a time.
    fn surroundings(&self) -> Vec<Setting> {
        let lists = &self.request.lists;
        let mut settings = Vec::new();
        for table in self.tables() {
            if table.table == TableKind::None {
                settings.extend(lists.strides.iter().map(|stride| self.bridge(*stride)));
                continue;
            }
            if table.table_buckets == Some(1) {
                settings.extend(lists.strides.iter().map(|stride| Setting {
                    stride: *stride,
                    ..table.clone()
                }));
                continue;
            }
            // An empty table's buckets are all alike: one size of it will do.
            if table.entries == 0 && table.table_buckets != lists.buckets.first().copied() {
                continue;
            }
            for &batch in &lists.batches {
                settings.extend(WITHIN_A_BATCH.map(|prefetch| Setting {
                    batch,
                    prefetch,
                    ..table.clone()
                }));
            }
            for (&stride, batch) in lists
                .strides
                .iter()
                .flat_map(|stride| [(stride, 1), (stride, 2), (stride, 4)])
            {
                settings.push(Setting {
                    stride,
                    batch,
                    ..table.clone()
                });
            }
            if table.entries > 0 {
                settings.extend(self.further_ahead(&table));
                settings.extend(self.shared(&table));
            }
        }
        settings
    }

    /// Prefetching further than a batch, and further than the bucket.
    fn further_ahead(&self, table: &Setting) -> Vec<Setting> {
        let kind = match table.table {
            TableKind::Post => PrefetchKind::BucketAndArray,
            TableKind::Exact | TableKind::None => PrefetchKind::Bucket,
        };
        let batched = [4, 32].map(|batch| Setting {
            batch,
            prefetch: kind,
            ..table.clone()
        });
        let rolling = self.request.lists.distances.iter().map(|distance| Setting {
            batch: self.request.burst,
            prefetch: kind,
            prefetch_distance: Some(*distance),
            ..table.clone()
        });
        batched.into_iter().chain(rolling).collect()
    }

    /// Threads that share a table, with and without a lock: the post's way of searching, and for the exact table also a
    /// rolling one.
    fn shared(&self, table: &Setting) -> Vec<Setting> {
        let lists = &self.request.lists;
        let mut settings = Vec::new();
        for &threads in &lists.threads {
            let batched = Setting {
                batch: 4,
                prefetch: PrefetchKind::Bucket,
                threads,
                ..table.clone()
            };
            let locks = lists.locks.iter().map(|lock| Setting {
                lock: *lock,
                ..batched.clone()
            });
            settings.extend(locks);
            if let (TableKind::Exact, Some(distance)) = (table.table, lists.distances.last()) {
                settings.push(Setting {
                    batch: self.request.burst,
                    prefetch_distance: Some(*distance),
                    ..batched
                });
            }
        }
        settings
    }

    /// Frames forwarded without being looked at.
    fn bridge(&self, stride: usize) -> Setting {
        let mut bridge = self.tables().remove(0);
        (bridge.batch, bridge.stride) = (self.request.burst, stride);
        bridge
    }

    fn every_combination(&self) -> Vec<Setting> {
        let lists = &self.request.lists;
        let mut settings = vec![];
        for table in self.tables() {
            for &stride in &lists.strides {
                if table.table == TableKind::None {
                    settings.push(self.bridge(stride));
                    continue;
                }
                for &threads in &lists.threads {
                    for &lock in &lists.locks {
                        let base = Setting {
                            stride,
                            threads,
                            lock,
                            ..table.clone()
                        };
                        settings.extend(self.orders(&base));
                    }
                }
            }
        }
        settings
    }

    /// Every batch, kind of prefetching and distance.
    fn orders(&self, base: &Setting) -> Vec<Setting> {
        let lists = &self.request.lists;
        let mut settings = Vec::new();
        for &prefetch in &lists.prefetch {
            settings.extend(lists.batches.iter().map(|batch| Setting {
                batch: *batch,
                prefetch,
                ..base.clone()
            }));
            settings.extend(lists.distances.iter().map(|distance| Setting {
                batch: self.request.burst,
                prefetch,
                prefetch_distance: Some(*distance),
                ..base.clone()
            }));
        }
        settings
    }

    /// Whether the lists have all that a step has, and the step exists: the exact table has neither arrays nor a lock, and
    /// to prefetch at a distance takes something to prefetch.
    fn wanted(&self, setting: &Setting) -> bool {
        let lists = &self.request.lists;
        let filled = lists.filled.contains(&(setting.entries > 0));
        let common = lists.tables.contains(&setting.table) && lists.strides.contains(&setting.stride);
        let searched = setting.table == TableKind::None
            || (setting.is_stride_probe() && filled)
            || (filled
                && (setting.prefetch_distance.is_some() || lists.batches.contains(&setting.batch))
                && lists.prefetch.contains(&setting.prefetch)
                && lists.threads.contains(&setting.threads)
                && lists.locks.contains(&setting.lock));
        let exists = match setting.table {
            TableKind::Exact => {
                setting.lock == LockKind::None && setting.prefetch != PrefetchKind::BucketAndArray
            }
            TableKind::Post | TableKind::None => true,
        };
        let rolls = match (setting.prefetch_distance, setting.table) {
            (None, _) => true,
            (Some(_), TableKind::Post) => setting.prefetch == PrefetchKind::BucketAndArray,
            (Some(_), _) => setting.prefetch.bucket(),
        };
        common && searched && exists && rolls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::document::{Step, published};

    fn request(cpus: usize) -> Request {
        Request {
            lists: Lists::all(cpus),
            every_combination: false,
            entries: 6_000_000,
            burst: published::BURST,
            ring: 4096,
            duration_s: 0.05,
            rounds: 3,
            cpus: (0..cpus as u32).collect(),
            seed: 1,
        }
    }

    #[test]
    fn every_row_of_the_post_has_its_step_where_there_are_four_cpus() {
        let steps: Vec<Step> = settings(&request(4))
            .unwrap()
            .into_iter()
            .map(Step::planned)
            .collect();
        for row in published::rows() {
            let beside = steps.iter().any(|step| step.setting == row.setting);
            assert!(beside, "{}", row.setting);
        }
    }

    #[test]
    fn a_list_leaves_out_what_it_does_not_have() {
        let mut request = request(2);
        request.lists.batches = vec![1, 4];
        request.lists.strides = vec![1920];
        request.lists.tables = vec![TableKind::Post];
        request.lists.distances.clear();
        let found = settings(&request).unwrap();
        assert!(found.iter().all(|setting| [1, 4].contains(&setting.batch)
            && setting.stride == 1920
            && setting.table == TableKind::Post));
        request.every_combination = true;
        let every = settings(&request).unwrap();
        // 2 bucket counts, empty or full, 2 batches, 5 kinds of prefetching, 2 numbers of threads, 3 locks.
        // And one empty bucket.
        assert_eq!(every.len(), (2 * 2 + 1) * 2 * 5 * 2 * 3);
        assert!(found.iter().all(|setting| every.contains(setting)));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_what_can() {
        let refused = |change: &dyn Fn(&mut Request)| {
            let mut request = request(2);
            change(&mut request);
            settings(&request).unwrap_err().to_string()
        };
        assert!(refused(&|request| request.lists.strides = vec![32]).contains("64 to 65536"));
        assert!(refused(&|request| request.lists.batches = vec![2000]).contains("1024"));
        assert!(refused(&|request| request.lists.threads = vec![4]).contains("give 1 to 2"));
        assert!(refused(&|request| request.lists.distances = vec![0]).contains("distance of 0"));
        assert!(refused(&|request| request.entries = 0).contains("0 entries"));
        assert!(refused(&|request| request.burst = 0).contains("0 frames"));
        assert!(refused(&|request| request.lists.buckets = vec![0]).contains("0 buckets"));
        assert!(refused(&|request| request.lists.tables.clear()).contains("leave out a list"));
    }
}
