//! Objects generated on demand: takes a target, returns the response that it specifies, so that the client controls the
//! load.

use corelane_measure::quantity;
use std::time::Duration;

/// The content of `GET /`.
pub(super) const INDEX: &str = "\
/size/BYTES       that many bytes
/delay/DURATION   nothing, after a while
/chunks/N/SIZE    N chunks of SIZE bytes
/status/CODE      that status
/headers/N        N more fields
/echo             the body of the request
Any of them by query as well: /size/64KiB?delay=10ms&status=404&headers=5&chunks=4
";

/// Limit on generated fields, to bound memory: clients accept fewer.
const MOST_HEADERS: u16 = 1_000;

/// The largest object.
const LARGEST: u64 = 1 << 40;

/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(3_600);

/// Specification of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Object {
    /// The status.
    pub(super) status: u16,
    /// Bytes of the body; with chunks, bytes per chunk.
    pub(super) size: u64,
    /// Number of chunks; `None` for a body with Content-Length.
    pub(super) chunks: Option<u32>,
    /// Delay before the response begins.
    pub(super) delay: Duration,
    /// Number of additional header fields.
    pub(super) headers: u16,
    /// Content of the body.
    pub(super) content: Content,
}

/// Content of an object's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// The pattern.
    Pattern,
    /// The request's body, echoed.
    Echo,
    /// The list of objects.
    Index,
    /// Empty; the response lists the allowed methods.
    Methods,
}

impl Object {
    const PLAIN: Self = Self {
        status: 200,
        size: 0,
        chunks: None,
        delay: Duration::ZERO,
        headers: 0,
        content: Content::Pattern,
    };

    /// A response with this status and no body. 405 lists the allowed methods, as required (RFC 9110 15.5.6), and so
    /// does 204, the response to OPTIONS.
    pub(super) fn plain(status: u16) -> Self {
        let content = match status {
            204 | 405 => Content::Methods,
            _ => Content::Pattern,
        };
        Self {
            status,
            content,
            ..Self::PLAIN
        }
    }

    /// Parses a path and query; `None` if there is no such object.
    pub(super) fn read(path_and_query: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(path_and_query).ok()?;
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let mut object = Self::PLAIN;
        let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
        let what = segments.next().unwrap_or_default();
        match what {
            "" => (object.content, object.size) = (Content::Index, INDEX.len() as u64),
            "echo" => object.content = Content::Echo,
            "chunks" => {
                object.set(what, segments.next()?)?;
                object.set("size", segments.next()?)?;
            }
            _ => object.set(what, segments.next()?)?,
        }
        if segments.next().is_some() {
            return None;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            // Unknown settings are ignored: clients use them to bypass caches.
            if let Some((name, value)) = pair.split_once('=')
                && is_setting(name)
            {
                object.set(name, value)?;
            }
        }
        Some(object)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "size" => {
                // Fast path for plain digits, the usual form in benchmarks.
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                let size = if digits {
                    value.parse().ok()
                } else {
                    quantity::parse_size(value).ok()
                };
                self.size = size.filter(|size| *size <= LARGEST)?;
                self.content = Content::Pattern;
            }
            "delay" => {
                let delay = quantity::parse_duration(value).ok()?;
                self.delay = Some(delay).filter(|delay| *delay <= LONGEST_DELAY)?;
            }
            "status" => self.status = value.parse().ok().filter(|status| (200..=599).contains(status))?,
            "headers" => self.headers = value.parse().ok().filter(|headers| *headers <= MOST_HEADERS)?,
            "chunks" => self.chunks = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn is_setting(name: &str) -> bool {
    matches!(name, "size" | "delay" | "status" | "headers" | "chunks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_objects_alone_and_combined() {
        let plain = Object::PLAIN;
        let cases = [
            ("/size/1024", Object { size: 1_024, ..plain }),
            (
                "/size/64KiB?x=1",
                Object {
                    size: 65_536,
                    ..plain
                },
            ),
            (
                "/delay/10ms",
                Object {
                    delay: Duration::from_millis(10),
                    ..plain
                },
            ),
            (
                "/chunks/3/7",
                Object {
                    chunks: Some(3),
                    size: 7,
                    ..plain
                },
            ),
            ("/status/404", Object { status: 404, ..plain }),
            ("/headers/5", Object { headers: 5, ..plain }),
            (
                "/echo",
                Object {
                    content: Content::Echo,
                    ..plain
                },
            ),
            (
                "/size/9?delay=1s&status=503&headers=2&chunks=4",
                Object {
                    size: 9,
                    delay: Duration::from_secs(1),
                    status: 503,
                    headers: 2,
                    chunks: Some(4),
                    ..plain
                },
            ),
        ];
        for (target, object) in cases {
            assert_eq!(Object::read(target.as_bytes()), Some(object), "{target}");
        }
        assert_eq!(Object::read(b"/").unwrap().content, Content::Index);
    }

    #[test]
    fn what_is_no_object_is_none() {
        for target in [
            "/nothing",
            "/size",
            "/size/",
            "/size/-1",
            "/size/1/2",
            "/size/99999999999999",
            "/status/99",
            "/status/600",
            "/status/100",
            "/delay/5000s",
            "/headers/1001",
            "/chunks/3",
            "/size/1?status=x",
            "/\u{e9}",
        ] {
            assert_eq!(Object::read(target.as_bytes()), None, "{target}");
        }
    }
}
