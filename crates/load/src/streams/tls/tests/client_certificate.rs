//! A server that asks for the client's certificate.

use super::*;
use corelane_worker::tls::{CertificateFiles, TrustError};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;

/// A client's certificate and key in files of a folder, and the certificate.
fn identity(folder: &tempfile::TempDir) -> (CertificateFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).unwrap();
    let files = CertificateFiles {
        certificate: folder.path().join("client.pem"),
        key: folder.path().join("client.key"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

#[test]
fn a_client_presents_its_certificate_and_without_one_fails_by_the_servers_alert() {
    let folder = tempfile::tempdir().unwrap();
    let (files, of_client) = identity(&folder);
    let (own, certificate, key) = certificate(&["server.example"]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(of_client.clone()).unwrap();
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), Arc::clone(&provider));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.clone_key()));
        let server = Arc::new(server.unwrap());
        let with = Trust {
            certificate: Some(files.clone()),
            ..trusting(own.path().to_owned())
        };
        let mut pair = Pair::new(&client(&with), &server);
        assert_eq!(pair.talk(b"answer", 0, usize::MAX).unwrap(), b"answer");
        assert_eq!(pair.server.peer_certificates(), Some(&[of_client.clone()][..]));
        let mut pair = Pair::new(&client(&trusting(own.path().to_owned())), &server);
        let error = pair.carry(0, usize::MAX).unwrap_err();
        let mut counts = TlsCounts::default();
        assert_eq!(counts.count_error(&error), Failure::Tls);
        let (text, _) = counts.errors.first_key_value().unwrap();
        assert!(
            text.contains("CertificateRequired") || text.contains("HandshakeFailure"),
            "{text}"
        );
    }
}

#[test]
fn files_that_are_no_certificate_and_key_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = identity(&folder);
    let other = rcgen::KeyPair::generate().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let strange = folder.path().join("other.key");
    std::fs::write(&strange, other.serialize_pem()).unwrap();
    for (certificate, key, reason) in [
        (&empty, &files.key, "empty.pem: there is no certificate in it"),
        (
            &files.certificate,
            &empty,
            "empty.pem: there is no private key in it",
        ),
        (&files.certificate, &strange, "the certificate cannot be used"),
        (&folder.path().join("absent"), &files.key, "absent: "),
    ] {
        let files = CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let trust = Trust {
            insecure: true,
            ca: None,
            certificate: Some(files),
            ..trusting(PathBuf::new())
        };
        let error = ClientSettings::new(&trust, &[], &mut SystemAuthorities::default()).unwrap_err();
        assert!(matches!(error, TrustError::Certificate(_)), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
