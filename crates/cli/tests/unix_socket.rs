//! Generators that connect to Unix sockets.

use crate::common::{engines, refused, run};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

/// A server at `app.sock` of a folder of its own, with a thread for each connection.
fn server(attend: impl Fn(UnixStream) -> io::Result<()> + Send + Sync + 'static) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let (listener, attend) = (UnixListener::bind(&path).unwrap(), Arc::new(attend));
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let attend = Arc::clone(&attend);
            thread::spawn(move || attend(connection));
        }
    });
    (folder, path)
}

/// A server that answers every request, and the last value of `Host`.
fn answering() -> (TempDir, PathBuf, Arc<Mutex<String>>) {
    let host = Arc::new(Mutex::new(String::new()));
    let last = Arc::clone(&host);
    let (folder, path) = server(move |mut connection| {
        for line in BufReader::new(connection.try_clone()?).lines() {
            let line = line?;
            if let Some(host) = line.strip_prefix("Host: ") {
                host.clone_into(&mut last.lock().unwrap());
            } else if line.is_empty() {
                connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")?;
            }
        }
        Ok(())
    });
    (folder, path, host)
}

fn load(arguments: &str) -> Value {
    let output = run(&format!("load {arguments} --json"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shown(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[test]
fn requests_over_a_unix_socket_are_answered_on_each_engine_in_each_loop() {
    let (folder, path, host) = answering();
    let scenario = folder.path().join("scenario.toml");
    let text = format!(
        "[[client]]\nname = \"c\"\nurls = \"u\"\nserver = \"s\"\nconnections = 3\n\
         [[urls]]\nname = \"u\"\nentry = [{{ path = \"/\" }}]\n\
         [[server]]\nname = \"s\"\naddresses = [\"{}\"]\n",
        shown(&path)
    );
    std::fs::write(&scenario, text).unwrap();
    let socket = path.display();
    for engine in engines() {
        for (flags, named) in [
            (
                format!("--unix-socket {socket} http://app.test:8080/ -c 3"),
                "app.test:8080",
            ),
            (
                format!("--unix-socket {} http://localhost/ -c 3 --rate 1k", shown(&path)),
                "localhost",
            ),
            (
                format!("--unix-socket {socket} http://localhost/ -c 3 --requests-a-connection 1"),
                "localhost",
            ),
            (format!("--scenario {}", scenario.display()), "localhost"),
        ] {
            let loaded = load(&format!("http {flags} -n 30 --drain 1m --engine {engine}"));
            let requests = &loaded["requests"];
            assert_eq!(
                (&requests["ok"], &requests["failed"]),
                (&30.into(), &0.into()),
                "{flags}"
            );
            assert_eq!(loaded["pools"][0]["target"], shown(&path));
            assert_eq!(*host.lock().unwrap(), named);
        }
    }
    let text = run(&format!(
        "load http --unix-socket {socket} http://localhost/ -n 3 --drain 1m"
    ));
    assert!(String::from_utf8(text.stdout).unwrap().contains(&shown(&path)));
}

#[test]
fn bytes_over_a_unix_socket_arrive_on_each_engine() {
    let (_folder, path) = server(|mut connection| io::copy(&mut connection, &mut io::sink()).map(drop));
    let (_other, source) = server(|connection| io::copy(&mut io::repeat(7), &mut &connection).map(drop));
    for engine in engines() {
        let loaded = load(&format!(
            "tcp {} -c 3 -d 100ms --drain 1m --engine {engine}",
            shown(&path)
        ));
        let total = &loaded["total"];
        assert_eq!(
            (&total["opened"], &total["open_at_end"], &total["undrained"]),
            (&3.into(), &3.into(), &0.into())
        );
        assert!(total["sent_bytes"].as_u64().unwrap() > 0, "{total}");
        assert_eq!(loaded["plan"]["target"], shown(&path));
        let loaded = load(&format!(
            "tcp {} -c 3 -d 1s --direction read --engine {engine}",
            shown(&source)
        ));
        assert!(
            loaded["total"]["received_bytes"].as_u64().unwrap() > 0,
            "{}",
            loaded["total"]
        );
    }
}

#[test]
fn a_unix_socket_that_is_not_there_fails_the_run_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent.sock");
    let socket = path.display();
    for load in [
        format!("http --unix-socket {socket} http://localhost/ -c 2 -n 1"),
        format!("tcp unix:{socket} -c 2 -d 100ms"),
    ] {
        let output = run(&format!("load {load}"));
        assert_eq!(output.status.code(), Some(1));
        let why = format!("no connection could be opened: refused by unix:{socket}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&why), "{text}");
    }
}

#[test]
fn what_a_unix_socket_does_not_have_is_refused_by_name() {
    let http = "http --unix-socket /run/app.sock http://localhost/";
    for (load, words) in [
        (format!("{http} --sources 127.0.0.0/8"), "--sources, --align"),
        (format!("{http} --align even"), "--sources, --align"),
        (format!("{http} --addresses all"), "--addresses"),
        (
            "tcp unix:/run/app.sock --sources 127.0.0.0/8".to_owned(),
            "--sources, --align",
        ),
        (
            "tcp unix:/run/app.sock --align even".to_owned(),
            "--sources, --align",
        ),
        (
            "tcp unix:/run/app.sock --addresses all".to_owned(),
            "no other addresses",
        ),
        ("tcp unix:/run/app.sock --tls".to_owned(), "no name to verify"),
        ("tcp unix:".to_owned(), "unix:PATH"),
        (format!("tcp unix:/{}", "a".repeat(200)), "107 bytes"),
        ("udp unix:/run/app.sock".to_owned(), "write 10.11.2.1:8080"),
        (
            "http unix:/run/app.sock".to_owned(),
            "--unix-socket /run/app.sock",
        ),
    ] {
        let error = refused(&format!("load {load}"), 2);
        assert!(error.contains(words), "{load}: {error}");
    }
}
