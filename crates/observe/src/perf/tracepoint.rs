//! Tracepoints by name: their id, and the offsets of their fields in the payload of a sample.
//!
//! Input: the `format` file of a tracepoint, from tracefs. If tracefs is not mounted, a thread mounts it in its own mount
//! namespace, which ends with the thread; the mount is visible nowhere else.

use std::fs;
use std::io;
use std::path::Path;

use corelane_host::mounts;

use crate::ObserveError;

/// The mount points of tracefs: its own since Linux 4.1, under debugfs before.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// One tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    /// `subsystem:name`.
    pub name: String,
    /// The number for `perf_event_open(2)`.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

/// The location of a field in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
}

impl Tracepoint {
    /// Finds the tracepoint `name` of `subsystem` in tracefs.
    pub(crate) fn find(subsystem: &str, name: &str) -> Result<Self, ObserveError> {
        let full_name = format!("{subsystem}:{name}");
        let file = format!("events/{subsystem}/{name}/format");
        let text = read_format(&file).map_err(|cause| ObserveError::Tracefs {
            event: full_name.clone(),
            cause,
        })?;
        Self::parse(full_name, &text)
    }

    /// Parses a `format` file (`Documentation/trace/events.rst`).
    fn parse(name: String, text: &str) -> Result<Self, ObserveError> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let fields = text.lines().filter_map(parse_field).collect();
        match id {
            Some(id) => Ok(Self { name, id, fields }),
            None => Err(lacks(&name, "ID")),
        }
    }

    /// The location of `field`.
    pub(crate) fn field(&self, field: &str) -> Result<Field, ObserveError> {
        let found = self.fields.iter().find(|(name, _)| name == field);
        found
            .map(|(_, place)| *place)
            .ok_or_else(|| lacks(&self.name, field))
    }
}

fn lacks(event: &str, field: &str) -> ObserveError {
    let what = format!("the format of tracepoint {event} lacks {field}: this kernel writes it differently");
    ObserveError::Refused(what)
}

impl Field {
    /// The field's value in `payload`, in the machine's byte order; 0 if the payload is too short.
    pub(crate) fn value(self, payload: &[u8]) -> u64 {
        let from_field = payload.get(self.offset..).unwrap_or_default();
        let Some(bytes) = from_field.get(..self.size) else {
            return 0;
        };
        let mut whole = [0; 8];
        if cfg!(target_endian = "big") {
            whole[8 - self.size..].copy_from_slice(bytes);
        } else {
            whole[..self.size].copy_from_slice(bytes);
        }
        u64::from_ne_bytes(whole)
    }
}

/// `field:unsigned int flags; offset:16; size:4; signed:0;` behind a tab, for fields of up to 8 bytes.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let name = parts.next()?.strip_prefix("field:")?.split_whitespace().last()?;
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    (size <= 8).then(|| (name.to_owned(), Field { offset, size }))
}

/// The text of a file of tracefs, from its mount point or from a private mount.
fn read_format(file: &str) -> io::Result<String> {
    let mut cause = io::Error::from(io::ErrorKind::NotFound);
    for root in TRACEFS {
        match fs::read_to_string(Path::new(root).join(file)) {
            Ok(text) => return Ok(text),
            Err(error) => cause = error,
        }
    }
    if TRACEFS.iter().any(|root| Path::new(root).join("events").exists()) {
        return Err(cause);
    }
    // Read-only would make the machine's own mounts so: tracefs has one instance.
    mounts::with_own("tracefs", TRACEFS[0], false, |mounted| {
        mounted?;
        fs::read_to_string(Path::new(TRACEFS[0]).join(file))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMAT: &str = "\
name: contention_begin
ID: 408
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:void * lock_addr;	offset:8;	size:8;	signed:0;
	field:unsigned int flags;	offset:16;	size:4;	signed:0;

print fmt: \"%p (flags=%s)\", REC->lock_addr, __print_flags(REC->flags, \"|\", { (1U << 0), \"SPIN\" })
";

    #[test]
    fn fields_are_found_where_the_format_puts_them() {
        let point = Tracepoint::parse("lock:contention_begin".to_owned(), FORMAT).unwrap();
        assert_eq!(point.id, 408);
        let mut payload = [0_u8; 20];
        payload[8..16].copy_from_slice(&0xffff_8880_1234_5678_u64.to_ne_bytes());
        payload[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(
            point.field("lock_addr").unwrap().value(&payload),
            0xffff_8880_1234_5678
        );
        assert_eq!(point.field("flags").unwrap().value(&payload), 3);
        assert_eq!(point.field("flags").unwrap().value(&payload[..17]), 0);
    }

    #[test]
    fn a_missing_field_is_named() {
        let point = Tracepoint::parse("lock:contention_begin".to_owned(), FORMAT).unwrap();
        let error = point.field("ret").unwrap_err().to_string();
        assert!(
            error.contains("lock:contention_begin") && error.contains("ret"),
            "{error}"
        );
        assert!(Tracepoint::parse("x:y".to_owned(), "nothing").is_err());
    }

    #[test]
    fn an_absent_tracepoint_is_an_error_that_says_what_to_mount() {
        let error = Tracepoint::find("lock", "no_such_point").unwrap_err().to_string();
        assert!(error.contains("lock:no_such_point"), "{error}");
        assert!(error.contains("mount -t tracefs"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(field:|ID:|offset:|size:|[a-z0-9 ;:\t\n]){0,40}") {
            if let Ok(point) = Tracepoint::parse("x:y".to_owned(), &text) {
                for (_, field) in point.fields {
                    field.value(&[0; 64]);
                }
            }
        }
    }
}
