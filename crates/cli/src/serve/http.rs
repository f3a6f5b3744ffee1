//! `corelane serve http`: the HTTP server in the foreground.

use super::buckets::{self, BucketArguments};
use super::foreground::{self, Foreground, Lines, Refused};
use super::tls::{CertificateArguments, handshakes};
use crate::documents::wrong_file;
use crate::outcome::{Outcome, usage};
use crate::ready;
use crate::rebalanced::rebalanced;
use crate::terminal::width;
use crate::values::{duration, size};
use clap::Args;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::Steering;
use corelane_serve::http::metrics::{ERRORS, REQUESTS};
use corelane_serve::http::{HttpError, HttpLimits, HttpPlan, HttpServed, HttpServer};
use corelane_serve::metrics::{ACCEPTED, RECEIVED, SENT};
use signal_hook::consts::SIGUSR1;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// HTTP/1.1: generates objects on demand, so that the client controls the load
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  corelane serve http 127.0.0.1:8080 --duration 1s\n  \
    curl http://127.0.0.1:8080/           list of objects\n  \
    curl http://127.0.0.1:8080/size/64KiB"
)]
pub struct ServeHttpArguments {
    #[command(flatten)]
    pub buckets: BucketArguments,
    /// Serve the files of a directory instead of generated objects
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    #[command(flatten)]
    pub tls: CertificateArguments,
    #[command(flatten)]
    pub limits: LimitArguments,
    /// Log one line per response in the Combined Log Format, followed by the duration in seconds; - is standard output.
    /// SIGUSR1 reopens the file
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
}

impl ServeHttpArguments {
    /// Whether the access log goes to standard output.
    fn logs_to_stdout(&self) -> bool {
        self.access_log.as_deref() == Some(Path::new("-"))
    }
}

/// Limits of requests and connections.
#[derive(Debug, Args)]
pub struct LimitArguments {
    /// Maximum size of a request line without its line end; if exceeded, 414
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = word_size)]
    pub max_line: u32,
    /// Maximum size of a request head, including the empty line at its end; if exceeded, 431
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = word_size)]
    pub max_head: u32,
    /// Maximum number of header fields; if exceeded, 431
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_fields: u16,
    /// Maximum size of a request body; if exceeded, 413
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub max_body: u64,
    /// Maximum number of requests per connection [default: unlimited]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub max_requests: u32,
    /// Idle timeout of a connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub idle_timeout: Duration,
    /// Timeout for a TLS handshake, and for a request head from its first byte (if exceeded, 408)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub head_timeout: Duration,
    /// Timeout for a request body without progress; if exceeded, 408
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub body_timeout: Duration,
    /// Reset the connection if the client reads nothing of a response for this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub write_timeout: Duration,
}

impl LimitArguments {
    fn limits(&self) -> HttpLimits {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        HttpLimits {
            line_bytes: self.max_line,
            head_bytes: self.max_head,
            fields: self.max_fields,
            body_bytes: self.max_body,
            requests: self.max_requests,
            idle_ms: milliseconds(self.idle_timeout),
            head_ms: milliseconds(self.head_timeout),
            body_ms: milliseconds(self.body_timeout),
            write_ms: milliseconds(self.write_timeout),
        }
    }
}

fn word_size(text: &str) -> Result<u32, String> {
    let bytes = size(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| "give less than 4 GiB".to_owned())
}

/// `corelane serve http`.
pub fn run(arguments: &ServeHttpArguments) -> Outcome {
    if arguments.logs_to_stdout() && arguments.buckets.serving.run.json.on_stdout() {
        let what = "standard output is used by --json: give a file name";
        return Err(usage("--access-log", what));
    }
    if let Some(root) = &arguments.root {
        // The workers open it, each for itself.
        fs::read_dir(root).map_err(|error| wrong_file("--root", root, error))?;
    }
    let (listening, table) = arguments.buckets.listening()?;
    let plan = HttpPlan {
        listening,
        root: arguments.root.clone(),
        tls: arguments.tls.certificate(),
        write_certificate: arguments.tls.write_certificate.clone(),
        limits: arguments.limits.limits(),
        access_log: arguments.access_log.clone(),
    };
    foreground::serve(arguments, plan, &arguments.buckets.serving.run, table)
}

impl Refused for HttpError {
    fn refused(self) -> anyhow::Error {
        let flag = match self {
            Self::Serve(error) => return error.refused(),
            Self::AccessLog(_) => "--access-log",
            _ => return self.into(),
        };
        usage(flag, self)
    }
}

impl Foreground for ServeHttpArguments {
    type Server = HttpServer;

    fn ready(&self, served: &HttpServed) -> String {
        ready::of_streams(served)
    }

    fn steering(served: &HttpServed) -> Option<&Steering> {
        Some(&served.steering)
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
        let table = Rows::of(&served.buckets)
            .right("bucket", |bucket| bucket.connections.bucket.to_string())
            .right("cpu", |bucket| bucket.connections.cpu.to_string())
            .metrics(&[&ACCEPTED], |bucket| &bucket.connections)
            .metrics(&[&REQUESTS], |bucket| bucket)
            .metrics(&[&RECEIVED, &SENT], |bucket| &bucket.connections)
            .metrics(&[&ERRORS], |bucket| bucket)
            .table();
        let mut text = table.render(width().tables);
        text.push_str(&handshakes(served.buckets.iter().map(|bucket| bucket.handshakes)));
        for (status, count) in served.answers() {
            text.push_str(&format!("answered {status}: {}\n", quantity::count(count)));
        }
        text.push_str(&buckets::by_cause("error", &served.errors()));
        text.push_str(&rebalanced(served.rebalanced.as_ref()));
        if let Some(log) = &served.own.access_log {
            let [lines, dropped, unwritten] = [log.lines, log.dropped, log.unwritten].map(quantity::count);
            text.push_str(&format!(
                "access log {}: {lines} lines, {dropped} dropped, {unwritten} not written, reopened {} times\n",
                log.file.display(),
                log.reopened
            ));
            if let Some(error) = &log.last_error {
                text.push_str(&format!("access log: {error}\n"));
            }
        }
        text
    }

    fn lines(&self, json: bool) -> Lines {
        if json || self.logs_to_stdout() {
            Lines::Hidden
        } else {
            Lines::Output
        }
    }

    /// Reopens the access log.
    fn signal(&self) -> Option<i32> {
        self.access_log.as_ref().map(|_| SIGUSR1)
    }

    fn signalled(&self, server: &mut HttpServer) -> Outcome {
        server.reopen_access_log();
        Ok(())
    }
}
