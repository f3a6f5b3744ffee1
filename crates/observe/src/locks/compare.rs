//! Two runs beside each other: which waits more, for what, and whether the socket's receive lock is what it waits for, as
//! it was on FreeBSD.

use super::report::{LockReport, LockSite, SpinCoverage};

/// Functions that take the lock of a UDP socket's receive queue, or of the queue its reader takes from
/// (`net/ipv4/udp.c`): the first is the receive path's, the others the reader's.
const RECEIVE_LOCK_FUNCTIONS: &[&str] = &[
    "__udp_enqueue_schedule_skb",
    "__skb_recv_udp",
    "udp_rmem_release",
    "udp_skb_destructor",
    "first_packet_length",
    "__first_packet_length",
];

/// Below this share of the CPUs' time, in percent, waiting is not worth a reader's: a measurement repeats no better.
const WORTH_NAMING_PERCENT: f64 = 0.1;

/// Why Linux may lack the contention that the post "Receive side scaling: testing UDP throughput" found.
const HELD_WITH_SOFTIRQ_OFF: &str = "Linux holds it with softirqs off, so that the receive path cannot interrupt the reader \
                                     that holds it: only another CPU could wait";

impl LockReport {
    /// The places that wait for a UDP socket's receive lock.
    pub fn receive_lock_sites(&self) -> impl Iterator<Item = &LockSite> {
        self.sites
            .iter()
            .filter(|site| RECEIVE_LOCK_FUNCTIONS.contains(&site.function.as_str()))
    }

    /// What these waits took, in percent of the watched CPUs' time.
    #[must_use]
    pub fn receive_lock_percent(&self) -> f64 {
        self.percent_of_time(self.receive_lock_sites().map(|site| site.wait_total_ns).sum())
    }
}

/// Says which of an echo and a sink run waits more for locks, for which, and what the socket's receive lock has to do with
/// it. The post found the sink worse: its reader is back at the lock sooner.
#[must_use]
pub fn compare(echo: &LockReport, sink: &LockReport) -> String {
    format!("{}; {}.", which_waits_more(echo, sink), receive_lock(echo, sink))
}

fn which_waits_more(echo: &LockReport, sink: &LockReport) -> String {
    let (in_echo, in_sink) = (echo.wait_percent(), sink.wait_percent());
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
    let most = report.sites.first().map_or_else(String::new, |site| {
        format!(
            ", most of it in {} ({:.2} %, {} waits, {:.0} % of them in softirq)",
            site.name(),
            report.percent_of_time(site.wait_total_ns),
            site.count,
            100.0 * site.count_in_softirq as f64 / site.count.max(1) as f64
        )
    });
    format!("{worse} waits more: {more:.2} % of the CPUs' time against {less:.2} %{most}")
}

fn receive_lock(echo: &LockReport, sink: &LockReport) -> String {
    let waits = |report: &LockReport| report.receive_lock_sites().map(|site| site.count).sum::<u64>();
    let (in_echo, in_sink) = (waits(echo), waits(sink));
    if in_echo + in_sink > 0 {
        return format!(
            "for the socket's receive lock echo waited {in_echo} times ({:.2} % of the CPUs' time), sink {in_sink} times \
             ({:.2} %)",
            echo.receive_lock_percent(),
            sink.receive_lock_percent()
        );
    }
    let told = [echo, sink]
        .iter()
        .all(|report| report.spin_coverage == SpinCoverage::Every);
    let limit = if told {
        ""
    } else {
        ", as far as this kernel tells of such waits"
    };
    format!("nobody waited for the socket's receive lock{limit}: {HELD_WITH_SOFTIRQ_OFF}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::report::LockKind;
    use super::*;

    fn site(function: &str, count: u64, wait_total_ns: u64) -> LockSite {
        LockSite {
            function: function.to_owned(),
            image: "kernel".to_owned(),
            kind: LockKind::Spin,
            locks: 1,
            callers: Vec::new(),
            max_ns: None,
            wait_max_ns: wait_total_ns,
            total_ns: None,
            wait_total_ns,
            count,
            count_in_softirq: count / 2,
            avg_ns: None,
            wait_avg_ns: 0,
        }
    }

    fn report(sites: Vec<LockSite>) -> LockReport {
        LockReport {
            cpus: vec![0, 1],
            processes: Vec::new(),
            elapsed_ns: 1_000_000_000,
            waits: sites.iter().map(|site| site.count).sum(),
            wait_total_ns: sites.iter().map(|site| site.wait_total_ns).sum(),
            sites,
            elsewhere_waits: 0,
            elsewhere_wait_total_ns: 0,
            lost_records: 0,
            ends_without_begin: 0,
            begins_without_end: 0,
            spin_coverage: SpinCoverage::Every,
            unknown: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_worse_run_is_named_with_its_lock() {
        let echo = report(vec![site("__udp_enqueue_schedule_skb", 10, 2_000_000)]);
        let sink = report(vec![site("__udp_enqueue_schedule_skb", 100, 40_000_000)]);
        assert_eq!(
            compare(&echo, &sink),
            "sink waits more: 2.00 % of the CPUs' time against 0.10 %, most of it in __udp_enqueue_schedule_skb (spin lock) \
             (2.00 %, 100 waits, 50 % of them in softirq); for the socket's receive lock echo waited 10 times (0.10 % of \
             the CPUs' time), sink 100 times (2.00 %)."
        );
    }

    #[test]
    fn a_kernel_without_that_contention_is_said_to_have_none_and_why() {
        let mut quiet = report(vec![site("try_to_wake_up", 3, 1_000)]);
        let text = compare(&quiet, &quiet);
        assert!(text.starts_with("neither run waits"), "{text}");
        assert!(
            text.contains("nobody waited for the socket's receive lock: Linux holds it with softirqs off"),
            "{text}"
        );
        quiet.spin_coverage = SpinCoverage::NoneSeen;
        assert!(
            compare(&quiet, &quiet).contains("as far as this kernel tells"),
            "{text}"
        );
    }
}
