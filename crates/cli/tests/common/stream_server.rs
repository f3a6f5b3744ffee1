//! `serve http` and `serve tcp` as processes on loopback that end with a JSON document.

use super::common::{self, Arguments, corelane};
use corelane_tests::until;
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use tempfile::TempDir;

/// The name of the document's file.
const DOCUMENT: &str = "served.json";

/// A server that writes a JSON document when it ends.
pub struct Server {
    process: common::Server,
    /// With the document.
    folder: TempDir,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Server {
    /// Starts `corelane serve WHAT` with two buckets on a free port and waits until it listens.
    pub fn start<A: Arguments + ?Sized>(what: &str, arguments: &A) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let document = folder.path().join(DOCUMENT);
        let common = format!(
            "serve {what} 127.0.0.1:0 --buckets 2 --share-cpus --json={}",
            document.display()
        );
        let all = [common.words(), arguments.words()].concat();
        let process = common::Server::of(corelane(&all).stdout(Stdio::piped()).spawn().unwrap());
        let (_, port) = process.address.rsplit_once(':').unwrap();
        Self {
            port: port.parse().unwrap(),
            folder,
            process,
        }
    }

    /// As [`start`](Self::start), with TLS; also returns the file of its certificate, in a folder of its own.
    pub fn start_tls(what: &str, arguments: &[&str]) -> (Self, TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certificate.pem");
        let path = path.to_str().unwrap().to_owned();
        let all = [&["--tls", "--write-certificate", &path], arguments].concat();
        let server = Self::start(what, &all);
        until("the certificate is written", || {
            fs::read_to_string(&path).is_ok_and(|text| text.contains("-----END CERTIFICATE-----"))
        });
        (server, folder, path)
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends a signal; `name` is without `SIG`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Interrupts the server, as ^C in a terminal does, and parses its document.
    pub fn stop(mut self) -> Value {
        self.signal("INT");
        assert!(self.process.wait().success());
        let text = fs::read_to_string(self.folder.path().join(DOCUMENT)).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// The sum of a count over all buckets.
pub fn sum(served: &Value, field: &str) -> u64 {
    let buckets = served["buckets"].as_array().unwrap();
    buckets.iter().map(|bucket| bucket[field].as_u64().unwrap()).sum()
}
