//! Renders declared metrics in Prometheus's text format, version 0.0.4.

use corelane_measure::metric::Metric;
use std::fmt::Write;

/// Labels of a sample: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// Appends one metric with one sample per labelled object. A metric whose name ends in `_total` is a counter, any other
/// a gauge. An object without a value gets no sample.
pub fn expose<'a, T: 'a>(
    text: &mut String,
    prefix: &str,
    metric: &Metric<T>,
    of: impl IntoIterator<Item = (Labels, &'a T)>,
) {
    let name = format!("{prefix}_{}", metric.name);
    let kind = match name.ends_with("_total") {
        true => "counter",
        false => "gauge",
    };
    // Writing into a string does not fail.
    let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.about);
    for (labels, thing) in of {
        let labels = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let labels: Vec<String> = labels.collect();
        for value in metric.numbers([thing]) {
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::metric::{Sample, Show};

    #[test]
    fn a_metric_has_its_kind_its_help_and_a_sample_of_each_thing_that_gives_it() {
        let metric: Metric<Option<u64>> = Metric::explaining("frames_total", "frames", Show::Count)
            .about("Frames.")
            .read(|frames: &Option<u64>| frames.map(|frames| Sample::Number(frames as f64)));
        let things = [Some(1_000_000_000_000), None, Some(0)];
        let named =
            ["a", "b", "c\"\\\n"].map(|name| vec![("link", name.to_owned()), ("kind", "x".to_owned())]);
        let mut text = String::new();
        expose(&mut text, "test", &metric, named.into_iter().zip(&things));
        let expected = "# HELP test_frames_total Frames.\n# TYPE test_frames_total counter\n\
                        test_frames_total{link=\"a\",kind=\"x\"} 1000000000000\n\
                        test_frames_total{link=\"c\\\"\\\\\\n\",kind=\"x\"} 0\n";
        assert_eq!(text, expected);
    }
}
