//! Which frames of a capture change CPU: what `bridge --explain` prints and `report show` reads.

use corelane_measure::quantity;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::table::{Cell, Column, Rows, Table};
use corelane_stage::counted;
use corelane_stage::explain::{Cause, Explanation, FieldsExplained};
use serde::{Deserialize, Serialize};

/// The document `corelane/bridge-explain/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CaptureExplained(pub Explanation);

impl Rendered for CaptureExplained {
    fn page(&self) -> Page {
        let report = &self.0;
        let counts = [
            report.frames,
            report.flows,
            report.fragments,
            report.from_tunnels,
            report.frames.saturating_sub(report.arrived),
        ];
        let [frames, flows, fragments, tunnels, ended] = counts.map(quantity::count);
        let headline = format!(
            "{frames} frames of {flows} flows on {} buckets: {fragments} fragments, {tunnels} out of tunnels, {ended} \
             incomplete or dropped",
            report.buckets
        );
        let mut page = Page {
            subject: "Explained capture".to_owned(),
            headline: headline.clone(),
            ..Page::default()
        };
        page.section(Section::new("").text_note("", headline).table(self.table()));
        let missing = |name: &Option<String>| quantity::or_missing(name.clone(), |name| name);
        let changes = Rows::of(&report.changes)
            .right("frame", |change| change.frame.to_string())
            .left("cause", |change| change.cause.to_string())
            .right("from", |change| change.from.to_string())
            .left("hashed", |change| missing(&change.hashed))
            .right("to", |change| change.to.to_string())
            .left("hashed then", |change| missing(&change.hashed_then))
            .shrinking("flow", |change| missing(&change.flow));
        let title = format!("the first that change, hashed as {}", report.hash_types);
        page.section(Section::new(title).table(changes.table()));
        page.section(Section::new("").notes(counted(&report.stages)));
        page
    }

    fn table(&self) -> Table {
        let cause =
            |cause: Cause| move |row: &FieldsExplained| row.by_cause.get(&cause).copied().unwrap_or_default();
        let imbalance = |imbalance| Cell::shown(imbalance, |value| quantity::fixed(value, 2));
        Rows::of(&self.0.fields)
            .left("fields", |row| row.fields.as_str())
            .count("change CPU", |row| row.change)
            .count("first fragments", cause(Cause::FirstFragment))
            .count("later ones", cause(Cause::LaterFragment))
            .count("tunnels", cause(Cause::Tunnel))
            .count("entries", cause(Cause::Entry))
            .count("flows on several", |row| row.flows_on_several)
            .column(Column::right("fullest"), |row| imbalance(row.imbalance_before))
            .column(Column::right("then"), |row| imbalance(row.imbalance_after))
            .table()
    }
}
