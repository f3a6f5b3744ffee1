//! Debian's Prometheus in a namespace of the test.

use corelane_host::bed::Bed;
use corelane_tests::{PATIENCE, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running Prometheus, killed when dropped.
pub struct Prometheus {
    process: Child,
    bed: Arc<Bed>,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it in the server's namespace, with these instances and their ports.
    pub fn start(bed: &Arc<Bed>, instances: &[(&str, u16)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let targets: String = instances
            .iter()
            .map(|(name, port)| {
                format!("  - targets: ['127.0.0.1:{port}']\n    labels: {{instance: {name}}}\n")
            })
            .collect();
        let configuration = folder.path().join("prometheus.yml");
        let job =
            "scrape_configs:\n- job_name: corelane\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n";
        fs::write(&configuration, format!("{job}  static_configs:\n{targets}")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:9090")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = bed.server.run(move || command.spawn()).unwrap();
        Self {
            process,
            bed: Arc::clone(bed),
            _folder: folder,
        }
    }

    /// The results of an expression now: labels in order, without the job, and value. Empty until Prometheus answers.
    pub fn query(&self, expression: &str) -> BTreeMap<String, f64> {
        self.ask(expression, String::new())
    }

    /// As [`query`](Self::query), at a moment in seconds since 1970.
    pub fn query_at(&self, expression: &str, moment: f64) -> BTreeMap<String, f64> {
        self.ask(expression, format!("&time={moment}"))
    }

    /// A moment, not before this call, at which the last scrape of each of so many instances is done and was answered in
    /// time. After another scrape, an expression has no result of the instance.
    pub fn moment(&self, instances: &str, count: usize) -> f64 {
        let up = format!("up{{instance=~\"{instances}\"}}");
        let only = |expression: &str| self.query(expression).into_values().next();
        let (called, mut moment) = (only("vector(time())").unwrap(), 0.0);
        until("all instances are scraped in time", || {
            // Scrapes of an instance follow each other: later ones change nothing at this moment.
            moment = only(&format!("min(timestamp({up}))")).unwrap();
            moment >= called && self.query_at(&format!("{up} == 1"), moment).len() == count
        });
        moment
    }

    fn ask(&self, expression: &str, time: String) -> BTreeMap<String, f64> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.bed.server.run(move || {
            let mut stream = TcpStream::connect("127.0.0.1:9090").ok()?;
            let request = format!("GET /api/v1/query?query={encoded}{time} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        });
        let answer = answer.unwrap_or_default();
        let Some((_, body)) = answer.split_once("\r\n\r\n") else {
            return BTreeMap::new();
        };
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        assert!(body["status"] != "error", "{expression}: {body}");
        let results = body["data"]["result"].as_array().into_iter().flatten();
        let result = |result: &Value| {
            let labels = result["metric"].as_object().unwrap().iter();
            let labels = labels.filter(|(label, _)| !["job", "__name__"].contains(&label.as_str()));
            let values: Vec<&str> = labels.map(|(_, value)| value.as_str().unwrap()).collect();
            (
                values.join(" "),
                result["value"][1].as_str().unwrap().parse::<f64>().unwrap(),
            )
        };
        // A quotient or percentile of no events is not a number.
        let known = results.map(result).filter(|(_, value)| !value.is_nan());
        known.collect()
    }

    /// The sum of a counter over its labels as of their first scrapes.
    pub fn first(&self, counter: &str) -> f64 {
        self.query(&format!("min_over_time({counter}[1h])"))
            .values()
            .sum()
    }

    /// Waits until an expression, which is a condition, has so many results.
    pub fn wait(&self, expression: &str, results: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.query(expression).len() != results {
            let found = || (self.query(expression), self.query("{job=\"corelane\"}"));
            assert!(Instant::now() < deadline, "{expression}: {:?}", found());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
