//! `corelane plan`: which client addresses, or which source ports of one, land on which bucket.

use crate::arguments::PlanArguments;
use crate::outcome::{Done, Outcome, usage};
use crate::steering;
use corelane_load::pool::Pool;
use corelane_report::table::{Column, Table};
use corelane_rss::plan as rss_plan;
use corelane_rss::{HashFields, Steering};
use serde::Serialize;
use std::io::Write;
use std::net::IpAddr;

/// What `--json` prints.
#[derive(Serialize)]
struct PlanDocument {
    schema: &'static str,
    server: String,
    hash_fields: HashFields,
    key: String,
    table_size: usize,
    buckets: Vec<BucketPlan>,
}

/// The sources of one bucket: addresses of a pool, or ports of one address.
#[derive(Serialize)]
struct BucketPlan {
    bucket: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<IpAddr>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<u16>>,
}

/// Plans, prints, and refuses a pool that cannot reach every bucket.
pub fn run(arguments: &PlanArguments) -> Outcome {
    let default = if arguments.client.is_some() {
        HashFields::FourTuple
    } else {
        HashFields::TwoTuple
    };
    let rule = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => steering::without_cpus(&arguments.rule, arguments.hash.unwrap_or(default))?,
    };
    let limit = if arguments.all { None } else { Some(1) };
    let buckets = match (arguments.client, &arguments.clients) {
        (Some(client), _) => ports(arguments, &rule, client, limit)?,
        (None, Some(pool)) => addresses(arguments, &rule, pool, limit)?,
        (None, None) => return Err(usage("--clients", "give a pool, or one address with --client")),
    };
    let document = PlanDocument {
        schema: "corelane/plan/1",
        server: arguments.server.socket_address().to_string(),
        hash_fields: rule.hash_fields,
        key: rule.key.to_string(),
        table_size: rule.table.size(),
        buckets,
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        print_table(&mut out, &document)?;
    }
    Ok(Done)
}

fn addresses(
    arguments: &PlanArguments,
    rule: &Steering,
    pool: &Pool,
    limit: Option<usize>,
) -> anyhow::Result<Vec<BucketPlan>> {
    let server = arguments.server.socket_address();
    if rule.hash_fields == HashFields::FourTuple {
        let what = "with 4tuple hashing the address alone does not decide: plan the ports of one address with --client";
        return Err(usage("--hash", what));
    }
    let plan = rss_plan::addresses(&rule.steerer(), server, pool.addresses(), 0, limit);
    let unreached: Vec<usize> = empty(plan.buckets.iter().map(Vec::len));
    refuse(&unreached, || {
        format!("--clients: no address of {pool} lands on bucket")
    })?;
    let each = plan.buckets.into_iter().enumerate();
    Ok(each
        .map(|(bucket, addresses)| BucketPlan {
            bucket,
            addresses: Some(addresses),
            ports: None,
        })
        .collect())
}

fn ports(
    arguments: &PlanArguments,
    rule: &Steering,
    client: IpAddr,
    limit: Option<usize>,
) -> anyhow::Result<Vec<BucketPlan>> {
    if arguments.server.port.is_none() && rule.hash_fields == HashFields::FourTuple {
        return Err(usage(
            "--server",
            "4tuple hashing needs the server's port: write ADDRESS:PORT",
        ));
    }
    let (first, last) = arguments.ports;
    let plan = rss_plan::ports(
        rule,
        client,
        arguments.server.socket_address(),
        first..=last,
        limit,
    )
    .map_err(|error| usage("--client", error))?;
    let unreached: Vec<usize> = empty(plan.buckets.iter().map(Vec::len));
    refuse(&unreached, || {
        format!("--ports: no port of {client} from {first} to {last} lands on bucket")
    })?;
    let each = plan.buckets.into_iter().enumerate();
    Ok(each
        .map(|(bucket, ports)| BucketPlan {
            bucket,
            addresses: None,
            ports: Some(ports),
        })
        .collect())
}

fn empty(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .enumerate()
        .filter(|(_, length)| *length == 0)
        .map(|(bucket, _)| bucket)
        .collect()
}

fn refuse(unreached: &[usize], what: impl FnOnce() -> String) -> anyhow::Result<()> {
    if unreached.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = unreached.iter().map(usize::to_string).collect();
    Err(crate::outcome::Usage(format!("{} {}: widen it", what(), list.join(", "))).into())
}

fn print_table(out: &mut impl Write, document: &PlanDocument) -> std::io::Result<()> {
    let mut table = Table::new(vec![
        Column::right("bucket"),
        Column::right("found"),
        Column::left("sources").may_shrink(),
    ]);
    for bucket in &document.buckets {
        let sources: Vec<String> = match (&bucket.addresses, &bucket.ports) {
            (Some(addresses), _) => addresses.iter().map(IpAddr::to_string).collect(),
            (None, Some(ports)) => ports.iter().map(u16::to_string).collect(),
            (None, None) => Vec::new(),
        };
        table.row([
            bucket.bucket.to_string(),
            sources.len().to_string(),
            sources.join(" "),
        ]);
    }
    writeln!(
        out,
        "to {}, {} hashing, table of {} entries",
        document.server, document.hash_fields, document.table_size
    )?;
    write!(out, "{}", table.render(100))
}
