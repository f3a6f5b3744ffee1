//! Sessions in memory, against rustls as a server: segmentation does not change the data; certificate verification;
//! session resumption.

use super::*;
use corelane_worker::tls::{Buffers, News, RECORD, Session, Settings as _, SystemAuthorities, Trust};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

mod client_certificate;

/// A certificate for these names: in a file for clients to trust, and with its key.
pub(crate) fn certificate(
    names: &[&str],
) -> (
    tempfile::NamedTempFile,
    CertificateDer<'static>,
    PrivatePkcs8KeyDer<'static>,
) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.cert.pem()).unwrap();
    (
        file,
        made.cert.der().clone(),
        made.signing_key.serialize_der().into(),
    )
}

/// A server with this certificate that issues tickets.
pub(crate) fn server_configuration(
    certificate: &CertificateDer<'static>,
    key: &PrivatePkcs8KeyDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.clone_key());
    let configuration = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key);
    Arc::new(configuration.unwrap())
}

fn client(trust: &Trust) -> ClientSettings {
    let settings = ClientSettings::new(trust, &[b"http/1.1"], &mut SystemAuthorities::default());
    settings.unwrap().part(8)
}

fn trusting(ca: PathBuf) -> Trust {
    Trust {
        server_name: "server.example".to_owned(),
        insecure: false,
        ca: Some(ca),
        resumption: true,
        certificate: None,
    }
}

/// Both ends, connected only by the test.
struct Pair {
    client: ClientSession,
    buffers: Buffers,
    server: ServerConnection,
    /// Plaintext received by the server.
    received: Vec<u8>,
    opened: Option<HandshakeKind>,
    ended: bool,
}

impl Pair {
    fn new(settings: &ClientSettings, server: &Arc<ServerConfig>) -> Self {
        let mut client = Session::<UnbufferedClientConnection>::new(settings.connection().unwrap());
        let mut buffers = Buffers::default();
        assert_eq!(client.receive(&[], &mut buffers).unwrap(), News::default());
        Self {
            client,
            buffers,
            server: ServerConnection::new(Arc::clone(server)).unwrap(),
            received: Vec::new(),
            opened: None,
            ended: false,
        }
    }

    /// Passes the client's output to the server; returns the server's output.
    fn flight(&mut self) -> Vec<u8> {
        let mut outgoing = &self.buffers.outgoing[..];
        while !outgoing.is_empty() {
            self.server.read_tls(&mut outgoing).unwrap();
            // Errors on the server side reach the client as alerts.
            let _ = self.server.process_new_packets();
            let _ = self.server.reader().read_to_end(&mut self.received);
        }
        self.buffers.outgoing.clear();
        let mut flight = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut flight).unwrap();
        }
        flight
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let news = self.client.receive(bytes, &mut self.buffers)?;
        self.opened = self.opened.or(news.opened);
        self.ended |= news.ended;
        Ok(())
    }

    /// Exchanges flights until both sides are silent; the server's in pieces of this size after a first one.
    fn carry(&mut self, first: usize, piece: usize) -> Result<(), Error> {
        loop {
            let flight = self.flight();
            if flight.is_empty() && self.buffers.outgoing.is_empty() {
                return Ok(());
            }
            let (head, rest) = flight.split_at(first.min(flight.len()));
            self.hear(head)?;
            for piece in rest.chunks(piece) {
                self.hear(piece)?;
            }
        }
    }

    /// Sends a request, and receives the answer in pieces.
    fn talk(&mut self, answer: &[u8], first: usize, piece: usize) -> Result<Vec<u8>, Error> {
        self.carry(first, piece)?;
        self.client.encrypt(b"question", &mut self.buffers.outgoing)?;
        self.server.writer().write_all(answer).unwrap();
        self.carry(first, piece)?;
        assert_eq!(self.received, b"question");
        Ok(std::mem::take(&mut self.buffers.plain))
    }
}

#[test]
fn whatever_the_split_the_same_is_read() {
    let (file, certificate, key) = certificate(&["server.example"]);
    let answer = vec![b'x'; 300];
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let server = server_configuration(&certificate, &key, &[version]);
        let settings = Trust {
            resumption: false,
            ..trusting(file.path().to_owned())
        };
        let client = client(&settings);
        let longest = {
            let mut pair = Pair::new(&client, &server);
            pair.flight().len()
        };
        let all = longest + 64;
        // Every position of one split, then pieces of every size.
        for (first, piece) in (1..all)
            .map(|first| (first, usize::MAX))
            .chain((1..80).map(|piece| (piece, piece)))
        {
            let mut pair = Pair::new(&client, &server);
            let heard = pair.talk(&answer, first, piece);
            assert_eq!(heard.as_ref(), Ok(&answer), "{version:?} {first} {piece}");
            assert_eq!((pair.opened, pair.ended), (Some(HandshakeKind::Full), false));
        }
    }
}

#[test]
fn records_of_any_length_go_both_ways() {
    let (file, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    let client = client(&trusting(file.path().to_owned()));
    let mut pair = Pair::new(&client, &server);
    pair.server.set_buffer_limit(None);
    pair.carry(0, usize::MAX).unwrap();
    for length in [1, RECORD - 1, RECORD, RECORD + 1, 5 * RECORD + 7] {
        let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
        pair.client.encrypt(&bytes, &mut pair.buffers.outgoing).unwrap();
        pair.server.writer().write_all(&bytes).unwrap();
        pair.carry(0, 1_000).unwrap();
        assert!(pair.received == bytes && pair.buffers.plain == bytes, "{length}");
        pair.received.clear();
        pair.buffers.plain.clear();
    }
}

#[test]
fn sessions_are_resumed_unless_they_are_not_to_be() {
    let (file, certificate, key) = certificate(&["server.example"]);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for resumption in [true, false] {
            let server = server_configuration(&certificate, &key, &[version]);
            let settings = Trust {
                resumption,
                ..trusting(file.path().to_owned())
            };
            let client = client(&settings);
            let handshake = || {
                let mut pair = Pair::new(&client, &server);
                pair.talk(b"answer", 0, usize::MAX).unwrap();
                pair.opened.unwrap()
            };
            let handshakes = [handshake(), handshake(), handshake()];
            let later = if resumption {
                HandshakeKind::Resumed
            } else {
                HandshakeKind::Full
            };
            assert_eq!(handshakes, [HandshakeKind::Full, later, later], "{version:?}");
        }
    }
}

#[test]
fn a_certificate_is_believed_only_for_its_name_and_from_its_issuer() {
    let (other, ..) = certificate(&["server.example"]);
    let (own, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    let insecure = Trust {
        insecure: true,
        ca: None,
        ..trusting(PathBuf::new())
    };
    for (name, settings, refused) in [
        ("server.example", trusting(own.path().to_owned()), None),
        (
            "other.example",
            trusting(own.path().to_owned()),
            Some("not valid for name"),
        ),
        (
            "server.example",
            trusting(other.path().to_owned()),
            Some("invalid peer certificate"),
        ),
        ("other.example", insecure, None),
    ] {
        let client = client(&Trust {
            server_name: name.to_owned(),
            ..settings
        });
        let mut pair = Pair::new(&client, &server);
        let outcome = pair.carry(0, usize::MAX);
        assert_eq!(outcome.is_err(), refused.is_some(), "{name}: {outcome:?}");
        let (Err(error), Some(reason)) = (outcome, refused) else {
            assert_eq!(pair.opened, Some(HandshakeKind::Full));
            continue;
        };
        let mut counts = TlsCounts::default();
        assert_eq!(counts.count_error(&error), Failure::CertificateRefused);
        let (text, count) = counts.errors.first_key_value().unwrap();
        assert!(text.contains(reason) && *count == 1, "{text}");
        // The server is notified by an alert.
        let mut alert = &pair.buffers.outgoing[..];
        pair.server.read_tls(&mut alert).unwrap();
        let heard = pair.server.process_new_packets().unwrap_err();
        assert!(matches!(heard, Error::AlertReceived(_)), "{heard}");
    }
}

#[test]
fn an_authority_as_a_server_is_refused_with_what_to_do() {
    let mut parameters = rcgen::CertificateParams::new(vec!["server.example".to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.pem()).unwrap();
    let key = key.serialize_der().into();
    let server = server_configuration(made.der(), &key, rustls::ALL_VERSIONS);
    let client = client(&trusting(file.path().to_owned()));
    let error = Pair::new(&client, &server).carry(0, usize::MAX).unwrap_err();
    let mut counts = TlsCounts::default();
    assert_eq!(counts.count_error(&error), Failure::CertificateRefused);
    let (text, _) = counts.errors.first_key_value().unwrap();
    assert_eq!(text, AUTHORITY, "{error}");
}

#[test]
fn what_is_no_tls_fails_as_such_and_what_was_whole_before_is_kept() {
    let (file, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    let client = client(&trusting(file.path().to_owned()));
    let mut counts = TlsCounts::default();
    let mut pair = Pair::new(&client, &server);
    let error = pair.hear(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
    assert_eq!(counts.count_error(&error), Failure::Tls);
    pair.hear(b"and more of it").unwrap();
    assert!(pair.buffers.plain.is_empty());

    let mut pair = Pair::new(&client, &server);
    pair.carry(0, usize::MAX).unwrap();
    pair.server.writer().write_all(b"whole").unwrap();
    let mut flight = pair.flight();
    pair.server.writer().write_all(b"spoilt").unwrap();
    let mut corrupted = pair.flight();
    *corrupted.last_mut().unwrap() ^= 1;
    flight.extend(corrupted);
    let error = pair.hear(&flight).unwrap_err();
    assert_eq!(counts.count_error(&error), Failure::Tls);
    assert_eq!(pair.buffers.plain, b"whole");
}

#[test]
fn both_sides_end_by_their_word_and_nothing_follows() {
    let (file, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    let client = client(&trusting(file.path().to_owned()));
    let mut pair = Pair::new(&client, &server);
    pair.talk(b"answer", 0, usize::MAX).unwrap();
    pair.client.end(&mut pair.buffers.outgoing).unwrap();
    pair.server.send_close_notify();
    let mut flight = pair.flight();
    let mut rest = Vec::new();
    assert_eq!(pair.server.reader().read_to_end(&mut rest).unwrap(), 0);
    flight.extend_from_slice(b"and more");
    pair.hear(&flight).unwrap();
    pair.hear(b"and more").unwrap();
    assert!(pair.ended && pair.client.has_ended() && pair.buffers.plain.is_empty());
}

#[test]
fn errors_are_told_apart_up_to_a_bound() {
    let mut counts = TlsCounts::default();
    for number in 0..100 {
        counts.count_error(&Error::General(format!("number {number}")));
    }
    assert_eq!(counts.errors.len(), MOST_ERRORS + 1);
    assert_eq!(counts.errors["others"], 100 - MOST_ERRORS as u64);
}

#[test]
fn a_session_at_rest_is_small() {
    assert!(
        size_of::<ClientSession>() <= 1_536,
        "{} bytes",
        size_of::<ClientSession>()
    );
}
