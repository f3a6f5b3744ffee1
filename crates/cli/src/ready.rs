//! The line that a server prints when it is ready. It has all of the steering that is not the default, so that
//! `--steering` reads it like a document.

use corelane_host::cpus::list;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::StreamsServed;
use corelane_serve::udp::Model;
use std::fmt::Display;

/// How the line begins.
const BEGINS: &str = "listening on ";

/// What the line leaves out.
const HASH: HashFields = HashFields::FourTuple;
const TABLE_SIZE: usize = 128;

/// The line of a server of connections.
pub fn of_streams<B, O>(served: &StreamsServed<B, O>) -> String {
    of_streams_on(served, served.address)
}

/// The line of a server of connections that does not listen at the address of its document.
pub fn of_streams_on<B, O>(served: &StreamsServed<B, O>, address: impl Display) -> String {
    let engine = (&served.engine, served.engine_reason.as_ref());
    listening(address, engine, &served.steering, Model::Exact)
}

/// The line: address, engine, buckets and steering; a second one if the requested engine is not used. `--dry-run` prints
/// the steering document.
pub fn listening(
    address: impl Display,
    (engine, reason): (&String, Option<&String>),
    steering: &Steering,
    model: Model,
) -> String {
    let reason = reason.map_or_else(String::new, |reason| format!("({reason})\n"));
    let (buckets, cpus) = (steering.table.buckets(), cpus(&steering.cpus));
    let buckets = match buckets {
        1 => "1 bucket".to_owned(),
        buckets => format!("{buckets} buckets"),
    };
    let on = if cpus.contains(['-', ',']) { "CPUs" } else { "CPU" };
    let mut line = format!("{BEGINS}{address}, engine {engine}, {buckets} on {on} {cpus}");
    if model != Model::Exact {
        line += &format!(", model {model}");
    }
    if steering.key != Key::VERIFICATION {
        line += &format!(", key {}", steering.key);
    }
    if steering.hash_fields != HASH {
        line += &format!(", hash {}", steering.hash_fields);
    }
    let (size, buckets) = (steering.table.size(), steering.table.buckets());
    if IndirectionTable::round_robin(size, buckets).as_ref() != Ok(&steering.table) {
        line += &format!(", own table of {size} entries");
    } else if size != TABLE_SIZE {
        line += &format!(", table of {size} entries");
    }
    format!("{line}\n{reason}")
}

/// The CPUs, as ranges if buckets take them round robin, else one by one.
fn cpus(cpus: &[u32]) -> String {
    let ranges = list::format(cpus);
    match in_order(&ranges, cpus.len()).as_deref() {
        Some(same) if same == cpus => ranges,
        _ => cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

/// The CPU of each bucket.
fn in_order(cpus: &str, buckets: usize) -> Option<Vec<u32>> {
    let parts: Option<Vec<Vec<u32>>> = cpus.split(',').map(list::parse).collect();
    let cpus = parts?.concat();
    Some(cpus.into_iter().cycle().take(buckets).collect())
}

/// The steering of the first such line in a text; `None` if there is none.
///
/// # Errors
/// Why the line does not determine it.
pub fn steering(text: &str) -> Option<Result<Steering, String>> {
    let line = text.lines().find_map(|line| line.strip_prefix(BEGINS))?;
    Some(read(line))
}

fn read(line: &str) -> Result<Steering, String> {
    let unreadable = |part: &str| format!("'{part}' in the line of a server: {REMEDY}");
    let mut parts = line.trim_end().split(", ").skip(2);
    let placed = parts.next().unwrap_or_default();
    let (buckets, cpus) = buckets(placed).ok_or_else(|| unreadable(placed))?;
    let (mut key, mut hash_fields, mut size) = (Key::VERIFICATION, HASH, TABLE_SIZE);
    for part in parts {
        let (name, value) = part.split_once(' ').unwrap_or((part, ""));
        let entries = || value.strip_prefix("of ")?.strip_suffix(" entries")?.parse().ok();
        match name {
            "key" => key = value.parse().map_err(|_| unreadable(part))?,
            "hash" => hash_fields = value.parse().map_err(|_| unreadable(part))?,
            "table" => size = entries().ok_or_else(|| unreadable(part))?,
            "own" => return Err(format!("the line does not have the server's {part}: {REMEDY}")),
            "model" => return Err(format!("the server uses {part}, which has no socket per bucket")),
            _ => return Err(unreadable(part)),
        }
    }
    Ok(Steering {
        key,
        hash_fields,
        table: IndirectionTable::round_robin(size, buckets).map_err(|error| error.to_string())?,
        cpus,
        generation: 0,
    })
}

/// `2 buckets on CPUs 0-1`.
fn buckets(placed: &str) -> Option<(usize, Vec<u32>)> {
    let (buckets, on) = placed.split_once(" on ")?;
    let buckets = buckets.split_once(' ')?.0.parse().ok();
    let buckets = buckets.filter(|buckets| *buckets <= IndirectionTable::LARGEST)?;
    let cpus = in_order(on.split_once(' ')?.1, buckets)?;
    (cpus.len() == buckets).then_some((buckets, cpus))
}

const REMEDY: &str = "give the document that `serve --write-steering FILE` writes";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(steering: &Steering, model: Model) -> String {
        let engine = ("epoll".to_owned(), "io_uring is denied".to_owned());
        listening("127.0.0.1:8080", (&engine.0, Some(&engine.1)), steering, model)
    }

    fn plain() -> Steering {
        Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        }
    }

    #[test]
    fn the_line_of_a_server_reads_back_as_its_steering() {
        let key = Key::VERIFICATION.to_string().replacen("6d", "6e", 1);
        let shared = |cpus: &[u32]| Steering {
            table: IndirectionTable::round_robin(512, 4).unwrap(),
            cpus: cpus.to_vec(),
            ..plain()
        };
        for steering in [
            plain(),
            Steering {
                key: key.parse().unwrap(),
                hash_fields: HashFields::TwoTuple,
                ..plain()
            },
            shared(&[0, 1, 0, 1]),
            shared(&[3, 1, 1, 9]),
            Steering {
                table: IndirectionTable::round_robin(1, 1).unwrap(),
                cpus: vec![7],
                ..plain()
            },
        ] {
            let text = format!("begun\n{}     1 k/s  seen 1\n", line(&steering, Model::Exact));
            assert_eq!(super::steering(&text), Some(Ok(steering)), "{text}");
        }
        let short =
            "listening on 127.0.0.1:8080, engine epoll, 2 buckets on CPUs 0-1\n(io_uring is denied)\n";
        assert_eq!(line(&plain(), Model::Exact), short);
    }

    #[test]
    fn a_line_that_does_not_have_the_steering_is_refused_with_the_reason() {
        let own = Steering {
            table: serde_json::from_str("[1,0]").unwrap(),
            ..plain()
        };
        for (text, reason) in [
            (
                line(&own, Model::Exact),
                "does not have the server's own table of 2 entries",
            ),
            (line(&plain(), Model::Farm), "the server uses model farm"),
            ("listening on [::]:80".to_owned(), "'' in the line"),
            (
                "listening on x, y, 9 buckets on CPUs z".to_owned(),
                "'9 buckets on CPUs z'",
            ),
            (
                "listening on x, y, 9999999999999 buckets on CPUs 1".to_owned(),
                "buckets on CPUs 1'",
            ),
            (
                "listening on x, y, 2 buckets on CPUs 0-1, depth 3".to_owned(),
                "'depth 3'",
            ),
        ] {
            let error = steering(&text).unwrap().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert_eq!(steering("hello"), None);
    }
}
