//! Properties of everything that reads saved documents and timelines, for arbitrary text: used by tests over the kept
//! corpus and by the fuzz target. Documents may come from anyone: whatever they hold, none ends the program.

use corelane_lab::registry;
use corelane_lab::saved::RecordedTimeline;
use corelane_load::timeline::Timeline;
use corelane_report::diff::{Basis, diff};
use corelane_report::page::Rendered;
use corelane_report::text::Width;
use fastrand::Rng;
use serde_json::{Value, json};

/// Reads `text` as a document or a timeline; renders, compares and merges what can be read.
pub fn holds(text: &str) {
    if let Ok(document) = registry::read(text) {
        rendered(&*document);
        let schema = serde_json::from_str::<Value>(text).unwrap()["schema"].clone();
        if let Some(merge) = schema.as_str().and_then(registry::merge) {
            // Counts that cannot be are refused.
            let _ = merge(&[text.to_owned(), text.to_owned()]);
        }
    }
    if let Ok(timeline) = Timeline::read(text) {
        timeline.to_text().unwrap();
        rendered(&RecordedTimeline(timeline.clone()));
        if let Ok(merged) = Timeline::merged(&[timeline.clone(), timeline]) {
            rendered(&RecordedTimeline(merged));
        }
    }
}

fn rendered(document: &dyn Rendered) {
    let (page, table) = (document.page(), document.table());
    let widths = [Width::of_terminal(60), Width::USUAL, Width::UNBOUNDED];
    let texts = widths.map(|width| page.text(width) + &table.render(width.tables));
    drop((texts, page.to_markdown(), page.to_html(), table.to_csv()));
    drop((document.figures(), document.proved()));
    if let Some(run) = document.compared() {
        let compared = diff(&run, &run, Basis::Alike).unwrap();
        drop((compared.page().to_text(), compared.table().to_csv()));
    }
}

/// The document, or a line of the timeline, with one value replaced; `seed` chooses which and by what.
pub fn changed(text: &str, seed: u64) -> String {
    let mut random = Rng::with_seed(seed);
    if let Ok(mut document) = serde_json::from_str::<Value>(text) {
        change(&mut document, &mut random);
        return document.to_string();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(line) = random.choice(lines.iter_mut())
        && let Ok(mut value) = serde_json::from_str::<Value>(line)
    {
        change(&mut value, &mut random);
        *line = value.to_string();
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Replaces one value, all values alike.
fn change(document: &mut Value, random: &mut Rng) {
    let mut place = random.usize(..count(document));
    walk(document, &mut |value| {
        if place == 0 {
            replace(value, random);
        }
        place = place.wrapping_sub(1);
    });
}

fn count(document: &mut Value) -> usize {
    let mut count = 0;
    walk(document, &mut |_| count += 1);
    count
}

/// Visits a value after those in it.
fn walk(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|field| walk(field, visit)),
        _ => {}
    }
    visit(value);
}

/// Puts another value of the same kind in place of one; seldom none.
fn replace(value: &mut Value, random: &mut Rng) {
    let numbers = [
        json!(0),
        json!(1),
        json!(-1),
        json!(2.5),
        json!(70_000),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(f64::MAX),
        json!(f64::MIN_POSITIVE),
    ];
    let texts = ["", "\u{1b}[31m<a href=\"|\n&", "valid", "exact", "aligned"];
    if random.u8(..) < 16 {
        *value = Value::Null;
        return;
    }
    match value {
        Value::Null | Value::Number(_) => *value = numbers[random.usize(..numbers.len())].clone(),
        Value::Bool(is) => *is = !*is,
        Value::String(text) => match random.usize(..=texts.len()) {
            place if place < texts.len() => texts[place].clone_into(text),
            _ => *text = "a long name ".repeat(6_000),
        },
        Value::Array(items) => match random.u8(..3) {
            0 => items.clear(),
            1 => items.truncate(1),
            _ => items.extend(items.clone()),
        },
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if let Some(name) = random.choice(names) {
                let removed = fields.remove(&name);
                if random.bool() {
                    fields.insert(format!("{name} too"), removed.unwrap_or_default());
                }
            }
        }
    }
}
