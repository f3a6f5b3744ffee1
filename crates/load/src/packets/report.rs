//! Text report of a packet run, and its metrics.

use super::document::PacketsLoadReport;
use crate::report::{Ended, page, percentile, time};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::text::counted;

impl Measurement for PacketsLoadReport {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::more("rate", "rate", Show::PerSecond)
            .about("frames sent per second")
            .read(|run| run.frames_per_s.map(Sample::Number)),
        Metric::more("sent", "sent", Show::Count)
            .about("frames accepted by the link")
            .read(|run| Sample::count(run.sent)),
        Metric::less("unsent", "unsent", Show::Count)
            .about("frames on the schedule that were not sent")
            .read(|run| Sample::count(run.unsent)),
        Metric::less("dropped", "dropped", Show::Count)
            .about("frames not sent")
            .read(|run| Sample::count(run.dropped.values().sum())),
        Metric::more("bytes", "bytes", Show::Bytes)
            .about("bytes of frames sent, without frame check sequence")
            .read(|run| Sample::count(run.sent_bytes)),
        Metric::less("waits", "waits", Show::Count)
            .about("times the link was full")
            .read(|run| Sample::count(run.waits_for_room)),
        Metric::less("cut_short", "cut short", Show::Count)
            .about("frames sent truncated, as captured")
            .read(|run| Sample::count(run.sent_cut_short)),
        time("lag_p50", "lag p50")
            .about("median schedule lag")
            .read(|run| percentile(run.schedule_lag, |times| times.p50_ns)),
        time("lag_p99", "lag p99")
            .about("99th percentile schedule lag")
            .read(|run| percentile(run.schedule_lag, |times| times.p99_ns)),
        time("lag_max", "lag max")
            .about("maximum schedule lag")
            .read(|run| percentile(run.schedule_lag, |times| times.max_ns)),
    ];

    fn described(&self) -> Page {
        let rate = quantity::or_missing(self.frames_per_s, quantity::rate);
        let (frames, bytes) = (quantity::count(self.sent), quantity::bytes(self.sent_bytes));
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
            ("on schedule, unsent".to_owned(), self.unsent),
            ("sent cut short, as captured".to_owned(), self.sent_cut_short),
        ];
        let dropped = self
            .dropped
            .iter()
            .map(|(reason, count)| (format!("not sent, {reason}"), *count));
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
        let ended = Ended {
            interrupted: self.interrupted,
            failed_because: self.failed_because.as_deref(),
            limited: self.limited_by.as_ref().map(|why| format!("limited by {why}")),
            ..Ended::default()
        };
        page("Packet load", headline, (None, section), &ended)
    }
}
