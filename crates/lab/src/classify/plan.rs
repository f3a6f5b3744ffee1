//! Selects the steps: the post's rows and their neighbours, or every combination of the request's lists.

use crate::classify::document::published::{BUCKETS, STRIDES};
use crate::classify::document::{LockKind, Plan, PrefetchKind, Setting, TableKind};
use crate::error::{Refusal, within};
use corelane_loops::frames::FRAME_BYTES;
use corelane_measure::words;

/// The request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The allowed settings.
    pub lists: Lists,
    /// Measure every combination of the lists, instead of the post's rows and their neighbours.
    pub every_combination: bool,
    /// Everything else, as the document has it.
    pub plan: Plan,
}

/// The allowed settings; steps with other settings are skipped.
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
    /// Prefetch distances; empty skips such steps.
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
            tables: words::all(),
            buckets: BUCKETS.to_vec(),
            filled: vec![false, true],
            batches: vec![1, 2, 4, 8, 16, 32, 64],
            prefetch: words::all(),
            distances: vec![8, 16, 32, 64],
            // The post's, an odd number of lines on either side, and strides that share more factors with the sets.
            strides: vec![STRIDES[0], STRIDES[1], 1984, 2112, 1536, 4096],
            threads,
            locks: words::all(),
        }
    }
}

/// Frames of a ring: 4 GiB of buffers at the widest stride.
const MOST_FRAMES: usize = 1 << 15;
/// Entries that a table of this experiment may have: 100 times the post's.
const MOST_ENTRIES: usize = 600_000_000;
/// Buckets: 16 GiB of heads.
const MOST_BUCKETS: usize = 1 << 30;

/// Pairs of addresses that are written into frames before they repeat: their lookups touch more lines than a table has.
pub(super) const PAIRS: usize = 1 << 21;

/// The settings of all steps, each once.
///
/// # Errors
/// If a requested setting is invalid, or no step is left.
pub fn settings(request: &Request) -> Result<Vec<Setting>, Refusal> {
    check(request)?;
    let lists = &request.lists;
    let mut proposed = combinations(request);
    if !request.every_combination {
        proposed.retain(|setting| surrounds_the_post(setting, lists));
        let probe = |stride: &usize| Setting {
            burst: request.plan.burst,
            stride: *stride,
            ..Setting::STRIDE_PROBE
        };
        proposed.extend(lists.strides.iter().map(probe));
    }
    let mut settings: Vec<Setting> = Vec::new();
    for setting in proposed {
        let filled = setting.table == TableKind::None || lists.filled.contains(&(setting.entries > 0));
        let wanted = filled && lists.tables.contains(&setting.table) && exists(&setting);
        if wanted && !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    match settings.is_empty() {
        false => Ok(settings),
        true => Err(Refusal::new(
            "--tables, --batches, --strides and the other lists",
            "no step has all the requested settings: leave out a list, or give --every-combination",
        )),
    }
}

fn check(request: &Request) -> Result<(), Refusal> {
    let (lists, plan) = (&request.lists, &request.plan);
    let (burst, cpus) = (plan.burst, plan.cpus.len());
    // On a machine with shorter words, the saturated value is rejected.
    let entries = usize::try_from(plan.entries).unwrap_or(usize::MAX);
    let buckets: Vec<usize> = lists.buckets.iter().map(|buckets| *buckets as usize).collect();
    let frames = [burst, plan.ring];
    within("--burst and --ring", &frames, 1..=MOST_FRAMES, "N frames", "")?;
    within("--entries", &[entries], 1..=MOST_ENTRIES, "N entries", "")?;
    let apart = " bytes, so that frames do not overlap";
    within(
        "--strides",
        &lists.strides,
        FRAME_BYTES..=1 << 16,
        "a stride of N",
        apart,
    )?;
    within(
        "--batches",
        &lists.batches,
        1..=burst,
        "a batch of N",
        ", which is the burst",
    )?;
    within("--buckets", &buckets, 1..=MOST_BUCKETS, "N buckets", "")?;
    let distance = "a prefetch distance of N";
    let lookups = ", the lookups of a burst";
    within("--distances", &lists.distances, 1..=2 * burst, distance, lookups)?;
    let usable = ", the CPUs that may be used; threads that share a CPU show nothing";
    within("--threads", &lists.threads, 1..=cpus, "N threads", usable)
}

/// The tables: none, the post's with one empty bucket, empty and full, the exact one.
fn tables(request: &Request) -> Vec<Setting> {
    let post = |table_buckets, entries| Setting {
        burst: request.plan.burst,
        table_buckets,
        entries,
        ..Setting::POST
    };
    let nothing = Setting {
        table: TableKind::None,
        batch: request.plan.burst,
        ..post(None, 0)
    };
    let full = request.plan.entries;
    let exact = Setting {
        table: TableKind::Exact,
        ..post(None, full)
    };
    let sizes = request.lists.buckets.iter();
    let posts = sizes.flat_map(|buckets| [0, full].map(|entries| post(Some(*buckets), entries)));
    let probes = [nothing, post(Some(1), 0)];
    probes.into_iter().chain(posts).chain([exact]).collect()
}

/// Every combination of the lists; without a table only strides differ.
fn combinations(request: &Request) -> Vec<Setting> {
    let lists = &request.lists;
    let batches = lists.batches.iter().map(|batch| (*batch, None));
    let ahead = lists
        .distances
        .iter()
        .map(|distance| (request.plan.burst, Some(*distance)));
    let orders: Vec<(usize, Option<usize>)> = batches.chain(ahead).collect();
    let mut settings = Vec::new();
    for table in tables(request) {
        for &stride in &lists.strides {
            let table = Setting { stride, ..table };
            if table.table == TableKind::None {
                settings.push(table);
                continue;
            }
            for &threads in &lists.threads {
                for &lock in &lists.locks {
                    for &prefetch in &lists.prefetch {
                        settings.extend(orders.iter().map(|&(batch, prefetch_distance)| Setting {
                            batch,
                            prefetch,
                            prefetch_distance,
                            threads,
                            lock,
                            ..table
                        }));
                    }
                }
            }
        }
    }
    settings
}

/// Whether a setting is one of the post's rows or of what surrounds them: one or two things vary at a time.
fn surrounds_the_post(setting: &Setting, lists: &Lists) -> bool {
    let (table, batch, prefetch) = (setting.table, setting.batch, setting.prefetch);
    let (table_buckets, distance) = (setting.table_buckets, setting.prefetch_distance);
    let alone = (setting.threads, setting.lock) == (1, LockKind::None);
    let unaided = alone && (prefetch, distance) == (PrefetchKind::None, None);
    if table == TableKind::None || table_buckets == Some(1) {
        return table == TableKind::None || unaided && batch == 1;
    }
    // An empty table's buckets are all alike: one size of it will do.
    if setting.entries == 0 && table_buckets != lists.buckets.first().copied() {
        return false;
    }
    if setting.stride != STRIDES[1] {
        return unaided && [1, 2, 4].contains(&batch);
    }
    let within_a_batch = alone && distance.is_none() && prefetch != PrefetchKind::BucketAndArray;
    // Prefetching further than a batch, and further than the bucket.
    let furthest = match table {
        TableKind::Post => PrefetchKind::BucketAndArray,
        TableKind::Exact | TableKind::None => PrefetchKind::Bucket,
    };
    let further = alone && prefetch == furthest && (distance.is_some() || [4, 32].contains(&batch));
    // Threads that share a table, with and without a lock: the post's way of searching, and for the exact table also a
    // rolling one.
    let last = distance.is_some() && distance == lists.distances.last().copied();
    let rolling = table == TableKind::Exact && last;
    let shared = prefetch == PrefetchKind::Bucket && (rolling || (distance, batch) == (None, 4));
    within_a_batch || setting.entries > 0 && (further || shared)
}

/// Whether there is such a step: the exact table has neither arrays nor a lock, and to prefetch at a distance takes
/// something to prefetch.
fn exists(setting: &Setting) -> bool {
    let Setting { prefetch, lock, .. } = *setting;
    let arrays = prefetch == PrefetchKind::BucketAndArray;
    match (setting.table, setting.prefetch_distance) {
        (TableKind::Exact, _) if arrays || lock != LockKind::None => false,
        (_, None) => true,
        (TableKind::Post, Some(_)) => arrays,
        (_, Some(_)) => prefetch.bucket(),
    }
}

/// Buckets, and whether there are entries.
pub(super) fn key(setting: &Setting) -> (u64, bool) {
    (setting.table_buckets.unwrap_or(1), setting.entries > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::document::{Step, published};

    fn request(cpus: usize) -> Request {
        Request {
            lists: Lists::all(cpus),
            every_combination: false,
            plan: Plan {
                entries: 6_000_000,
                burst: published::BURST,
                ring: 4096,
                cpus: (0..cpus as u32).collect(),
                ..Plan::default()
            },
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
        // 2 bucket counts, empty or full, 2 batches, 5 kinds of prefetching, 2 numbers of threads, 3 locks; and one
        // empty bucket.
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
        assert!(refused(&|request| request.plan.entries = 0).contains("0 entries"));
        assert!(refused(&|request| request.plan.burst = 0).contains("0 frames"));
        assert!(refused(&|request| request.lists.buckets = vec![0]).contains("0 buckets"));
        assert!(refused(&|request| request.lists.tables.clear()).contains("leave out a list"));
    }
}
