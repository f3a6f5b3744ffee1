//! What reports of links with faults say of them.

use corelane_measure::quantity;
use std::collections::BTreeMap;

/// A line of what befell a link's frames; nothing for a link without faults.
pub fn line(link: &str, faults: Option<&BTreeMap<String, u64>>) -> String {
    let Some(faults) = faults else {
        return String::new();
    };
    let told: Vec<String> = faults
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(fault, count)| format!("{fault} {}", quantity::count(*count)))
        .collect();
    let told = if told.is_empty() {
        "none".to_owned()
    } else {
        told.join(", ")
    };
    format!("faults of {link}: {told}\n")
}
