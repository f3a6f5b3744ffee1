//! Processes with `--metrics`, and what their endpoints answer.

use crate::common::{self, Arguments};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A process with an endpoint on a TCP port, killed when dropped.
pub struct Exposing {
    pub process: Child,
    /// Address and port of the endpoint.
    pub metrics: String,
}

impl Exposing {
    /// Starts `corelane` with these arguments and `--metrics`, and waits until it listens.
    pub fn start<A: Arguments + ?Sized>(arguments: &A) -> Self {
        Self::of(common::corelane(
            &[&arguments.words()[..], &["--metrics", "127.0.0.1:0"]].concat(),
        ))
    }

    /// Starts a command that has `--metrics`, and waits until it listens.
    pub fn of(mut command: Command) -> Self {
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let output = process.stderr.as_mut().expect("standard error is piped");
        let mut said = String::new();
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            said += &line;
            let (_, address) = line.split_once("metrics at http://")?;
            Some(address.to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("no endpoint: {said}"));
        Self {
            metrics: address.trim_end_matches("/metrics").to_owned(),
            process,
        }
    }

    /// The address in the line of a server that is ready.
    pub fn listening(&mut self) -> String {
        let output = self.process.stdout.as_mut().expect("standard output is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        let line = line.expect("the server is ready");
        line.split(',').next().unwrap_or_default().to_owned()
    }

    /// What it exposes now.
    pub fn scrape(&self) -> String {
        get(TcpStream::connect(&self.metrics).unwrap(), "")
    }

    /// The sum of a metric over its labels, as it is exposed now.
    pub fn sum(&self, metric: &str) -> f64 {
        let text = self.scrape();
        let samples = text.lines().filter_map(|line| line.strip_prefix(metric));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
        samples
            .map(|rest| rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    /// Interrupts it and parses what it prints at its end.
    pub fn report(self) -> Value {
        self.interrupt().0
    }

    /// Interrupts it, parses what it prints at its end, and returns the exit code, too.
    pub fn interrupt(mut self) -> (Value, Option<i32>) {
        common::signal(self.process.id(), "INT");
        let mut text = String::new();
        let output = self.process.stdout.as_mut().expect("standard output is piped");
        output.read_to_string(&mut text).unwrap();
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (report, self.process.wait().unwrap().code())
    }
}

impl Drop for Exposing {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The body of `GET /metrics` with these further fields.
pub fn get(mut stream: impl Read + Write, fields: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    body.to_owned()
}

/// A metric family of an OpenMetrics exposition.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub about: String,
    /// Name with labels, and value.
    pub samples: BTreeMap<String, f64>,
}

/// Parses an exposition; panics unless it follows OpenMetrics 1.0.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let text = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families = BTreeMap::<String, Family>::new();
    let mut current = String::new();
    for line in text.lines() {
        let metadata = line.strip_prefix("# ").and_then(|line| {
            let (what, rest) = line.split_once(' ')?;
            let (name, value) = rest.split_once(' ')?;
            Some((what, name, value))
        });
        let family = match metadata {
            Some(("TYPE", name, kind)) => {
                current = name.to_owned();
                let new = families.insert(
                    name.to_owned(),
                    Family {
                        kind: kind.to_owned(),
                        ..Family::default()
                    },
                );
                assert!(new.is_none(), "{name} comes twice");
                continue;
            }
            _ => families.get_mut(&current).expect("TYPE comes first"),
        };
        match metadata {
            Some((what, name, _)) if name != current => panic!("{what} of {name} within {current}"),
            Some(("UNIT", name, unit)) => assert!(name.ends_with(&format!("_{unit}")), "{line}"),
            Some(("HELP", _, about)) => about.clone_into(&mut family.about),
            Some(_) => panic!("{line}"),
            None => {
                let (sample, value) = line.rsplit_once(' ').expect("a sample");
                let name = sample.split('{').next().unwrap_or_default();
                let end = name
                    .strip_prefix(current.as_str())
                    .expect("a sample of its family");
                let ends: &[&str] = match family.kind.as_str() {
                    "counter" => &["_total"],
                    "gauge" => &[""],
                    "info" => &["_info"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    kind => panic!("{kind}"),
                };
                assert!(ends.contains(&end), "{line}");
                let value: f64 = value.parse().expect("a number");
                assert!(value >= 0.0, "{line}");
                let again = family.samples.insert(sample.to_owned(), value);
                assert!(again.is_none(), "{sample} comes twice");
            }
        }
    }
    for (name, family) in &families {
        assert!(family.about.ends_with('.'), "{name}: {}", family.about);
    }
    families
}
