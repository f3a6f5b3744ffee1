//! `serve http` and `serve tcp` as processes on loopback that end with a JSON document.

use super::common::{Arguments, corelane, signal};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server that prints a JSON document when it ends.
pub struct Server {
    process: Option<Child>,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Server {
    /// Starts `corelane serve WHAT` with two buckets on a free port and waits until it listens.
    pub fn start<A: Arguments + ?Sized>(what: &str, arguments: &A) -> Self {
        // Another process is unlikely to bind a port that was just released; if one does, the server reports the error.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let address = format!("127.0.0.1:{port}");
        let common = format!("serve {what} {address} --buckets 2 --share-cpus --json");
        let all = [common.words(), arguments.words()].concat();
        let process = corelane(&all).stdout(Stdio::piped()).spawn().unwrap();
        let server = Self {
            process: Some(process),
            port,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "{what} does not listen");
            std::thread::yield_now();
        }
        server
    }

    /// As [`start`](Self::start), with TLS; also returns the file of its certificate, in a folder of its own.
    pub fn start_tls(what: &str, arguments: &[&str]) -> (Self, TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certificate.pem");
        let path = path.to_str().unwrap().to_owned();
        let all = [&["--tls", "--write-certificate", &path], arguments].concat();
        let server = Self::start(what, &all);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(&path).is_ok_and(|text| text.contains("-----END CERTIFICATE-----")) {
            assert!(Instant::now() < deadline, "no certificate was written");
            std::thread::yield_now();
        }
        (server, folder, path)
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends a signal; `name` is without `SIG`.
    pub fn signal(&self, name: &str) {
        signal(self.process.as_ref().unwrap().id(), name);
    }

    /// Interrupts the server, as ^C in a terminal does, and parses its document.
    pub fn stop(mut self) -> Value {
        self.signal("INT");
        let mut process = self.process.take().unwrap();
        let mut text = String::new();
        process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(process.wait().unwrap().success());
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.as_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The sum of a count over all buckets.
pub fn sum(served: &Value, field: &str) -> u64 {
    let buckets = served["buckets"].as_array().unwrap();
    buckets.iter().map(|bucket| bucket[field].as_u64().unwrap()).sum()
}
