use super::*;

struct Trial {
    rate: f64,
    right: Share,
    times: Histogram,
}

static RATE: Metric<Trial> = Metric::more("rate_pps", "rate", Show::PerSecond)
    .read(|trial: &Trial| Some(Sample::Number(trial.rate)))
    .spread("rate_spread");
static RIGHT: Metric<Trial> =
    Metric::more("right", "right", Show::Share).read(|trial: &Trial| Some(Sample::Share(trial.right)));
static TRIP: Metric<Trial> = Metric::less("trip", "trip", Show::Nanoseconds)
    .read(|trial: &Trial| Some(Sample::Durations(&trial.times)));
static LINEARITY: Metric<Trial> = Metric::more("linearity", "linearity", Show::Fixed(2));

fn filled() -> Values {
    let trial = |rate, hits| {
        let mut times = Histogram::new();
        times.record(hits);
        Trial {
            rate,
            right: Share { hits, samples: 10 },
            times,
        }
    };
    let trials = [trial(1.0, 10), trial(3.0, 5), trial(2.0, 0)];
    let mut values = Values::default();
    values.fill(
        &[&RATE, &RIGHT, &TRIP, &LINEARITY],
        &trials.iter().collect::<Vec<_>>(),
    );
    values
}

#[test]
fn trials_are_combined_by_what_they_give() {
    let values = filled();
    assert_eq!(RATE.of(&values), Some(2.0));
    assert_eq!(RATE.range(&values).map(|spread| spread.maximum), Some(3.0));
    assert_eq!(RIGHT.of(&values), Some(0.5));
    assert_eq!(TRIP.durations(&values).map(|trip| trip.count), Some(3));
    assert_eq!(LINEARITY.of(&values), None);
    assert!(!values.lacks("linearity") && values.lacks("other"));
}

#[test]
fn values_are_read_as_they_are_written_and_foreign_ones_are_passed_over() {
    let values = filled();
    let text = serde_json::to_string(&values).unwrap();
    assert_eq!(serde_json::from_str::<Values>(&text).unwrap(), values);
    let foreign: Values =
        serde_json::from_str(r#"{"rate_pps": 5, "new": {"a": [1]}, "right": null}"#).unwrap();
    assert_eq!((RATE.of(&foreign), RIGHT.of(&foreign)), (Some(5.0), None));
}

#[test]
fn bounds_are_read_in_the_metrics_own_unit() {
    assert_eq!(Show::Nanoseconds.parse("5ms"), Some(5e6));
    assert_eq!(Show::Microseconds(2).parse("5ms"), Some(5e3));
    assert_eq!(Show::Share.parse("50%"), Some(0.5));
    assert_eq!(Show::Share.parse("0.5"), Some(0.5));
    assert_eq!(Show::PerSecond.parse("10k"), Some(1e4));
    assert_eq!(Show::Bytes.parse("64KiB"), Some(65_536.0));
    assert_eq!(Show::Count.parse("many"), None);
}
