//! Requests about the whole server.

use super::shared::VERSION;
use super::stats;
use super::worker::Worker;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::request::Control;

/// Executes a request and answers it.
pub(super) fn perform(control: &Control<'_>, worker: &mut Worker, out: &mut impl Output) {
    let mut words = control
        .line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let command = words.next().unwrap_or_default();
    let mut arguments = words.filter(|word| *word != b"noreply");
    let answer: &str = match command {
        b"version" => return put_version(out),
        b"stats" => return stats::answer(arguments.next(), worker, out),
        b"flush_all" => flush(arguments.next(), worker),
        b"verbosity" => match number(arguments.next()) {
            Some(_) => "OK\r\n",
            None => "CLIENT_ERROR bad command line format\r\n",
        },
        b"shutdown" => "SERVER_ERROR: shutdown not enabled\r\n",
        _ => "ERROR\r\n",
    };
    if !control.quiet {
        out.put(answer.as_bytes());
    }
}

fn put_version(out: &mut impl Output) {
    out.put(b"VERSION ");
    out.put(VERSION.as_bytes());
    out.put(b"\r\n");
}

fn flush(delay: Option<&[u8]>, worker: &mut Worker) -> &'static str {
    worker.events.flushes += 1;
    let at = match delay.map(|delay| number(Some(delay))) {
        None => None,
        Some(None) => return "CLIENT_ERROR invalid exptime argument\r\n",
        Some(Some(delay)) if delay > 0 => Some(worker.clock.expiry(delay)),
        Some(Some(_)) => None,
    };
    worker.flush(at);
    "OK\r\n"
}

fn number(word: Option<&[u8]>) -> Option<i32> {
    std::str::from_utf8(word?).ok()?.parse().ok()
}
