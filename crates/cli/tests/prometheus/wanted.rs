//! What the expressions of the dashboard are to give, and how that is compared with what they gave.

use super::WINDOW_S;
use std::collections::BTreeMap;

/// What an expression is to give, for one set of labels.
#[derive(Debug)]
pub enum Expected {
    /// This value, within this share of it.
    Value(f64, f64),
    /// An increase of this count, within a tenth.
    Increase(f64),
    /// An increase of at most this count: the first occurrence of a cause is none.
    AtMost(f64),
}

impl Expected {
    fn holds(&self, found: f64) -> bool {
        let near =
            |found: f64, wanted: f64, share: f64| (found - wanted).abs() <= wanted.abs() * share + 1e-9;
        match *self {
            Self::Value(wanted, share) => near(found, wanted, share),
            Self::Increase(wanted) => near(found * WINDOW_S, wanted, 0.1),
            Self::AtMost(most) => found * WINDOW_S <= most * 1.1,
        }
    }
}

/// The results of expressions: values by labels.
pub type Results = BTreeMap<String, BTreeMap<String, f64>>;

/// What expressions are to give, by labels.
#[derive(Default)]
pub struct Wanted(BTreeMap<String, Vec<(String, Expected)>>);

impl Wanted {
    /// Of an expression over `corelane_METRIC`, which the dashboard may combine with others.
    pub fn add(&mut self, expression: &str, labels: &str, expected: Expected) {
        let rows = self.0.entry(expression.to_owned()).or_default();
        rows.push((labels.to_owned(), expected));
    }

    pub fn rate(&mut self, by: &str, metric: &str, labels: &str, expected: Expected) {
        self.add(
            &format!("sum by ({by}) (rate(corelane_{metric}))"),
            labels,
            expected,
        );
    }

    /// Rates by the names of counts in fields of the buckets of a report.
    pub fn by_name(
        &mut self,
        name: &str,
        metric: &str,
        counts: &BTreeMap<String, f64>,
        of: fn(f64) -> Expected,
    ) {
        for (labels, count) in counts {
            self.rate(&format!("instance, {name}"), metric, labels, of(*count));
        }
    }

    /// Compares the results; every result must be expected, and unless nothing occurred, vice versa.
    pub fn compare(&self, mut found: Results) {
        for (expression, rows) in &self.0 {
            let found = found.remove(expression);
            let found = found.unwrap_or_else(|| panic!("the dashboard lacks {expression}"));
            // Such as of a metric that no process has.
            assert!(!found.is_empty(), "{expression} gives nothing");
            for (labels, expected) in rows {
                let may_be_absent = matches!(expected, Expected::AtMost(0.0));
                let value = found.get(labels).copied();
                let holds = value.map_or(may_be_absent, |value| expected.holds(value));
                assert!(holds, "{expression}: '{labels}' is not {expected:?}: {found:?}");
            }
            let known = |labels: &String| rows.iter().any(|(row, _)| row == labels);
            assert!(found.keys().all(known), "{expression}: not expected: {found:?}");
        }
        assert!(found.is_empty(), "nothing is expected of {found:?}");
    }
}
