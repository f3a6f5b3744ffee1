//! A server that answers with raw bytes, valid or not. It splits requests at their empty lines only and counts them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How to answer one request.
#[derive(Clone)]
pub enum Answer {
    /// Send these bytes and continue.
    Bytes(Vec<u8>),
    /// Send these bytes and close the connection.
    BytesThenClose(Vec<u8>),
    /// Reset the connection.
    Reset,
    /// Send these bytes, then nothing until the client closes.
    BytesThenSilence(Vec<u8>),
}

/// A server in threads of the test process, stopped with it.
pub struct RawServer {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// Requests read up to their empty line.
    pub requests: Arc<AtomicU64>,
    /// The peer address of each connection.
    pub peers: Arc<Mutex<Vec<SocketAddr>>>,
    /// The head of the last request.
    pub last: Arc<Mutex<Vec<u8>>>,
}

impl RawServer {
    /// Starts a server that answers the n-th request with `answer(n)`.
    pub fn start(answer: impl Fn(u64) -> Answer + Send + Sync + 'static) -> Self {
        Self::answering(move |count, _| answer(count))
    }

    /// Starts a server that answers a request with this head with `answer(head)`.
    pub fn by_head(answer: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Self {
        Self::answering(move |_, head| answer(head))
    }

    fn answering(answer: impl Fn(u64, &[u8]) -> Answer + Send + Sync + 'static) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    fn at(listener: TcpListener, answer: impl Fn(u64, &[u8]) -> Answer + Send + Sync + 'static) -> Self {
        let server = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            peers: Arc::default(),
            last: Arc::default(),
        };
        let (requests, peers, last) = (
            Arc::clone(&server.requests),
            Arc::clone(&server.peers),
            Arc::clone(&server.last),
        );
        let answer = Arc::new(answer);
        thread::spawn(move || {
            while let Ok((connection, peer)) = listener.accept() {
                peers.lock().unwrap().push(peer);
                let (requests, last, answer) =
                    (Arc::clone(&requests), Arc::clone(&last), Arc::clone(&answer));
                thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn(move || attend(connection, &requests, &last, &*answer))
                    .unwrap();
            }
        });
        server
    }

    /// Starts a server that answers every request with status 200 and this body.
    pub fn with_body(body: &'static str) -> Self {
        Self::with_body_at(TcpListener::bind("127.0.0.1:0").unwrap(), body)
    }

    /// As [`with_body`](Self::with_body), with this listener.
    pub fn with_body_at(listener: TcpListener, body: &'static str) -> Self {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Self::at(listener, move |_, _| Answer::Bytes(answer.clone().into_bytes()))
    }

    /// The URL of its root.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Requests received so far.
    pub fn count(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn attend(
    mut connection: TcpStream,
    requests: &AtomicU64,
    last: &Mutex<Vec<u8>>,
    answer: &(dyn Fn(u64, &[u8]) -> Answer + Send + Sync),
) {
    connection.set_nodelay(true).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = seen[..end].to_vec();
            seen.drain(..end + 4);
            let answered = answer(requests.fetch_add(1, Ordering::SeqCst), &head);
            *last.lock().unwrap() = head;
            let answered = match answered {
                Answer::Bytes(bytes) => connection.write_all(&bytes),
                Answer::BytesThenClose(bytes) => {
                    let _ = connection.write_all(&bytes);
                    return;
                }
                Answer::Reset => {
                    // Closing with unread bytes resets the connection; a linger of zero does so too.
                    socket2::SockRef::from(&connection)
                        .set_linger(Some(Duration::ZERO))
                        .unwrap();
                    return;
                }
                Answer::BytesThenSilence(bytes) => {
                    let _ = connection.write_all(&bytes);
                    // Returns when the client closes the connection.
                    let _ = connection.read(&mut buffer);
                    return;
                }
            };
            if answered.is_err() {
                return;
            }
        }
        match connection.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(length) => seen.extend_from_slice(&buffer[..length]),
        }
    }
}
