//! `corelane table lookup`: looks up addresses.

use super::source::{SourceArguments, load};
use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::standard::write_lines;
use clap::Args;
use corelane_measure::quantity::MISSING;
use corelane_table::Value;
use serde::Serialize;
use std::io::{self, BufRead};
use std::net::IpAddr;
use std::path::Path;

/// Shown under `--help`.
const EXAMPLE: &str = "Examples:\n  \
    printf '198.51.100.0/24 7\\n' | corelane table lookup - 198.51.100.9 203.0.113.1\n  \
    corelane table lookup blocklist.table < addresses.txt";

/// Look up addresses by longest prefix match
///
/// Prints each address with its value: `found` if that is 0, as without a value, and `-` if the address is not in the table.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct LookupArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Addresses; if none are given, read from standard input, one per line
    pub addresses: Vec<IpAddr>,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/table-lookup/1")]
struct LookupDocument<'a> {
    matched: u64,
    answers: Vec<Answer>,
    /// The lines of standard input that are no addresses.
    refused: &'a [Refused],
}

#[derive(Serialize)]
struct Refused {
    line: u64,
    text: String,
}

#[derive(Serialize)]
struct Answer {
    address: IpAddr,
    /// Value of the longest matching prefix; `null` if none matches.
    value: Option<u16>,
}

/// Addresses per lookup batch.
const AT_ONCE: usize = 4096;

/// Prints one line per address with its value: `found` for 0, the value of an entry without one, and `-` if it is not in the table.
pub fn run(arguments: &LookupArguments) -> Outcome {
    let map = load(&arguments.source)?.map;
    let (addresses, refused) = if arguments.addresses.is_empty() {
        if arguments.source.file == Path::new("-") {
            let what =
                "standard input is used for the list: give addresses as arguments, or the list as a file";
            return Err(usage("ADDRESSES", what));
        }
        standard_input()?
    } else {
        (arguments.addresses.clone(), Vec::new())
    };
    let answers = addresses.chunks(AT_ONCE).flat_map(|addresses| {
        let values = map.values(addresses);
        addresses.iter().copied().zip(values)
    });
    if arguments.json.is_wanted() {
        let answers: Vec<Answer> = answers
            .map(|(address, value)| Answer {
                address,
                value: value.map(Value::get),
            })
            .collect();
        let matched = answers.iter().filter(|answer| answer.value.is_some()).count() as u64;
        let document = LookupDocument {
            matched,
            answers,
            refused: &refused,
        };
        print(arguments.json, &document, |_| String::new())?;
        return verdict(&refused);
    }
    write_lines(answers.map(|(address, value)| match value {
        Some(Value::MEMBER) => format!("{address} found"),
        Some(value) => format!("{address} {value}"),
        None => format!("{address} {MISSING}"),
    }));
    verdict(&refused)
}

/// An error that names every refused line.
fn verdict(refused: &[Refused]) -> Outcome {
    let line = |refused: &Refused| format!("\n  line {}: {:?}", refused.line, refused.text);
    let lines: String = refused.iter().map(line).collect();
    match refused.len() {
        0 => Ok(()),
        1 => anyhow::bail!("standard input has a line that is no address:{lines}"),
        many => anyhow::bail!("standard input has {many} lines that are no addresses:{lines}"),
    }
}

/// The addresses, and the lines that hold none.
fn standard_input() -> anyhow::Result<(Vec<IpAddr>, Vec<Refused>)> {
    let (mut addresses, mut refused) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(io::stdin().lock().lines()) {
        let text = line?;
        match text.trim() {
            "" => {}
            word => match word.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => refused.push(Refused { line: number, text }),
            },
        }
    }
    Ok((addresses, refused))
}
