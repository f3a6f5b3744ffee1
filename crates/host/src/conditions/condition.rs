//! One condition, and its effect on a result.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// The effect of a condition on a result, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The result is invalid.
    Spoils,
    /// The result is valid, but comparable only with results under the same condition.
    Explains,
    /// No effect.
    Fine,
}

impl Severity {
    /// This severity if `so`, otherwise fine.
    pub(super) fn when(self, so: bool) -> Self {
        if so { self } else { Severity::Fine }
    }

    /// The severity of an amount, given the bounds from which it spoils or explains.
    pub(super) fn from_bounds(amount: f64, spoils: f64, explains: f64) -> Self {
        match amount {
            amount if amount >= spoils => Severity::Spoils,
            amount => Severity::Explains.when(amount >= explains),
        }
    }
}

/// One condition of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The name, such as `turbo` or `flow control of eth0`. Stable between versions.
    pub name: String,
    /// The value; `None` if it could not be read.
    pub value: Option<String>,
    /// The effect on a result. An unknown value explains, because it cannot be ruled out; unknown temperature, fans and
    /// power do not, because throttling shows their effect.
    pub severity: Severity,
    /// Why it matters.
    #[serde(default)]
    pub why: String,
    /// The fix, if there is one.
    #[serde(rename = "mend")]
    pub fix: Option<String>,
    /// The file or interface it was read from.
    #[serde(default)]
    pub source: String,
    /// Why the value is unknown.
    pub unknown_because: Option<String>,
}

/// The parts of a condition that do not depend on its value.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) why: &'a str,
    /// The fix if the condition affects a result; empty if there is none.
    pub(crate) fix: &'a str,
}

impl About<'_> {
    /// The condition for a value and its severity, or for the reason why it is unknown.
    pub(crate) fn found(self, found: Result<(impl Display, Severity), impl Display>) -> Condition {
        let (value, severity, unknown_because) = match found {
            Ok((value, severity)) => (Some(value.to_string()), severity, None),
            Err(because) => (None, Severity::Explains, Some(because.to_string())),
        };
        let fixable = value.is_some() && severity != Severity::Fine && !self.fix.is_empty();
        Condition {
            name: self.name.to_owned(),
            value,
            severity,
            why: self.why.to_owned(),
            fix: fixable.then(|| self.fix.to_owned()),
            source: self.source.to_owned(),
            unknown_because,
        }
    }
}
