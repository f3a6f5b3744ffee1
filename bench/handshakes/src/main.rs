//! Prints the full TLS 1.3 handshakes per second of server CPU time, in memory: `handshakes CERTIFICATE KEY SECONDS`.
//! Neither tickets nor sessions are kept; the client's time is not counted, and it trusts that certificate alone.

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as chosen;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as chosen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [certificate, key, seconds] = arguments.as_slice() else {
        return Err("usage: handshakes CERTIFICATE KEY SECONDS".into());
    };
    let provider = Arc::new(chosen::default_provider());
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_file(key)?)?;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::disabled();
    let (server, client) = (Arc::new(server), Arc::new(client));
    let name = ServerName::try_from("localhost")?;
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let (mut spent, mut count) = (Duration::ZERO, 0_u32);
    while Instant::now() < end {
        let mut asking = ClientConnection::new(Arc::clone(&client), name.clone())?;
        spent += handshake(&mut asking, &server)?;
        count += 1;
    }
    println!("{:.0}", f64::from(count) / spent.as_secs_f64());
    Ok(())
}

/// The server's time for one handshake.
fn handshake(client: &mut ClientConnection, settings: &Arc<ServerConfig>) -> Result<Duration, Box<dyn Error>> {
    let mut flight = Vec::new();
    client.write_tls(&mut flight)?;
    let begin = Instant::now();
    let mut server = ServerConnection::new(Arc::clone(settings))?;
    let mut spent = begin.elapsed();
    while client.is_handshaking() || server.is_handshaking() {
        let begin = Instant::now();
        server.read_tls(&mut flight.as_slice())?;
        server.process_new_packets()?;
        flight.clear();
        while server.wants_write() {
            server.write_tls(&mut flight)?;
        }
        spent += begin.elapsed();
        let mut rest = flight.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest)?;
            client.process_new_packets()?;
        }
        flight.clear();
        while client.wants_write() {
            client.write_tls(&mut flight)?;
        }
    }
    Ok(spent)
}
