//! `serve::http` over TLS, with generated and with given certificates.

use crate::common::{Answer, anywhere, connect, engines, exchange, http_plan, steering};
use corelane_proto::http::pattern;
use corelane_serve::Server;
use corelane_serve::http::{HttpLimits, HttpPlan, HttpServed, HttpServer};
use corelane_worker::tls::{Certificate, CertificateFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A certificate for localhost in two files, and a client configuration that trusts only it.
pub fn certificate(folder: &std::path::Path) -> (Certificate, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let pem = |label: &str, bytes: &[u8]| {
        let text: String = base64(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let public: CertificateDer<'static> = made.cert.der().clone();
    std::fs::write(&certificate, pem("CERTIFICATE", &public)).unwrap();
    std::fs::write(&key, pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(public).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusting = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let files = CertificateFiles { certificate, key };
    (Certificate::Files(files), Arc::new(trusting))
}

/// A session with localhost.
pub fn session(trusting: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(trusting), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// Base64 (RFC 4648 section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let word = bits << (8 * (3 - group.len()));
        for index in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[test]
fn objects_and_files_come_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, trusting) = certificate(folder.path());
    let content: Vec<u8> = (0..2_000_000u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(folder.path().join("big.bin"), &content).unwrap();
    for (engine, root) in engines()
        .into_iter()
        .flat_map(|engine| [(engine, None), (engine, Some(folder.path()))])
    {
        let plan = HttpPlan {
            tls: Some(tls.clone()),
            root: root.map(Into::into),
            ..http_plan(engine, 2)
        };
        let server = HttpServer::start(plan).unwrap();
        let mut session = session(&trusting);
        let mut socket = connect(server.address());
        let mut stream = Stream::new(&mut session, &mut socket);
        if root.is_some() {
            write!(stream, "GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert!(Answer::read(&mut stream, false).body == content);
        } else {
            for length in [1, 5_000, 3_000_000] {
                write!(stream, "GET /size/{length} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let body = Answer::read(&mut stream, false).body;
                assert!(body == (0..length).map(pattern::byte).collect::<Vec<_>>());
            }
            let body = content.repeat(2);
            write!(
                stream,
                "POST /size/1 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .unwrap();
            stream.write_all(&body).unwrap();
            assert_eq!(Answer::read(&mut stream, false).status, 200);
        }
        write!(
            stream,
            "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut rest = String::new();
        // An end without close_notify would be an error here.
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.starts_with("HTTP/1.1 404 "), "{rest}");
        assert!(server.stop().unwrap().errors().is_empty());
    }
}

/// Runs the test with a TLS session, after its handshake, to a server with these `limits`.
fn with_session(
    limits: HttpLimits,
    test: impl Fn(HttpServer, StreamOwned<ClientConnection, TcpStream>) -> HttpServed,
) -> Vec<HttpServed> {
    let folder = tempfile::tempdir().unwrap();
    let (tls, trusting) = certificate(folder.path());
    let run = |engine| {
        let plan = HttpPlan {
            tls: Some(tls.clone()),
            limits,
            ..http_plan(engine, 1)
        };
        let server = HttpServer::start(plan).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::clone(&trusting), name).unwrap();
        let mut socket = connect(server.address());
        while session.is_handshaking() {
            session.complete_io(&mut socket).unwrap();
        }
        test(server, StreamOwned::new(session, socket))
    };
    engines().into_iter().map(run).collect()
}

/// Reads until the server ends the connection; an end without close_notify is an error.
fn rest(stream: &mut impl Read) -> std::io::Result<String> {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).map(|_| rest)
}

#[test]
fn an_idle_connection_is_told_its_end() {
    let limits = HttpLimits {
        // Long enough for a handshake and a request on a busy machine.
        idle_ms: 5_000,
        ..HttpLimits::default()
    };
    let served = with_session(limits, |server, mut stream| {
        write!(stream, "GET /size/9 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(Answer::read(&mut stream, false).body.len(), 9);
        assert_eq!(rest(&mut stream).unwrap(), "");
        server.stop().unwrap()
    });
    assert!(served.iter().all(|served| served.buckets[0].idle_closed == 1));
}

#[test]
fn a_slow_head_is_refused_and_told_its_end() {
    let limits = HttpLimits {
        // Long enough for a handshake on a busy machine.
        head_ms: 5_000,
        ..HttpLimits::default()
    };
    with_session(limits, |server, mut stream| {
        write!(stream, "GET / HTTP/1.1\r\n").unwrap();
        assert!(rest(&mut stream).unwrap().starts_with("HTTP/1.1 408 "));
        server.stop().unwrap()
    });
}

#[test]
fn the_end_of_the_server_is_told_where_answers_are_whole() {
    with_session(HttpLimits::default(), |server, mut stream| {
        write!(stream, "GET /size/9 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(Answer::read(&mut stream, false).body.len(), 9);
        let served = server.stop().unwrap();
        assert_eq!(rest(&mut stream).unwrap(), "");
        served
    });
    // HTTP/1.0: the end of the connection is the end of the body.
    with_session(HttpLimits::default(), |server, mut stream| {
        write!(stream, "GET /chunks/9999/65536 HTTP/1.0\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1_000]).unwrap();
        let served = server.stop().unwrap();
        rest(&mut stream).unwrap_err();
        served
    });
}

#[test]
fn what_is_no_tls_is_counted_and_closed() {
    for engine in engines() {
        let plan = HttpPlan {
            tls: Some(Certificate::SelfSigned),
            ..http_plan(engine, 1)
        };
        let server = HttpServer::start(plan).unwrap();
        let answer = exchange(server.address(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!answer.starts_with(b"HTTP"));
        assert_eq!(server.stop().unwrap().errors().get("tls"), Some(&1));
    }
}

#[test]
fn files_that_hold_no_certificate_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("nothing.pem");
    let plan = HttpPlan {
        tls: Some(Certificate::Files(CertificateFiles {
            certificate: nothing.clone(),
            key: nothing,
        })),
        ..HttpPlan::new(anywhere(), steering(1))
    };
    let refusal = HttpServer::start(plan).err().unwrap().to_string();
    assert!(refusal.contains("nothing.pem"), "{refusal}");
}

#[test]
fn a_handshake_has_the_time_of_a_head() {
    let served = engines().into_iter().map(|engine| {
        let plan = HttpPlan {
            tls: Some(Certificate::SelfSigned),
            limits: HttpLimits {
                head_ms: 50,
                ..HttpLimits::default()
            },
            ..http_plan(engine, 1)
        };
        let server = HttpServer::start(plan).unwrap();
        // The beginning of a record, and nothing.
        let nothing: [&[u8]; 2] = [b"\x16\x03", b""];
        for beginning in nothing {
            assert_eq!(exchange(server.address(), beginning), b"");
        }
        server.stop().unwrap()
    });
    for served in served {
        assert_eq!(
            served.errors().get("handshake_timeout"),
            Some(&2),
            "{:?}",
            served.errors()
        );
        assert_eq!(served.buckets[0].idle_closed, 0);
    }
}

#[test]
fn both_versions_of_http_1_can_be_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, trusting) = certificate(folder.path());
    for (offered, agreed) in [
        (vec!["http/1.0"], "http/1.0"),
        (vec!["http/1.0", "http/1.1"], "http/1.1"),
        (vec!["h2", "http/1.1"], "http/1.1"),
    ] {
        let mut trusting = ClientConfig::clone(&trusting);
        trusting.alpn_protocols = offered.into_iter().map(Into::into).collect();
        let plan = HttpPlan {
            tls: Some(tls.clone()),
            ..http_plan(engines()[0], 1)
        };
        let server = HttpServer::start(plan).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::new(trusting), name).unwrap();
        let mut socket = connect(server.address());
        while session.is_handshaking() {
            session.complete_io(&mut socket).unwrap();
        }
        assert_eq!(session.alpn_protocol(), Some(agreed.as_bytes()));
    }
}
