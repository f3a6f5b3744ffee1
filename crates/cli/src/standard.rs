//! Standard output and standard error, either of which may be closed or full. Neither ends a verb, or changes its verdict.

use std::io::{self, BufWriter, Stdout, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

/// Standard output, whose first error is remembered for [`lost`]: a verb ignores it.
pub struct Out(Stdout);

/// Standard output.
pub fn out() -> Out {
    Out(stdout())
}

/// The first error of standard output, unless its reader had closed it.
static LOST: OnceLock<String> = OnceLock::new();

fn remembered<T>(written: io::Result<T>) -> io::Result<T> {
    written.inspect_err(|error| match error.kind() {
        // A reader that has what it wanted, as `head` does.
        io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted => {}
        _ => drop(LOST.set(error.to_string())),
    })
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        remembered(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        remembered(self.0.flush())
    }
}

impl AsFd for Out {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Why what a verb printed is lost. `None` if nothing is, or its reader closed standard output.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Writes text to standard output.
pub fn write_out(text: &str) {
    let mut out = out();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes lines to standard output, until one cannot be written.
pub fn write_lines(lines: impl IntoIterator<Item = String>) {
    let mut out = BufWriter::new(out());
    let written = lines.into_iter().try_for_each(|line| writeln!(out, "{line}"));
    let _ = written.and_then(|()| out.flush());
}

/// Writes text to standard error. It is lost if standard error is closed or full.
pub fn say(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}
