//! `corelane serve http`: the HTTP server in the foreground.

use super::buckets::{self, BucketArguments};
use super::foreground::{Foreground, Lines};
use crate::interrupt::Asked;
use crate::outcome::{Done, Outcome, usage};
use crate::values::{duration, size};
use clap::Args;
use corelane_measure::quantity;
use corelane_report::table::{Column, Table};
use corelane_serve::ServeError;
use corelane_serve::http::{AccessLogged, HttpLimits, HttpPlan, HttpServed, HttpServer, TlsPlan};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct ServeHttpArguments {
    #[command(flatten)]
    pub buckets: BucketArguments,
    /// Serve the files of a folder instead of objects
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Encrypt, with a certificate made for this run unless --certificate names one
    #[arg(long)]
    pub tls: bool,
    /// The certificate chain, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "private_key"])]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "certificate"])]
    pub private_key: Option<PathBuf>,
    /// Write the certificate made for this run to this file, PEM, for clients to verify it by (--ca, curl --cacert)
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "certificate")]
    pub write_certificate: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArguments,
    /// A line an answer, in the Combined Log Format with the seconds taken at the end; - is standard output. SIGUSR1 opens
    /// the file again
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
}

impl ServeHttpArguments {
    fn tls(&self) -> Option<TlsPlan> {
        let plan = match (&self.certificate, &self.private_key) {
            (Some(certificate), Some(key)) => TlsPlan::Files {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ => TlsPlan::SelfSigned,
        };
        self.tls.then_some(plan)
    }
}

/// What requests and connections may take.
#[derive(Debug, Args)]
pub struct LimitArguments {
    /// Bytes of a request line, its end apart; more is 414
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = size)]
    pub max_line: u64,
    /// Bytes of a head, the empty line at its end among them; more is 431
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = size)]
    pub max_head: u64,
    /// Header fields; more is 431
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_fields: u16,
    /// Bytes of a request's body; more is 413
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub max_body: u64,
    /// Requests that a connection may make [default: any number]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub max_requests: u32,
    /// How long a connection may be idle
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub idle_timeout: Duration,
    /// How long a head may take from its first byte on; longer is 408
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub head_timeout: Duration,
    /// How long a body may stand still; longer is 408
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer before it is reset
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub write_timeout: Duration,
}

impl LimitArguments {
    fn limits(&self) -> anyhow::Result<HttpLimits> {
        let word = |flag, bytes: u64| {
            u32::try_from(bytes).map_err(|_| usage(flag, format!("{bytes} bytes: give less than 4 GiB")))
        };
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(HttpLimits {
            line_bytes: word("--max-line", self.max_line)?,
            head_bytes: word("--max-head", self.max_head)?,
            fields: self.max_fields,
            body_bytes: self.max_body,
            requests: self.max_requests,
            idle_ms: milliseconds(self.idle_timeout),
            head_ms: milliseconds(self.head_timeout),
            body_ms: milliseconds(self.body_timeout),
            write_ms: milliseconds(self.write_timeout),
        })
    }
}

/// `corelane serve http`.
pub fn run(arguments: &ServeHttpArguments) -> Outcome {
    let lines_shown = arguments.access_log.as_deref() == Some(Path::new("-"));
    if lines_shown && arguments.buckets.serving.output.json {
        return Err(usage(
            "--access-log",
            "standard output has the document of --json: name a file",
        ));
    }
    let followed = arguments.buckets.followed()?;
    let plan = HttpPlan {
        listening: arguments.buckets.listening(followed.as_ref())?,
        root: arguments.root.clone(),
        tls: arguments.tls(),
        write_certificate: arguments.write_certificate.clone(),
        limits: arguments.limits.limits()?,
        access_log: arguments.access_log.clone(),
    };
    let shown = Shown {
        keeps_log: plan.access_log.is_some(),
        reopen: None,
        lines_shown,
    };
    arguments.buckets.serving.serve(shown, plan, followed)
}

/// What is shown of the server, and what its access log asks of the foreground.
struct Shown {
    keeps_log: bool,
    /// Whether the file is to be opened again.
    reopen: Option<Asked>,
    /// Whether the log is what standard output shows.
    lines_shown: bool,
}

impl Foreground for Shown {
    type Server = HttpServer;

    fn prepare(&mut self) -> Outcome {
        if self.keeps_log {
            self.reopen = Some(Asked::catch()?);
        }
        Ok(Done)
    }

    fn refused(error: ServeError) -> anyhow::Error {
        buckets::refused(error)
    }

    fn ready(&self, served: &HttpServed) -> anyhow::Result<String> {
        buckets::listening(
            served.address,
            &served.engine,
            served.engine_reason.as_ref(),
            &served.steering,
        )
    }

    fn line(&self, served: &HttpServed, last: &HttpServed) -> String {
        let requests = |served: &HttpServed| served.sum(|bucket| bucket.requests);
        format!(
            "{:>12}  requests {:>13}  open {:>10}  errors {:>8}",
            quantity::rate((requests(served) - requests(last)) as f64),
            quantity::count(requests(served)),
            quantity::count(served.sum(|bucket| bucket.connections.open)),
            quantity::count(served.errors().values().sum()),
        )
    }

    fn summary(served: &HttpServed) -> String {
        let headers = [
            "bucket", "cpu", "accepted", "requests", "received", "sent", "errors",
        ];
        let mut table = Table::new(headers.into_iter().map(Column::right).collect());
        for bucket in &served.buckets {
            let connections = &bucket.connections;
            table.row([
                connections.bucket.to_string(),
                connections.cpu.to_string(),
                quantity::count(connections.accepted),
                quantity::count(bucket.requests),
                quantity::bytes(connections.bytes_received),
                quantity::bytes(connections.bytes_sent),
                quantity::count(bucket.all_errors().map(|(_, count)| count).sum()),
            ]);
        }
        let mut text = table.render(100);
        let full = served.sum(|bucket| bucket.handshakes_full);
        let resumed = served.sum(|bucket| bucket.handshakes_resumed);
        if full + resumed > 0 {
            text.push_str(&format!(
                "TLS handshakes: {} full, {} resumed\n",
                quantity::count(full),
                quantity::count(resumed)
            ));
        }
        let mut answers = std::collections::BTreeMap::<u16, u64>::new();
        for (status, count) in served.buckets.iter().flat_map(|bucket| &bucket.answers) {
            *answers.entry(*status).or_default() += count;
        }
        for (status, count) in answers {
            text.push_str(&format!("answered {status}: {}\n", quantity::count(count)));
        }
        text.push_str(&buckets::errors(&served.errors()));
        if let Some(log) = &served.own.access_log {
            text.push_str(&access_log(log));
        }
        text
    }

    fn lines(&self, json: bool) -> Lines {
        if json || self.lines_shown {
            Lines::Hidden
        } else {
            Lines::Output
        }
    }

    fn look(&mut self, server: &mut HttpServer) -> Outcome {
        if self.reopen.as_ref().is_some_and(Asked::taken) {
            server.reopen_access_log();
        }
        Ok(Done)
    }
}

fn access_log(log: &AccessLogged) -> String {
    let mut text = format!(
        "access log {}: {} lines, {} dropped, {} not written, opened again {} times\n",
        log.file.display(),
        quantity::count(log.lines),
        quantity::count(log.dropped),
        quantity::count(log.unwritten),
        log.reopened,
    );
    if let Some(error) = &log.last_error {
        text.push_str(&format!("access log: {error}\n"));
    }
    text
}
