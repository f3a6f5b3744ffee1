//! Compares the lock waits of two runs: which waits more, for which locks, and whether for the socket's receive lock,
//! as on FreeBSD.

use super::report::{LockReport, SpinCoverage};
use super::sites::percent_of_time;

/// Below this share of the CPUs' time, in percent, waiting is within the repeatability of a measurement.
const WORTH_NAMING_PERCENT: f64 = 0.1;

/// Why Linux may lack the contention that the post "Receive side scaling: testing UDP throughput" found.
const HELD_WITH_SOFTIRQ_OFF: &str = "Linux holds it with softirqs off, so that the receive path cannot interrupt the reader \
                                     that holds it: only another CPU could wait";

/// States which of an echo and a sink run waits more for locks, for which, and the part of the socket's receive lock.
/// The post found the sink worse: its reader returns to the lock sooner.
#[must_use]
pub fn compare(echo: &LockReport, sink: &LockReport) -> String {
    format!("{}; {}.", which_waits_more(echo, sink), receive_lock(echo, sink))
}

fn which_waits_more(echo: &LockReport, sink: &LockReport) -> String {
    let (in_echo, in_sink) = (echo.wait_percent, sink.wait_percent);
    if in_echo.max(in_sink) < WORTH_NAMING_PERCENT {
        return format!(
            "neither run waits for kernel locks: echo {in_echo:.2} %, sink {in_sink:.2} % of the CPUs' time"
        );
    }
    let (worse, more, less, report) = if in_sink >= in_echo {
        ("sink", in_sink, in_echo, sink)
    } else {
        ("echo", in_echo, in_sink, echo)
    };
    let most = report.rows.first().map_or_else(String::new, |site| {
        format!(
            ", most of it in {} ({:.2} %, {} waits, {:.0} % of them in softirq)",
            site.name,
            percent_of_time(site.wait_total_ns, report.elapsed_ns, &report.cpus),
            site.count,
            100.0 * site.count_in_softirq as f64 / site.count.max(1) as f64
        )
    });
    format!("{worse} waits more: {more:.2} % of the CPUs' time against {less:.2} %{most}")
}

fn receive_lock(echo: &LockReport, sink: &LockReport) -> String {
    let (in_echo, in_sink) = (echo.receive_lock_waits, sink.receive_lock_waits);
    if in_echo + in_sink > 0 {
        return format!(
            "for the socket's receive lock echo waited {in_echo} times ({:.2} % of the CPUs' time), sink {in_sink} times \
             ({:.2} %)",
            echo.receive_lock_percent, sink.receive_lock_percent
        );
    }
    let all_reported = [echo, sink]
        .iter()
        .all(|report| report.spin_coverage == SpinCoverage::Every);
    let limit = if all_reported {
        ""
    } else {
        ", as far as this kernel reports such waits"
    };
    format!("nobody waited for the socket's receive lock{limit}: {HELD_WITH_SOFTIRQ_OFF}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::LockSite;

    const RECEIVE_LOCK: &str = "__udp_enqueue_schedule_skb (spin lock)";

    fn report(name: &str, count: u64, wait_total_ns: u64) -> LockReport {
        let wait_percent = wait_total_ns as f64 / 2e9 * 100.0;
        let receive_lock = name == RECEIVE_LOCK;
        LockReport {
            cpus: vec![0, 1],
            elapsed_ns: 1_000_000_000,
            waits: count,
            wait_total_ns,
            wait_percent,
            receive_lock_waits: if receive_lock { count } else { 0 },
            receive_lock_percent: if receive_lock { wait_percent } else { 0.0 },
            spin_coverage: SpinCoverage::Every,
            rows: vec![LockSite {
                wait_total_ns,
                count,
                count_in_softirq: count / 2,
                receive_lock,
                name: name.to_owned(),
                ..LockSite::default()
            }],
            ..LockReport::default()
        }
    }

    #[test]
    fn the_worse_run_is_named_with_its_lock() {
        let echo = report(RECEIVE_LOCK, 10, 2_000_000);
        let sink = report(RECEIVE_LOCK, 100, 40_000_000);
        assert_eq!(
            compare(&echo, &sink),
            "sink waits more: 2.00 % of the CPUs' time against 0.10 %, most of it in __udp_enqueue_schedule_skb (spin lock) \
             (2.00 %, 100 waits, 50 % of them in softirq); for the socket's receive lock echo waited 10 times (0.10 % of \
             the CPUs' time), sink 100 times (2.00 %)."
        );
    }

    #[test]
    fn a_kernel_without_that_contention_is_said_to_have_none_and_why() {
        let mut quiet = report("try_to_wake_up (spin lock)", 3, 1_000);
        let text = compare(&quiet, &quiet);
        assert!(text.starts_with("neither run waits"), "{text}");
        assert!(
            text.contains("nobody waited for the socket's receive lock: Linux holds it with softirqs off"),
            "{text}"
        );
        quiet.spin_coverage = SpinCoverage::NoneSeen;
        assert!(
            compare(&quiet, &quiet).contains("as far as this kernel reports"),
            "{text}"
        );
    }
}
