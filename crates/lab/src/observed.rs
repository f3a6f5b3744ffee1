//! What was observed while a step was measured: where the CPUs' time went, which kernel locks were waited for, and what
//! each CPU's receive path did.
//!
//! In: what `observe` saw, in its own types, which are the document's. Out: the tables that the posts read: pmcstat's
//! functions, FreeBSD's lock statistics, the workstreams of `netstat -Q`. Times are nanoseconds in the document and
//! microseconds in the lock table, as in the post.

use crate::columns::{number, plain, words};
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_observe::locks::{LockReport, LockSite, SpinCoverage};
use corelane_observe::profile::{CallerShare, FunctionShare, FunctionTable, Profile};
use corelane_observe::softnet::{SoftnetReport, SoftnetRow};
use corelane_report::page::{Page, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Cell, Column, Table};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A caller with less of the samples, in percent, would read 0.0 at the one decimal of pmcstat.
const LEAST_CALLER_SHOWN: f64 = 0.05;

/// The observations of one trial. Each part is `None` if it was not requested, or was not available: then
/// [`Observed::unknown`] has the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// The round of the trial.
    pub round: usize,
    /// Where the CPUs' time went.
    pub profile: Option<Profile>,
    /// Which kernel locks were waited for.
    pub locks: Option<LockReport>,
    /// What the receive paths did.
    pub softnet: Option<SoftnetReport>,
    /// Why a requested part is null: `profile`, `locks` or `softnet` to the reason, which says what to allow.
    pub unknown: BTreeMap<String, String>,
}

/// The first `rows` functions in the columns of pmcstat.
pub(crate) fn functions(functions: &FunctionTable, rows: usize) -> Table {
    let share = |row: &FunctionShare| Some(row.samples_percent);
    let name = |header: &str| Column::left(header).may_shrink();
    let columns = [
        number(Column::right("%SAMP"), Show::Fixed(1), share),
        Reading::new(name("IMAGE"), |row: &FunctionShare| row.image.clone()),
        Reading::new(name("FUNCTION"), |row: &FunctionShare| row.function.clone()),
        Reading::new(name("CALLERS"), callers),
    ];
    table(columns, functions.rows.iter().take(rows))
}

/// The callers as pmcstat writes them: a lone one without its share.
pub(crate) fn callers(function: &FunctionShare) -> String {
    if let [only] = function.callers.as_slice() {
        return only.function.clone();
    }
    let shown = function.callers.iter();
    let shown = shown.filter(|caller| caller.samples_percent >= LEAST_CALLER_SHOWN);
    let part = |caller: &CallerShare| {
        let share = quantity::fixed(caller.samples_percent, 1);
        format!("{}:{share}", caller.function)
    };
    shown.map(part).collect::<Vec<_>>().join(" ")
}

/// One line over the table: how much was waited, and how much of it for sockets' receive locks.
pub(crate) fn locks_headline(locks: &LockReport) -> String {
    let cpus = locks.cpus.len();
    let nobody = "nobody waited for a socket's receive lock";
    let receive = match locks.receive_lock_waits {
        0 if locks.spin_coverage == SpinCoverage::Every => nobody.to_owned(),
        0 => format!("{nobody}, as far as this kernel reports such waits"),
        waits => format!(
            "a socket's receive lock was waited for {} times ({} % of that time)",
            quantity::count(waits),
            quantity::fixed(locks.receive_lock_percent, 2)
        ),
    };
    format!(
        "{} waits, {} % of the time of {cpus} CPU{}; {receive}",
        quantity::count(locks.waits),
        quantity::fixed(locks.wait_percent, 2),
        if cpus == 1 { "" } else { "s" },
    )
}

/// The first `rows` places, and sockets' receive locks wherever they rank, in the columns of FreeBSD's lock statistics.
pub(crate) fn locks(locks: &LockReport, rows: usize) -> Table {
    let time = |header: &str, of: fn(&LockSite) -> Option<u64>| {
        Reading::new(Column::right(header).unit("us"), move |site: &LockSite| {
            let nanoseconds = of(site).map(|time| time as f64);
            Cell::shown(nanoseconds, |time| quantity::fixed(time / 1e3, 1))
        })
    };
    let columns = [
        time("max", |site| site.max_ns),
        time("wait_max", |site| Some(site.wait_max_ns)),
        time("total", |site| site.total_ns),
        time("wait_total", |site| Some(site.wait_total_ns)),
        plain("count", |site: &LockSite| site.count as usize),
        time("avg", |site| site.avg_ns),
        time("wait_avg", |site| Some(site.wait_avg_ns)),
        Reading::new(Column::left("name").may_shrink(), |site: &LockSite| {
            site.name.clone()
        }),
    ];
    let ranked = locks.rows.iter().enumerate();
    let shown = ranked.filter(|(rank, site)| *rank < rows || site.receive_lock);
    table(columns, shown.map(|(_, site)| site))
}

/// The columns of `netstat -Q`'s workstreams, and three of Linux's own behind them. `Disp'd`, `HDisp'd` and `Queued`
/// are not counted by Linux.
pub(crate) fn receive_paths(softnet: &SoftnetReport) -> Table {
    type Row = SoftnetRow;
    let maybe = |header: &str, of: fn(&Row) -> Option<u64>| {
        let number_of = move |row: &Row| of(row).map(|number| number as f64);
        number(Column::right(header), Show::Fixed(0), number_of)
    };
    let columns = [
        plain("WSID", |row: &Row| row.cpu as usize),
        plain("CPU", |row: &Row| row.cpu as usize),
        words("Name", |_: &Row| "backlog"),
        maybe("Len", |row| row.backlog),
        maybe("WMark", |row| row.backlog_high_water),
        maybe("Disp'd", |_| None),
        maybe("HDisp'd", |_| None),
        plain("QDrops", |row: &Row| row.dropped as usize),
        maybe("Queued", |_| None),
        plain("Handled", |row: &Row| row.processed as usize),
        plain("Squeezed", |row: &Row| row.squeezed as usize),
        plain("RPS", |row: &Row| row.received_rps as usize),
        plain("FlowLimit", |row: &Row| row.flow_limit as usize),
    ];
    table(columns, &softnet.rows)
}

/// As many functions as the post shows of its server (ten) and of its receive threads (thirteen), at most; the document
/// has more.
const FUNCTIONS_SHOWN: usize = 10;

/// Places of waiting that are shown: the post shows nine, of which one matters.
const LOCKS_SHOWN: usize = 6;

impl Observed {
    /// What a reader of the tables should know: why columns are empty, and what was lost.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.profile.iter().flat_map(|profile| profile.notes.clone()));
        if let Some(locks) = &self.locks {
            lines.extend(locks.notes.clone());
            lines.extend(reasons(&locks.unknown));
        }
        lines.extend(self.softnet.iter().flat_map(|softnet| reasons(&softnet.unknown)));
        lines
    }

    /// The tables of one step.
    pub(crate) fn sections(&self, title: &str, page: &mut Page) {
        if self.profile.is_some() || self.locks.is_some() || self.softnet.is_some() {
            page.section(Section::heading(title));
        }
        if let Some(profile) = &self.profile {
            let tables = [&profile.workers, &profile.softirq, &profile.clients];
            for (whose, functions) in ["workers", "softirq", "clients"].into_iter().zip(tables) {
                // As pmcstat writes it.
                let section = Section::new(format!(
                    "{whose} [{}] Samples: {}, {} unresolved",
                    profile.event.name(),
                    functions.samples,
                    functions.unresolved_samples
                ));
                let table = self::functions(functions, FUNCTIONS_SHOWN);
                // The generator's own functions stand on the page alone: the posts look at the server.
                page.section(match whose {
                    "clients" => section.page_table(table),
                    _ => section.table(table),
                });
            }
        }
        if let Some(locks) = &self.locks {
            let section = Section::new("").labelled("kernel locks: ", locks_headline(locks));
            page.section(section.table(self::locks(locks, LOCKS_SHOWN)));
        }
        if let Some(softnet) = &self.softnet {
            let table = receive_paths(softnet);
            page.section(Section::new("receive path of each CPU").table(table));
        }
    }
}

/// `avg_ns, max_ns: why they are null`, a line per reason.
pub(crate) fn reasons<'a>(unknown: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    let mut fields_by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (field, reason) in unknown {
        fields_by_reason.entry(reason).or_default().insert(field);
    }
    let line = |(reason, fields): (&str, BTreeSet<&str>)| {
        let fields: Vec<&str> = fields.into_iter().collect();
        format!("{}: {reason}", fields.join(", "))
    };
    fields_by_reason.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_the_table_of_pmcstat() {
        let caller = |function: &str, samples_percent| CallerShare {
            function: function.to_owned(),
            samples_percent,
        };
        let row = |samples_percent, function: &str, callers| FunctionShare {
            samples_percent,
            image: "kernel".to_owned(),
            function: function.to_owned(),
            callers,
        };
        let table = FunctionTable {
            rows: vec![
                row(
                    8.1,
                    "fget_unlocked",
                    vec![
                        caller("kern_sendit", 4.2),
                        caller("kern_recvit", 3.9),
                        caller("fdrop", 0.01),
                    ],
                ),
                row(3.6, "__mtx_unlock_flags", vec![caller("ixgbe_mq_start", 3.6)]),
            ],
            ..FunctionTable::default()
        };
        let expected = "\
%SAMP  IMAGE   FUNCTION            CALLERS
  8.1  kernel  fget_unlocked       kern_sendit:4.2 kern_recvit:3.9
  3.6  kernel  __mtx_unlock_flags  ixgbe_mq_start
";
        assert_eq!(functions(&table, 10).render(100), expected);
    }

    #[test]
    fn holding_times_that_are_not_known_show_as_missing() {
        let locks = LockReport {
            rows: vec![LockSite {
                wait_max_ns: 12_340,
                wait_total_ns: 1_500_000,
                count: 300,
                wait_avg_ns: 5_000,
                name: "__udp_enqueue_schedule_skb (spin lock)".to_owned(),
                ..LockSite::default()
            }],
            ..LockReport::default()
        };
        let expected = "\
max  wait_max  total  wait_total  count  avg  wait_avg  name
 us        us     us          us          us        us
  -      12.3      -      1500.0    300    -       5.0  __udp_enqueue_schedule_skb (spin lock)
";
        assert_eq!(super::locks(&locks, 10).render(100), expected);
    }

    #[test]
    fn the_receive_lock_is_shown_wherever_it_ranks() {
        let row = |name: &str, receive_lock| LockSite {
            name: name.to_owned(),
            receive_lock,
            ..LockSite::default()
        };
        let locks = LockReport {
            rows: vec![
                row("first", false),
                row("second", false),
                row("__skb_recv_udp", true),
            ],
            ..LockReport::default()
        };
        let text = super::locks(&locks, 1).render(100);
        assert!(
            text.contains("first") && text.contains("__skb_recv_udp"),
            "{text}"
        );
        assert!(!text.contains("second"), "{text}");
    }

    #[test]
    fn a_quiet_receive_lock_is_said_to_be_quiet() {
        let locks = LockReport {
            cpus: vec![0, 1],
            spin_coverage: SpinCoverage::Every,
            ..LockReport::default()
        };
        assert_eq!(
            locks_headline(&locks),
            "0 waits, 0.00 % of the time of 2 CPUs; nobody waited for a socket's receive lock"
        );
    }
}
