use super::*;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposition, Labels};
use corelane_tests::{PATIENCE, until};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// A document with one number.
struct Counted(u64);

static COUNTED: Metric<u64> = Metric::explaining("frames_total", "frames", Show::Count)
    .about("Frames.")
    .read(|count| Some(Sample::Number(*count as f64)));

impl Exposed for Counted {
    fn expose(&self, exposition: &mut Exposition) {
        exposition.add("test", &COUNTED, [(Labels::new(), &self.0)]);
    }
}

/// A document of some 4 MB.
struct Many;

impl Exposed for Many {
    fn expose(&self, exposition: &mut Exposition) {
        let labels = |number: u64| vec![("number", format!("{number:0>40}"))];
        exposition.add("test", &COUNTED, (0..50_000).map(|number| (labels(number), &7)));
    }
}

fn endpoint() -> (Endpoint, SocketAddr) {
    let address = Remote::Ip("127.0.0.1:0".parse().unwrap());
    let endpoint = Endpoint::listen(&address).unwrap();
    let Remote::Ip(address) = endpoint.address else {
        panic!("a port");
    };
    (endpoint, address)
}

/// Reads a response to its end while the control thread looks; the documents count the looks that made one.
fn response(endpoint: &Endpoint, mut stream: TcpStream) -> String {
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    until("the response has ended", || {
        endpoint.look(|| Box::new(Counted(7)));
        reader.is_finished()
    });
    reader.join().unwrap().unwrap()
}

fn asked(endpoint: &Endpoint, address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    response(endpoint, stream)
}

#[test]
fn only_the_socket_of_an_ended_process_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    let address = Remote::Unix(path.clone().into());
    // A killed process leaves its socket: closing a listener does not remove it either.
    drop(UnixListener::bind(&path).unwrap());
    let endpoint = Endpoint::listen(&address).unwrap();
    assert!(Endpoint::listen(&address).is_err(), "a listener was replaced");
    drop(endpoint);
    assert!(!path.exists());
    fs::write(&path, "a file").unwrap();
    assert!(Endpoint::listen(&address).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
}

#[test]
fn a_client_that_does_not_read_is_ended_by_the_deadline() {
    let (socket, mut peer) = UnixStream::pair().unwrap();
    let now = Instant::now();
    let mut client = Client::new(std::os::fd::OwnedFd::from(socket).into(), now).unwrap();
    peer.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert!(client.advance(now) && client.waits());
    // More than the buffers of both sockets take.
    client.answer(&Many);
    let deadline = client.deadline();
    assert!(client.advance(deadline - Duration::from_millis(1)));
    assert!(!client.advance(deadline));
}

#[test]
fn a_pause_of_the_machine_is_no_time_for_a_client_that_waits_for_a_document() {
    let (socket, mut peer) = UnixStream::pair().unwrap();
    let now = Instant::now();
    let mut client = Client::new(std::os::fd::OwnedFd::from(socket).into(), now).unwrap();
    let (deadline, pause) = (client.deadline(), Duration::from_secs(3_600));
    // It has sent no request: that takes no control thread.
    client.looked(pause);
    assert_eq!(client.deadline(), deadline);
    peer.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert!(client.advance(now) && client.waits());
    client.looked(LOOK);
    assert_eq!(client.deadline(), deadline);
    client.looked(pause);
    assert!(client.advance(now + pause) && client.waits());
    assert!(client.advance(client.deadline()) && !client.waits());
}

#[test]
fn every_request_gets_the_metrics_or_the_reason_why_not() {
    let (endpoint, address) = endpoint();
    let long = format!(
        "GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(9_000)
    );
    for (request, status, part) in [
        (
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "200 OK",
            "\r\n\r\n# TYPE test_frames counter\n# HELP test_frames Frames.\ntest_frames_total 7\n# EOF\n",
        ),
        (
            "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n",
            "200 OK",
            "\r\n\r\n# TYPE test_frames_total counter\n# HELP test_frames_total Frames.\ntest_frames_total 7\n",
        ),
        (
            "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "200 OK",
            "Content-Length: ",
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
            "404 Not Found",
            "Content-Length: ",
        ),
        ("HEAD nonsense\r\n\r\n", "400 Bad Request", "Content-Length: "),
        (
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "404 Not Found",
            "at /metrics",
        ),
        (
            "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab",
            "405 Method Not Allowed",
            "Allow: GET, HEAD\r\n",
        ),
        ("nonsense\r\n\r\n", "400 Bad Request", "\r\n\r\n"),
        (&long, "431 ", "8192"),
    ] {
        let response = asked(&endpoint, address, request);
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}{response}"
        );
        assert!(response.contains(part), "{request}{response}");
        assert_eq!(
            response.ends_with("\r\n\r\n"),
            request.starts_with("HEAD"),
            "{response}"
        );
    }
}

#[test]
fn a_client_that_sends_half_a_request_gets_408_and_delays_no_other() {
    let (endpoint, address) = endpoint();
    // Answers another client beside a slow one; if that one has no response by then, the other has not waited for it.
    let answers_beside = || {
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\nHost").unwrap();
        let whole = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(asked(&endpoint, address, whole).starts_with("HTTP/1.1 200"));
        slow.set_nonblocking(true).unwrap();
        let waits = slow
            .peek(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        slow.set_nonblocking(false).unwrap();
        waits.then_some(slow)
    };
    // Again because this test may wait longer for a CPU than the endpoint for a client.
    let slow = (0..5).find_map(|_| answers_beside());
    let response = response(
        &endpoint,
        slow.expect("another client waited for the slow one each time"),
    );
    assert!(response.starts_with("HTTP/1.1 408 Request Timeout"), "{response}");
}

#[test]
fn a_client_that_is_given_no_document_gets_503() {
    let (_endpoint, address) = endpoint();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 503 Service Unavailable"), "{text}");
}

/// A client that goes on sending after its response, faster than it is read, delays neither the next client nor its own end.
#[test]
fn a_client_that_never_stops_sending_delays_nobody() {
    let (endpoint, address) = endpoint();
    let flooding = TcpStream::connect(address).unwrap();
    let floods = [(); 4].map(|()| {
        let mut flooding = flooding.try_clone().unwrap();
        thread::spawn(move || {
            let start = Instant::now();
            // Ends when the endpoint closes the connection.
            while flooding.write_all(&[b'x'; 65_536]).is_ok() {
                assert!(start.elapsed() < PATIENCE, "it is never closed");
            }
        })
    });
    let text = asked(&endpoint, address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    for flood in floods {
        flood.join().unwrap();
    }
}

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

/// The endpoint's thread, whose steps the test makes.
fn serving() -> (Serving, SocketAddr) {
    let listener = listener(&Remote::Ip("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let serving = Serving {
        listener,
        woken: UnixStream::pair().unwrap().0,
        exchange: Arc::default(),
        clients: Vec::new(),
    };
    (serving, address)
}

#[test]
fn idle_clients_make_room_the_oldest_first() {
    let (mut serving, address) = serving();
    let now = Instant::now();
    let mut idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut scrape = TcpStream::connect(address).unwrap();
    scrape.write_all(REQUEST).unwrap();
    until("the request has arrived", || {
        serving.accept(now);
        serving.clients.retain_mut(|client| client.advance(now));
        serving.clients.iter().any(Client::waits)
    });
    assert_eq!(serving.clients.len(), MOST_CLIENTS);
    assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
    let last = idle.last_mut().unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn clients_that_wait_for_a_document_keep_their_places() {
    let (mut serving, address) = serving();
    let now = Instant::now();
    let connected = || {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(REQUEST).unwrap();
        client
    };
    let mut clients: Vec<TcpStream> = (0..MOST_CLIENTS).map(|_| connected()).collect();
    until("all wait", || {
        serving.accept(now);
        serving.clients.retain_mut(|client| client.advance(now));
        serving.clients.iter().filter(|client| client.waits()).count() == MOST_CLIENTS
    });
    clients.push(connected());
    serving.accept(now);
    assert!(serving.clients.len() == MOST_CLIENTS && serving.clients.iter().all(Client::waits));
    // One that only stays after its response makes room.
    serving.clients[3].answer(&Counted(7));
    serving.clients.retain_mut(|client| client.advance(now));
    until("the last one waits", || {
        serving.accept(now);
        serving.clients.retain_mut(|client| client.advance(now));
        serving.clients.iter().filter(|client| client.waits()).count() == MOST_CLIENTS
    });
    let mut text = String::new();
    clients[3].read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}
