//! The endpoint that serves metrics to Prometheus, for any server and generator: takes a document when a client asks for
//! one, and answers `GET /metrics` on a TCP port or a Unix socket.
//!
//! It has a thread of its own, which renders the documents and handles all clients. The control thread only
//! makes the document, between two polls of its server. A slow client does not delay others.

mod client;

use crate::local_listener;
use crate::shared::lock;
use client::{Client, LOOK};
use corelane_report::exposition::Exposed;
use corelane_worker::engine::Remote;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Listen backlog.
const BACKLOG: i32 = 128;

/// Clients served at a time. Another one takes the place of the oldest that has not finished its request, or has its
/// response; if there is none, it waits in the backlog, and not for long, as each client has a deadline.
const MOST_CLIENTS: usize = 16;

/// Time until a connection is accepted again after it failed.
const PAUSE: Duration = Duration::from_millis(10);

/// A document with metrics, made by one thread and rendered by another.
pub type Document = Box<dyn Exposed + Send>;

/// What the control thread and the endpoint's thread share.
#[derive(Default)]
struct Exchange {
    /// A client waits for a document.
    asked: AtomicBool,
    /// The document made for it.
    made: Mutex<Option<Document>>,
}

/// Serves metrics. Dropping it ends its thread and removes its socket.
pub struct Endpoint {
    /// Where clients connect to.
    address: Remote,
    exchange: Arc<Exchange>,
    /// Wakes the thread: a byte says that a document was made, the end that it is to end.
    waker: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens. The Unix socket of a process that was killed is replaced; one with a listener, or a file of another
    /// kind, is not.
    ///
    /// # Errors
    /// If the address is in use or unavailable.
    pub fn listen(address: &Remote) -> io::Result<Endpoint> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let listener = listener(address)?;
        let bound = listener.local_addr()?.as_socket();
        let address = bound.map_or_else(|| address.clone(), Remote::Ip);
        let exchange = Arc::new(Exchange::default());
        let mut endpoint = Endpoint {
            address,
            exchange: Arc::clone(&exchange),
            waker: Some(waker),
            thread: None,
        };
        let serving = Serving {
            listener,
            woken,
            exchange,
            clients: Vec::new(),
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        endpoint.thread = Some(thread.spawn(move || serving.run())?);
        Ok(endpoint)
    }

    /// Where the metrics are: a URL, with the port chosen by the kernel for port 0, or a Unix socket.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.address {
            Remote::Ip(address) => format!("http://{address}{}", client::PATH),
            socket => socket.to_string(),
        }
    }

    /// Makes a document if a client waits for one. Call it often: clients wait until then.
    pub fn look(&self, document: impl FnOnce() -> Document) {
        if self.exchange.asked.swap(false, Ordering::Acquire) {
            *lock(&self.exchange.made) = Some(document());
            // If the socket is full, the thread has not read earlier bytes and wakes anyway.
            let _ = self.waker.as_ref().map(|mut waker| waker.write(&[1]));
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.waker = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Remote::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
        }
    }
}

fn listener(address: &Remote) -> io::Result<Socket> {
    let listener = match address {
        Remote::Unix(path) => local_listener::bound(path)?,
        Remote::Ip(address) => {
            let listener = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
            listener.set_reuse_address(true)?;
            listener.bind(&(*address).into())?;
            listener
        }
    };
    listener.listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The endpoint's thread.
struct Serving {
    listener: Socket,
    woken: UnixStream,
    exchange: Arc<Exchange>,
    clients: Vec<Client>,
}

impl Serving {
    fn run(mut self) {
        while self.wait() {
            let now = Instant::now();
            self.accept(now);
            if let Some(document) = lock(&self.exchange.made).take() {
                for client in &mut self.clients {
                    client.answer(&*document);
                }
            }
            self.clients.retain_mut(|client| client.advance(now));
            if self.clients.iter().any(Client::waits) {
                self.exchange.asked.store(true, Ordering::Release);
            }
        }
    }

    /// Accepts the clients that wait, as far as there are places. The request of one may be there already, which secures
    /// its place.
    fn accept(&mut self, now: Instant) {
        for _ in 0..MOST_CLIENTS {
            let Some(place) = self.place() else { return };
            match self.listener.accept() {
                Ok((socket, _)) => {
                    if place < self.clients.len() {
                        self.clients.remove(place);
                    }
                    if let Some(mut client) = Client::new(socket, now)
                        && client.advance(now)
                    {
                        self.clients.push(client);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has left, or the process has no descriptor: the listener stays ready meanwhile.
                Err(_) => return thread::sleep(PAUSE),
            }
        }
    }

    /// The place of another client: a free one, or that of a client that makes room.
    fn place(&self) -> Option<usize> {
        let (count, clients) = (self.clients.len(), self.clients.iter().enumerate());
        let leaving = clients.filter_map(|(place, client)| Some((client.leaves()?, place)));
        match count < MOST_CLIENTS {
            true => Some(count),
            false => leaving.min().map(|(_, place)| place),
        }
    }

    /// Waits for an event; false if the thread is to end.
    fn wait(&mut self) -> bool {
        let mut polled = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        // The end of a client that waits is noticed when it gets its response.
        let clients = self.clients.iter().filter(|client| !client.waits());
        polled.extend(clients.map(|client| PollFd::new(client.as_fd(), client.interest())));
        if self.place().is_some() {
            polled.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let (began, some_wait) = (Instant::now(), self.clients.iter().any(Client::waits));
        let due = self.clients.iter().map(Client::deadline).min();
        let due = due.map(|due| if some_wait { due.min(began + LOOK) } else { due });
        let left = due.map(|due| due.saturating_duration_since(began).as_millis() + 1);
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(&mut polled, timeout);
        let took = began.elapsed();
        self.clients.iter_mut().for_each(|client| client.looked(took));
        let mut bytes = [0; 64];
        // The end of the stream, that is, nothing read, says that the endpoint was dropped.
        !matches!(self.woken.read(&mut bytes), Ok(0))
    }
}

#[cfg(test)]
mod tests;
