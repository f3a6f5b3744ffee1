//! What each CPU's receive path did, with the high-water marks of its backlog: the workstreams of FreeBSD's `netstat -Q`.
//!
//! Input: readings of `/proc/net/softnet_stat` at an interval, from [`SoftnetWatch::start`] to [`SoftnetWatch::finish`].
//! Output: a [`SoftnetReport`].
//!
//! How the columns of `netstat -Q` map to what Linux counts (`net/core/dev.c`, `net/core/net-procfs.c`):
//!
//! | netstat -Q | Linux | |
//! |---|---|---|
//! | `WSID`, `CPU` | the CPU | a CPU has one backlog |
//! | `Name` | `backlog` | one for all protocols, not one each |
//! | `Len` | backlog length | at the last reading |
//! | `WMark` | the highest length read | a lower bound: between two readings it may have been higher |
//! | `Disp'd`, `HDisp'd` | - | not counted: frames that a device's poll delivered without the backlog are in `processed` too |
//! | `QDrops` | `dropped` | the backlog was full, or one flow had more than its share |
//! | `Queued` | - | not counted, see `Disp'd` |
//! | `Handled` | `processed` | frames that entered the protocols, on this CPU; once more for each VLAN tag taken off |
//!
//! Three columns are Linux's own: `Squeezed` (`time_squeeze`: stopped with work left, out of budget), `RPS` (`received_rps`:
//! woken by another CPU to take frames) and `FlowLimit` (`flow_limit_count`: those of `QDrops` that one flow's share
//! caused).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corelane_host::HostError;
use corelane_host::counters::{CpuSoftnet, Softnet};
use serde::{Deserialize, Serialize};

use crate::ObserveError;
use crate::perf::{Collector, nanoseconds};

/// A running watch. If dropped, it stops at the next reading.
pub struct SoftnetWatch(Collector<SoftnetReport>);

/// The report of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetReport {
    /// From the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// The number of readings behind the high-water marks.
    pub readings: u64,
    /// One row per CPU, by ascending id. A caller may keep only some CPUs' rows.
    pub rows: Vec<SoftnetRow>,
    /// Why a column is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

/// One CPU's receive path between the first reading and the last, all network namespaces together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetRow {
    /// The CPU.
    pub cpu: u32,
    /// Frames that entered the protocols.
    pub processed: u64,
    /// Frames rejected by the backlog.
    pub dropped: u64,
    /// Times that work was left for lack of budget or time.
    pub squeezed: u64,
    /// Times that another CPU woke this one (RPS).
    pub received_rps: u64,
    /// Frames refused because of their flow's share of the backlog; `dropped` has them too.
    pub flow_limit: u64,
    /// Frames waiting in the backlog at the last reading.
    pub backlog: Option<u64>,
    /// The most frames that any reading found waiting there.
    pub backlog_high_water: Option<u64>,
}

impl SoftnetWatch {
    /// Reads now, then every `interval`, in a separate thread. An interval of ten milliseconds costs about a thousandth
    /// of a CPU.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Softnet`] if the first reading fails, [`ObserveError::Refused`] if no thread can be started.
    pub fn start(interval: Duration) -> Result<Self, ObserveError> {
        Self::start_with(interval, Softnet::read)
    }

    fn start_with(
        interval: Duration,
        read: impl Fn() -> Result<Softnet, HostError> + Send + 'static,
    ) -> Result<Self, ObserveError> {
        let mut tally = Tally::default();
        tally.take(read()?);
        let begin = Instant::now();
        let collector = Collector::start("softnet", move |stop| {
            loop {
                let last = stop.within(interval);
                tally.take(read()?);
                if last {
                    return Ok(tally.report(begin.elapsed()));
                }
            }
        });
        collector.map(Self)
    }

    /// Reads once more and returns the report.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Softnet`] when a reading failed.
    pub fn finish(self) -> Result<SoftnetReport, ObserveError> {
        self.0.finish()
    }
}

/// What the readings so far add up to: of each CPU the last counters and the sums.
#[derive(Default)]
struct Tally {
    readings: u64,
    cpus: BTreeMap<u32, (CpuSoftnet, SoftnetRow)>,
}

impl Tally {
    /// Adds what happened since the reading before. A CPU that comes online is counted from its first reading.
    fn take(&mut self, reading: Softnet) {
        self.readings += 1;
        for reading in reading.cpus {
            let (now, backlog) = (reading.counters, reading.backlog);
            let first = || (now, SoftnetRow::default());
            let (before, sum) = self.cpus.entry(reading.cpu).or_insert_with(first);
            sum.cpu = reading.cpu;
            sum.processed += since(now.processed, before.processed);
            sum.dropped += since(now.dropped, before.dropped);
            sum.squeezed += since(now.time_squeeze, before.time_squeeze);
            sum.received_rps += since(now.received_rps, before.received_rps);
            sum.flow_limit += since(now.flow_limit, before.flow_limit);
            sum.backlog = backlog;
            sum.backlog_high_water = sum.backlog_high_water.max(backlog);
            *before = now;
        }
    }

    fn report(self, elapsed: Duration) -> SoftnetReport {
        let rows: Vec<SoftnetRow> = self.cpus.into_values().map(|(_, sum)| sum).collect();
        let reason = "this kernel (before 5.10) does not report the backlog length";
        let unknown = ["backlog", "backlog_high_water"].map(|field| (field.to_owned(), reason.to_owned()));
        let hidden = rows.iter().any(|row| row.backlog.is_none());
        SoftnetReport {
            elapsed_ns: nanoseconds(elapsed),
            readings: self.readings,
            rows,
            unknown: unknown.into_iter().filter(|_| hidden).collect(),
        }
    }
}

/// The increase of a 32-bit counter: `softnet_data` counts in `unsigned int`, which wraps within the hour at a million
/// frames per second.
fn since(now: u64, before: u64) -> u64 {
    const WRAPS_AT: u64 = 1 << 32;
    now.wrapping_sub(before) % WRAPS_AT
}

#[cfg(test)]
mod tests {
    use corelane_host::counters::SoftnetOfCpu;

    use super::*;

    fn reading(cpu: u32, processed: u64, dropped: u64, backlog: Option<u64>) -> SoftnetOfCpu {
        SoftnetOfCpu {
            cpu,
            counters: CpuSoftnet {
                processed,
                dropped,
                ..CpuSoftnet::default()
            },
            backlog,
        }
    }

    fn sum_up(readings: Vec<Vec<SoftnetOfCpu>>) -> SoftnetReport {
        let mut tally = Tally::default();
        readings.into_iter().for_each(|cpus| tally.take(Softnet { cpus }));
        tally.report(Duration::from_secs(1))
    }

    #[test]
    fn the_mark_stays_where_the_backlog_was_highest() {
        let report = sum_up(vec![
            vec![reading(0, 100, 0, Some(0)), reading(1, 7, 0, Some(0))],
            vec![reading(0, 160, 2, Some(300)), reading(1, 7, 0, Some(0))],
            vec![reading(0, 200, 3, Some(1)), reading(1, 8, 0, Some(0))],
        ]);
        assert_eq!(report.readings, 3);
        let row = |cpu, processed, dropped, backlog, backlog_high_water| SoftnetRow {
            cpu,
            processed,
            dropped,
            backlog: Some(backlog),
            backlog_high_water: Some(backlog_high_water),
            ..SoftnetRow::default()
        };
        assert_eq!(report.rows, [row(0, 100, 3, 1, 300), row(1, 1, 0, 0, 0)]);
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let report = sum_up(vec![
            vec![reading(0, 0xffff_fff0, 0, Some(0))],
            vec![reading(0, 0x10, 0, Some(0))],
        ]);
        assert_eq!(report.rows[0].processed, 0x20);
    }

    #[test]
    fn a_kernel_without_backlog_lengths_gives_null_and_the_reason() {
        let report = sum_up(vec![vec![reading(0, 1, 0, None)], vec![reading(0, 2, 0, None)]]);
        assert_eq!(report.rows[0].backlog_high_water, None);
        assert!(report.unknown["backlog_high_water"].contains("5.10"));
    }

    #[test]
    fn a_reading_that_fails_is_reported() {
        let gone = || {
            Err(HostError::Missing {
                place: "/proc",
                what: "softnet_stat".to_owned(),
            })
        };
        let error = SoftnetWatch::start_with(Duration::from_millis(10), gone)
            .err()
            .unwrap();
        assert!(error.to_string().contains("softnet_stat"), "{error}");
    }
}
