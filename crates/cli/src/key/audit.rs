//! `corelane key audit`: reports the defects of a key and the distribution of flows.

use super::traffic::{self, TrafficArguments};
use crate::capture::Unused;
use crate::outcome::Outcome;
use crate::shared::{JsonArgument, print};
use crate::steering::{HashRule, HashRuleArguments};
use crate::terminal::width;
use crate::values::mixing;
use clap::Args;
use corelane_measure::quantity::count;
use corelane_report::table::Rows;
use corelane_rss::audit::{self, Audit, Imbalance, Severity};
use corelane_rss::{HashFields, Transform};
use serde::Serialize;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane key audit --buckets 4\n  \
    corelane key audit --buckets 8 --clients 10.11.0.0/24 --server 10.11.2.1:80 --json\n\
    Exit code 1 if the key should not be used.";

/// Audit which inputs a key's hash distinguishes, and how it distributes flows
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AuditArguments {
    #[command(flatten)]
    rule: HashRuleArguments,
    /// Fields to hash [default: 4tuple]
    #[arg(long, value_name = "2tuple|4tuple")]
    hash: Option<HashFields>,
    /// Require a symmetric key: accept the weaknesses that symmetry implies, and fail if the key is not symmetric
    #[arg(long)]
    symmetric: bool,
    #[command(flatten)]
    traffic: TrafficArguments,
    #[command(flatten)]
    json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/key-audit/1")]
struct AuditDocument {
    hash_fields: HashFields,
    table_size: usize,
    transform: Transform,
    #[serde(flatten)]
    audit: Audit,
    traffic: String,
    #[serde(flatten)]
    unused: Unused,
    imbalance: Imbalance,
    passes: bool,
}

/// Audits and prints. Returns an error if the key should not be used.
pub fn run(arguments: &AuditArguments) -> Outcome {
    let HashRule {
        steering: rule,
        transform,
    } = arguments.rule.rule(arguments.hash, HashFields::FourTuple)?;
    let audit = audit::audit(
        &rule.key,
        rule.hash_fields,
        &rule.table,
        arguments.symmetric,
        transform,
    );
    let (traffic, unused, imbalance) = traffic::imbalance(&arguments.traffic, &rule, transform)?;
    let document = AuditDocument {
        hash_fields: rule.hash_fields,
        table_size: rule.table.size(),
        transform,
        passes: audit.passes() && imbalance.worst_deviations <= Imbalance::SUSPICIOUS,
        audit,
        traffic,
        unused,
        imbalance,
    };
    print(arguments.json, &document, |document| {
        text(document, rule.table.buckets())
    })?;
    if !document.passes {
        anyhow::bail!("the key does not pass: run corelane key generate for one that passes");
    }
    Ok(())
}

fn text(document: &AuditDocument, buckets: usize) -> String {
    let AuditDocument { audit, imbalance, .. } = document;
    let [ipv4, ipv6] = [audit.symmetric_ipv4, audit.symmetric_ipv6].map(|is| if is { "yes" } else { "no" });
    let period = audit
        .period
        .map_or("none".to_owned(), |bits| format!("{bits} bits"));
    let (entropy, possible) = (audit.entropy_bits_per_byte, audit.entropy_possible);
    let fields = Rows::of(&audit.fields)
        .left("field", |field| format!("{} {}", field.family, field.field))
        .right("bits", |field| field.input_bits.to_string())
        .right("rank", |field| field.rank.to_string())
        .right("possible", |field| field.possible.to_string())
        .table();
    let mut lines = vec![
        format!("key {}{}", audit.key, mixing(document.transform)),
        format!(
            "{} bytes, {:.1} % ones, entropy {entropy:.2} of {possible:.2} bits per byte, period {period}",
            audit.bytes,
            100.0 * audit.ones
        ),
        format!(
            "hash of {} independent bits, {} in the table; symmetric: IPv4 {ipv4}, IPv6 {ipv6}\n",
            audit.hash_rank, audit.table_bits
        ),
        fields.render(width().tables),
        format!("{} over {buckets} buckets:", document.traffic),
        format!(
            "  fullest bucket {:.3} of the mean, {:.1} standard deviations above its share",
            imbalance.fullest_over_mean, imbalance.worst_deviations
        ),
    ];
    lines.extend(imbalance.buckets.iter().take(SHOWN).map(|bucket| {
        let (number, flows) = (bucket.bucket.index(), count(bucket.flows));
        format!("  bucket {number:>3} {flows:>11} flows")
    }));
    if imbalance.buckets.len() > SHOWN {
        lines.push("  … (--json has all)".to_owned());
    }
    lines.extend(document.unused.text().lines().map(str::to_owned));
    lines.push(String::new());
    lines.extend(audit.findings.iter().map(|finding| {
        let failure = finding.severity == Severity::Failure;
        format!("{}  {}", if failure { "FAIL" } else { "note" }, finding.what)
    }));
    if imbalance.worst_deviations > Imbalance::SUSPICIOUS {
        let what = "the fullest bucket is not explained by chance: this key distributes these flows unevenly";
        lines.push(format!("FAIL  {what}"));
    }
    let verdict = match document.passes {
        true => "the key passes\n",
        false => "the key does not pass\n",
    };
    lines.push(verdict.to_owned());
    lines.join("\n")
}

/// Buckets listed in the text; the JSON document has all.
const SHOWN: usize = 16;
