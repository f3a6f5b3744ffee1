//! `load http` over TLS against `serve http --tls` and Debian's nginx, as processes on loopback: equal counts on both
//! sides, certificate verification, session resumption, and bodies sent only after `100 Continue`.

use crate::stream_server;

use crate::common::{has_engine, parsed, refused, run, run_json};
use corelane_tests::until;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use stream_server::{Server, sum};

/// Runs `load http URL …` with `--json`; returns the document and the exit code, whatever it is.
fn load(url: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let all = [
        &["load", "http", url, "--json", "--workers", "1", "--drain", "10s"],
        arguments,
    ]
    .concat();
    let output = run(&all);
    (parsed(&output), output.status.code())
}

fn tls_server(arguments: &[&str]) -> (Server, tempfile::TempDir, String) {
    Server::start_tls("http", arguments)
}

fn https(server: &Server, path: &str) -> String {
    server.url(path).replace("http:", "https:")
}

#[test]
fn both_sides_count_the_same_requests_and_handshakes() {
    for (engine, resumption) in [("epoll", "on"), ("io_uring", "off")] {
        if !has_engine(engine) {
            continue;
        }
        let (server, _folder, certificate) = tls_server(&["--engine", engine]);
        let flags = [
            "--requests",
            "2000",
            "--connections",
            "8",
            "--requests-a-connection",
            "50",
        ];
        let tls = [
            "--ca",
            &certificate,
            "--resumption",
            resumption,
            "--engine",
            engine,
        ];
        let url = https(&server, "/size/3000");
        let (loaded, code) = load(&url, &[&flags[..], &tls, &["--check"]].concat());
        assert_eq!(code, Some(0), "{}", loaded["requests"]);
        for outcome in ["begun", "sent", "ok"] {
            assert_eq!(loaded["requests"][outcome], 2_000, "{}", loaded["requests"]);
        }
        let counts = &loaded["tls"];
        assert_eq!(counts["verified"], true);
        assert_eq!(loaded["handshake"]["count"], loaded["connections"]["opened"]);
        let served = server.stop();
        assert_eq!(sum(&served, "requests"), 2_000);
        for kind in ["handshakes_full", "handshakes_resumed"] {
            assert_eq!(counts[kind], sum(&served, kind), "{counts}");
        }
        let (full, resumed) = (
            counts["handshakes_full"].as_u64().unwrap(),
            counts["handshakes_resumed"].as_u64().unwrap(),
        );
        // The first handshake of each connection is full; each handshake yields two tickets, and the next one needs one
        // of them.
        assert_eq!(full + resumed, loaded["connections"]["opened"].as_u64().unwrap());
        assert_eq!(
            (full, resumed),
            if resumption == "on" {
                (8, resumed)
            } else {
                (full, 0)
            }
        );
        assert!(full + resumed >= 40, "2,000 requests, 50 a connection");
        let errors = served["buckets"][0]["errors"].as_object().unwrap();
        assert!(errors.is_empty(), "{served}");
    }
}

#[test]
fn a_certificate_that_is_not_believed_is_counted_on_both_sides_and_insecure_is_told() {
    let (server, _folder, own) = tls_server(&[]);
    let (other_server, _other_folder, other) = tls_server(&[]);
    drop(other_server);
    let url = https(&server, "/size/10");
    let few = ["--requests", "3", "--connections", "3"];
    for (trust, reason) in [
        (&["--ca", other.as_str()][..], "invalid peer certificate"),
        (
            &["--ca", &own, "-H", "Host: elsewhere.example"],
            "not valid for name",
        ),
    ] {
        let (loaded, code) = load(&url, &[&few[..], trust].concat());
        assert_eq!(code, Some(1), "{trust:?}");
        assert_eq!(
            loaded["connections"]["failed"]["certificate_refused"], 3,
            "{trust:?}"
        );
        let errors = loaded["tls"]["errors"].as_object().unwrap();
        assert!(
            errors
                .iter()
                .any(|(text, count)| text.contains(reason) && *count == 3),
            "{errors:?}"
        );
        let failed = loaded["failed_because"].as_str().unwrap();
        assert!(
            failed.contains("certificate refused") && failed.contains("--ca"),
            "{failed}"
        );
    }
    // A name that differs from the address: the certificate covers it, too.
    let (loaded, code) = load(
        &url,
        &[&few[..], &["--ca", &own, "-H", "Host: localhost:1"]].concat(),
    );
    assert_eq!(
        (code, &loaded["plan"]["pools"][0]["tls"]["server_name"]),
        (Some(0), &"localhost".into())
    );
    let (loaded, code) = load(&url, &[&few[..], &["--insecure"]].concat());
    assert_eq!((code, &loaded["tls"]["verified"]), (Some(0), &false.into()));
    let output = run(&[&["load", "http", &url, "--insecure"], &few[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("NOT verified") && text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let served = server.stop();
    let refused: u64 = served["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["errors"]["tls"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!((refused, sum(&served, "requests")), (6, 9));
}

#[test]
fn a_handshake_that_gets_no_answer_times_out_by_its_own_name() {
    // The kernel completes connections that no process accepts.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let (loaded, code) = load(
        &url,
        &["--connections", "3", "--insecure", "--connect-timeout", "200ms"],
    );
    assert_eq!(
        (code, &loaded["connections"]["failed"]["handshake_timeout"]),
        (Some(1), &3.into())
    );
}

#[test]
fn what_is_only_for_tls_is_refused_without_it_by_flag() {
    let missing = ["https://127.0.0.1:1/", "--ca", "/nowhere.pem", "--requests", "1"];
    for (arguments, reason) in [
        (
            &["http://127.0.0.1/", "--insecure"][..],
            "--insecure: applies to TLS only",
        ),
        (
            &["http://127.0.0.1/", "--resumption", "off"],
            "--resumption: applies to TLS only",
        ),
        (&["https://127.0.0.1/", "--insecure", "--ca", "x"], "--insecure"),
        (&["https://127.0.0.1/", "--expect-continue"], "--body"),
        (&["https://a_b!/", "--insecure"], "URL"),
        (&missing, "--ca: /nowhere.pem"),
    ] {
        let error = refused(&[&["load", "http"], arguments].concat(), 2);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    let error = refused("serve http 127.0.0.1:0 --write-certificate x", 2);
    assert!(error.contains("--tls"), "{error}");
    let error = refused(
        "serve http 127.0.0.1:0 --buckets 1 --tls --write-certificate /nowhere/x",
        2,
    );
    assert!(error.contains("--write-certificate: /nowhere/x"), "{error}");
}

#[test]
fn scenarios_gates_and_merged_documents_know_tls() {
    let (server, folder, certificate) = tls_server(&[]);
    let scenario = format!(
        "[[client]]\nname = 'careful'\nurls = 'all'\nserver = 'tls'\nconnections = 2\nca = '{certificate}'\n\
         [[client]]\nname = 'careless'\nurls = 'all'\nserver = 'tls'\nconnections = 2\ninsecure = true\nresumption = false\n\
         [[urls]]\nname = 'all'\nentry = [{{ path = '/size/100', check = true }}, \
         {{ path = '/echo', body_size = 5000, expect_continue = true, check = true }}]\n\
         [[server]]\nname = 'tls'\naddresses = ['127.0.0.1:{}']\nhost = 'localhost'\ntls = true\n",
        server.port
    );
    let path = folder.path().join("scenario.toml");
    fs::write(&path, scenario).unwrap();
    let flags = [
        "load",
        "http",
        "--scenario",
        path.to_str().unwrap(),
        "--requests",
        "400",
        "--json",
    ];
    let loaded = run_json(
        &[
            &flags[..],
            &["--fail-if", "resumed > 0%", "--fail-if", "failed > 0"],
        ]
        .concat(),
    );
    assert_eq!(
        (&loaded["requests"]["ok"], &loaded["tls"]["verified"]),
        (&400.into(), &false.into())
    );
    let verified: Vec<_> = loaded["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| pool["tls"]["verified"].as_bool().unwrap())
        .collect();
    assert_eq!(verified, [true, false]);
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&one, loaded.to_string()).unwrap();
    fs::write(&other, format!("{loaded:#}")).unwrap();
    let merged = run_json(&["report", "merge", &one, &other]);
    assert_eq!(
        (&merged["requests"]["ok"], &merged["tls"]["handshakes_full"]),
        (&800.into(), &8.into())
    );
    assert_eq!(
        (&merged["handshake"]["count"], &merged["tls"]["verified"]),
        (&8.into(), &false.into())
    );
    let continued = loaded["requests"]["continued"].as_u64().unwrap();
    let served = server.stop();
    let of_status = |status: &str| -> u64 {
        let buckets = served["buckets"].as_array().unwrap().iter();
        buckets
            .map(|bucket| bucket["answers"][status].as_u64().unwrap_or(0))
            .sum()
    };
    assert_eq!(
        (sum(&served, "requests"), of_status("200"), of_status("100")),
        (400, 400, continued)
    );
    assert_eq!(sum(&served, "bodies"), continued);
    assert!(continued > 0);
}

#[test]
fn a_body_waits_until_it_is_asked_for_and_is_not_sent_after_an_answer() {
    let server = Server::start("http", "--max-body 100");
    let flags = [
        "--requests",
        "50",
        "--connections",
        "4",
        "--expect-continue",
        "--continue-timeout",
        "60s",
    ];
    let (loaded, code) = load(
        &server.url("/echo"),
        &[&flags[..], &["--check", "--body-size", "100"]].concat(),
    );
    assert_eq!((code, &loaded["requests"]["continued"]), (Some(0), &50.into()));
    let (loaded, code) = load(
        &server.url("/echo"),
        &[&flags[..], &["--status", "413", "--body-size", "101"]].concat(),
    );
    assert_eq!(
        (code, &loaded["requests"]["body_refused"]),
        (Some(0), &50.into()),
        "{}",
        loaded["requests"]
    );
    assert_eq!(loaded["requests"]["ok"], 50);
    let served = server.stop();
    assert_eq!(
        (
            sum(&served, "requests"),
            sum(&served, "bodies"),
            sum(&served, "body_bytes")
        ),
        (100, 50, 5_000)
    );
}

/// nginx in the foreground with a plain and an encrypted port, stopped when dropped.
struct Nginx {
    process: Child,
    plain: u16,
    encrypted: u16,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx; `None` after printing that it is not installed.
    fn start() -> Option<Self> {
        if !Path::new("/usr/sbin/nginx").exists() {
            eprintln!("skipped: nginx is not installed (tests/prepare.sh)");
            return None;
        }
        // It cannot choose ports itself, and another test may take one before it does.
        let mut tries = std::iter::repeat_with(Self::with_free_ports).take(20);
        Some(tries.find_map(|started| started).expect("nginx listens"))
    }

    /// Starts nginx on two ports that are free; `None` if they no longer are when it binds them.
    fn with_free_ports() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["nginx.example".to_owned()]).unwrap();
        fs::write(folder.path().join("certificate.pem"), made.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        fs::write(folder.path().join("1k"), vec![b'x'; 1_024]).unwrap();
        // Both are held until both are known: the kernel may choose a port that has just been closed.
        let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [plain, encrypted] = held.each_ref().map(|held| held.local_addr().unwrap().port());
        drop(held);
        let place = folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {place}/{name};\n"))
            .collect();
        let configuration = format!(
            "daemon off; worker_processes 1; user root; pid {place}/pid; error_log {place}/errors;
             events {{ worker_connections 256; }}
             http {{ access_log {place}/access; {temporary} keepalive_requests 100; ssl_session_tickets on;
               server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{encrypted} ssl;
                 ssl_certificate {place}/certificate.pem; ssl_certificate_key {place}/key.pem;
                 root {place}; }} }}"
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration).unwrap();
        let process = Command::new("/usr/sbin/nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-e")
            .arg(folder.path().join("errors"))
            .arg("-c")
            .arg(&path)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let mut nginx = Self {
            process,
            plain,
            encrypted,
            folder,
        };
        // It writes the file when it listens, and ends if it cannot.
        let (written, mut ended) = (nginx.folder.path().join("pid"), false);
        until("nginx listens or ends", || {
            ended = nginx.process.try_wait().unwrap().is_some();
            ended || written.exists()
        });
        if !ended {
            return Some(nginx);
        }
        let errors = fs::read_to_string(nginx.folder.path().join("errors")).unwrap_or_default();
        assert!(errors.contains("Address already in use"), "{errors}");
        None
    }

    /// Stops nginx and returns the number of requests in its log.
    fn stop(mut self) -> usize {
        self.end();
        let log = fs::read_to_string(self.folder.path().join("access")).unwrap();
        log.lines()
            .filter(|line| line.contains("GET /1k HTTP/1.1\" 200 1024"))
            .count()
    }

    fn end(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // On SIGQUIT nginx finishes the requests under way.
        let _ = Command::new("kill")
            .args(["-QUIT", &self.process.id().to_string()])
            .status();
        let _ = self.process.wait();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn nginx_counts_the_same_requests_plain_and_over_tls() {
    let few = ["--requests", "1000", "--connections", "5"];
    for (encrypted, resumption) in [(false, "on"), (true, "on"), (true, "off")] {
        let Some(nginx) = Nginx::start() else { return };
        let certificate = nginx.folder.path().join("certificate.pem");
        let (url, arguments) = if encrypted {
            (
                format!("https://127.0.0.1:{}/1k", nginx.encrypted),
                vec![
                    "--ca",
                    certificate.to_str().unwrap(),
                    "-H",
                    "Host: nginx.example",
                    "--resumption",
                    resumption,
                ],
            )
        } else {
            (format!("http://127.0.0.1:{}/1k", nginx.plain), vec![])
        };
        let (loaded, code) = load(&url, &[&few[..], &arguments].concat());
        assert_eq!(
            (code, &loaded["requests"]["ok"]),
            (Some(0), &1_000.into()),
            "{}",
            loaded["requests"]
        );
        assert_eq!(
            (&loaded["requests"]["sent"], loaded["bytes"]["body"].as_u64()),
            (&1_000.into(), Some(1_024_000))
        );
        // keepalive_requests is 100: at least ten connections, and those opened again may resume a session.
        let opened = loaded["connections"]["opened"].as_u64().unwrap();
        assert!(opened >= 10, "{}", loaded["connections"]);
        if encrypted {
            let full = if resumption == "on" { 5 } else { opened };
            let counts = &loaded["tls"];
            let handshakes = (
                counts["handshakes_full"].as_u64(),
                counts["handshakes_resumed"].as_u64(),
            );
            assert_eq!(handshakes, (Some(full), Some(opened - full)), "{counts}");
        }
        assert_eq!(nginx.stop(), 1_000);
    }
}
