//! Text report of a packet run, and its metrics.

use super::document::PacketsLoadReport;
use crate::report::{metrics, page};
use corelane_measure::counters::Counters;
use corelane_measure::metric::Metric;
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::text::counted;

impl Measurement for PacketsLoadReport {
    const METRICS: &'static [Metric<Self>] = metrics! { run =>
        #[compared] more PerSecond "rate", "rate": "frames sent per second" = run.frames_per_s;
        more Count "sent", "sent": "frames accepted by the link" = run.counts.sent;
        less Count "unsent", "unsent": "frames on the schedule that were not sent" = run.counts.unsent;
        #[compared] less Count "dropped", "dropped": "frames not sent"
            = <u64 as Counters>::sum(run.counts.dropped.values());
        more Bytes "bytes", "bytes": "bytes of frames sent, without frame check sequence" = run.counts.sent_bytes;
        less Count "waits", "waits": "times the link was full" = run.counts.waits_for_room;
        less Count "cut_short", "cut short": "frames sent truncated, as captured" = run.counts.sent_cut_short;
        less Nanoseconds "lag_p50", "lag p50": "median schedule lag" = run.schedule_lag.map(|lag| lag.p50_ns);
        #[compared] less Nanoseconds "lag_p99", "lag p99": "99th percentile schedule lag"
            = run.schedule_lag.map(|lag| lag.p99_ns);
        less Nanoseconds "lag_max", "lag max": "maximum schedule lag" = run.schedule_lag.map(|lag| lag.max_ns);
    };

    fn described(&self) -> Page {
        let rate = quantity::or_missing(self.frames_per_s, quantity::rate);
        let (frames, bytes) = (
            quantity::count(self.counts.sent),
            quantity::bytes(self.counts.sent_bytes),
        );
        let took = quantity::duration(self.sending_s * 1e9);
        let streams = self.streams.iter().filter(|_| self.streams.len() > 1);
        let streams = streams.map(|stream| {
            let sent = quantity::count(stream.sent);
            format!("{} from CPU {}: {sent}", stream.queue, stream.cpu)
        });
        let lag = self.schedule_lag.as_ref().map(|lag| {
            let [p50, p99, max] =
                [lag.p50_ns, lag.p99_ns, lag.max_ns].map(|time| quantity::duration(time as f64));
            format!("behind schedule: median {p50}, p99 {p99}, maximum {max}")
        });
        let counts = [
            ("on schedule, unsent".to_owned(), self.counts.unsent),
            (
                "sent cut short, as captured".to_owned(),
                self.counts.sent_cut_short,
            ),
        ];
        let dropped =
            (self.counts.dropped.iter()).map(|(reason, count)| (format!("not sent, {reason}"), *count));
        let counts = counts.into_iter().chain(dropped).filter(|(_, count)| *count > 0);
        let section = Section::new("")
            .note(format!(
                "{}: {frames} frames, {bytes} in {took}: {rate}",
                self.link
            ))
            .notes(streams)
            .notes(lag)
            .notes(counts.map(|(what, count)| format!("{what}: {}", quantity::count(count))))
            .notes(
                self.faults
                    .as_ref()
                    .map(|faults| format!("faults of {}: {}", self.link, counted(faults))),
            );
        let rate = quantity::or_missing(self.frames_per_s, |rate| quantity::rate_of(rate, "frames"));
        let headline = format!("{rate} to {}", self.link);
        let outcome = (&self.outcome, "limited by ");
        page(("Packet load", headline), None, section, outcome)
    }
}
