//! The conditions of a run, as other rooms wrote them into a document.
//!
//! In: the host's snapshot as JSON. Out: its facts and conditions, worst first. Reading is lenient, because the
//! snapshot's room may add to it, and a report must be readable long after: what has another shape is left out.

use serde_json::Value;

/// How much a condition matters to the result; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The result cannot be trusted with it.
    Spoils,
    /// It could not be read, so it may be anything.
    Unknown,
    /// It explains part of the result.
    Explains,
    /// As it should be.
    Fine,
}

impl Severity {
    /// The word for tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Spoils => "spoils",
            Self::Unknown => "unknown",
            Self::Explains => "explains",
            Self::Fine => "fine",
        }
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub name: String,
    /// How it stands; `None` when unknown.
    pub value: Option<String>,
    /// Why it matters, or why it is unknown.
    pub why: String,
    /// What would mend it.
    pub mend: Option<String>,
    /// Where it was read.
    pub source: String,
}

/// The snapshot's conditions, worst first, otherwise in their own order.
#[must_use]
pub fn worst_first(snapshot: &Value) -> Vec<Condition> {
    let entries = snapshot.get("conditions").and_then(Value::as_array);
    let mut found: Vec<Condition> = entries.into_iter().flatten().filter_map(condition).collect();
    found.sort_by_key(|condition| condition.severity);
    found
}

/// The machine in one line: kernel, CPU model, CPUs, virtualisation; what is missing is left out.
#[must_use]
pub fn machine(snapshot: &Value) -> String {
    let fact = |name: &str| snapshot.get(name).and_then(text).filter(|text| !text.is_empty());
    let cpus = fact("cpus_online").map(|online| match fact("cpus_allowed") {
        Some(allowed) if allowed != online => format!("{allowed} of {online} CPUs allowed"),
        _ if online == "1" => "1 CPU".to_owned(),
        _ => format!("{online} CPUs"),
    });
    let kernel = fact("kernel").map(|kernel| format!("kernel {}", kernel.trim_start_matches("Linux ")));
    let virtualisation = fact("virtualisation")
        .filter(|kind| kind != "none")
        .map(|kind| format!("virtualisation: {kind}"));
    let parts = [fact("cpu_model"), cpus, kernel, virtualisation];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn condition(entry: &Value) -> Option<Condition> {
    let fact = |name: &str| entry.get(name).and_then(text);
    let value = fact("value");
    let declared = fact("severity")?.to_ascii_lowercase();
    let severity = match declared.as_str() {
        _ if value.is_none() => Severity::Unknown,
        "spoils" => Severity::Spoils,
        "explains" => Severity::Explains,
        _ => Severity::Fine,
    };
    let unknown_because = fact("unknown_because").filter(|_| value.is_none());
    Some(Condition {
        severity,
        name: fact("name")?,
        value,
        why: unknown_because.or_else(|| fact("why")).unwrap_or_default(),
        mend: fact("mend"),
        source: fact("source").unwrap_or_default(),
    })
}

/// A value as text: strings as they are, lists by their length where they hold CPUs.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        Value::Array(entries) => Some(entries.len().to_string()),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_worst_condition_comes_first() {
        let snapshot = json!({ "conditions": [
            { "name": "governor", "value": "performance", "severity": "fine", "why": "w", "source": "s" },
            { "name": "pause", "value": null, "severity": "explains", "why": "w", "source": "s",
              "unknown_because": "veth has none" },
            { "name": "smt", "value": "on", "severity": "Explains", "why": "w", "source": "s" },
            { "name": "turbo", "value": "on", "severity": "spoils", "why": "clock moves", "mend": "off", "source": "s" },
            { "nonsense": 1 },
        ]});
        let shown: Vec<String> = worst_first(&snapshot)
            .iter()
            .map(|condition| {
                format!(
                    "{} {} {}",
                    condition.severity.word(),
                    condition.name,
                    condition.why
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "spoils turbo clock moves",
                "unknown pause veth has none",
                "explains smt w",
                "fine governor w"
            ]
        );
    }

    #[test]
    fn the_machine_is_one_line() {
        let snapshot = json!({
            "kernel": "Linux 6.18.44", "cpu_model": "Some CPU", "cpus_online": [0, 1, 2, 3], "cpus_allowed": 2,
            "virtualisation": null,
        });
        assert_eq!(
            machine(&snapshot),
            "Some CPU, 2 of 4 CPUs allowed, kernel 6.18.44"
        );
        assert_eq!(machine(&Value::Null), "");
    }
}
