//! `corelane key audit`: a key and flows enter; what is wrong with them leaves.

use super::traffic::{self, TrafficArguments};
use crate::outcome::{Done, Outcome};
use crate::shared::RuleArguments;
use crate::steering;
use clap::Args;
use corelane_measure::quantity::count;
use corelane_report::table::{Column, Table};
use corelane_rss::audit::{self, Audit, Imbalance, Severity};
use corelane_rss::{HashFields, Steering};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:
  corelane key audit --buckets 4
  \
    corelane key audit --buckets 8 --clients 10.11.0.0/24 --server 10.11.2.1:80 --json
\
    Exit code 1 when the key should not be used.";

#[derive(Debug, Args)]
pub struct AuditArguments {
    #[command(flatten)]
    rule: RuleArguments,
    /// What is hashed
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    hash: HashFields,
    /// A steering document, instead of key, table, buckets and fields
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash"])]
    steering: Option<PathBuf>,
    /// The key is meant to be symmetric: allow what that costs, and fail if it is not
    #[arg(long)]
    symmetric: bool,
    #[command(flatten)]
    traffic: TrafficArguments,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct AuditDocument {
    schema: &'static str,
    hash_fields: HashFields,
    table_size: usize,
    #[serde(flatten)]
    audit: Audit,
    traffic: String,
    imbalance: Imbalance,
    passes: bool,
}

/// Audits, prints, and fails when the key should not be used.
pub fn run(arguments: &AuditArguments) -> Outcome {
    let rule = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => steering::without_cpus(&arguments.rule, arguments.hash)?,
    };
    let audit = audit::audit(&rule.key, rule.hash_fields, &rule.table, arguments.symmetric);
    let (traffic, imbalance) = traffic::imbalance(&arguments.traffic, &rule)?;
    let document = AuditDocument {
        schema: "corelane/key-audit/1",
        hash_fields: rule.hash_fields,
        table_size: rule.table.size(),
        passes: audit.passes() && imbalance.worst_deviations <= Imbalance::SUSPICIOUS,
        audit,
        traffic,
        imbalance,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        print(&mut out, &document, &rule)?;
    }
    if !document.passes {
        anyhow::bail!("the key does not pass: corelane key generate makes one that does");
    }
    Ok(Done)
}

fn print(out: &mut impl Write, document: &AuditDocument, rule: &Steering) -> io::Result<()> {
    let audit = &document.audit;
    let yes = |value: bool| if value { "yes" } else { "no" };
    let period = audit
        .period
        .map_or("none".to_owned(), |bits| format!("{bits} bits"));
    writeln!(out, "key {}", audit.key)?;
    writeln!(
        out,
        "{} bytes, {:.1} % ones, entropy {:.2} bits a byte of {:.2}, period {period}",
        audit.bytes,
        100.0 * audit.ones,
        audit.entropy_bits_per_byte,
        audit.entropy_possible
    )?;
    writeln!(
        out,
        "hash of {} independent bits, {} in the table; symmetric: IPv4 {}, IPv6 {}",
        audit.hash_rank,
        audit.table_bits,
        yes(audit.symmetric_ipv4),
        yes(audit.symmetric_ipv6)
    )?;
    let mut fields = Table::new(vec![
        Column::left("field"),
        Column::right("bits"),
        Column::right("rank"),
        Column::right("possible"),
    ]);
    for field in &audit.fields {
        let name = format!("{} {}", field.family, field.field);
        fields.row([
            name,
            field.input_bits.to_string(),
            field.rank.to_string(),
            field.possible.to_string(),
        ]);
    }
    write!(out, "\n{}", fields.render(100))?;
    print_imbalance(out, document, rule)?;
    for finding in &audit.findings {
        let mark = if finding.severity == Severity::Failure {
            "FAIL"
        } else {
            "note"
        };
        writeln!(out, "{mark}  {}", finding.what)?;
    }
    if document.imbalance.worst_deviations > Imbalance::SUSPICIOUS {
        writeln!(
            out,
            "FAIL  chance does not explain the fullest bucket: these flows and this key do not go together"
        )?;
    }
    writeln!(
        out,
        "{}",
        if document.passes {
            "the key passes"
        } else {
            "the key does not pass"
        }
    )
}

fn print_imbalance(out: &mut impl Write, document: &AuditDocument, rule: &Steering) -> io::Result<()> {
    let imbalance = &document.imbalance;
    writeln!(
        out,
        "\n{} over {} buckets:\n  fullest {:.3} of the mean, {:.1} deviations above its share",
        document.traffic,
        rule.table.buckets(),
        imbalance.fullest_over_mean,
        imbalance.worst_deviations
    )?;
    for bucket in imbalance.buckets.iter().take(SHOWN) {
        writeln!(
            out,
            "  bucket {:>3} {:>11} flows",
            bucket.bucket.index(),
            count(bucket.flows)
        )?;
    }
    if imbalance.buckets.len() > SHOWN {
        writeln!(out, "  … (--json has all)")?;
    }
    writeln!(out)
}

/// Buckets shown one by one.
const SHOWN: usize = 16;
