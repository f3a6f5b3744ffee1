//! `http` and `https` URLs (RFC 9110 4.2): parses text; returns scheme, host, port and target. Does not resolve names.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// Scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS, port 80 by default.
    Http,
    /// With TLS, port 443 by default.
    Https,
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// Scheme.
    pub scheme: Scheme,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The zone of an IPv6 address: the device of this machine that leads there. Written `%25eth0` (RFC 6874 2) or, as many
    /// clients take it, `%eth0`.
    pub zone: Option<String>,
    /// The port, explicit or the scheme's default.
    pub port: u16,
    /// Path and query for the request line; starts with `/`.
    pub target: String,
}

/// Why a URL is invalid or cannot be requested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Unsupported scheme, or none.
    #[error("'{0}' does not start with http:// or https://: write http://127.0.0.1:8080/")]
    Scheme(String),
    /// User name or password (RFC 9110 4.2.4).
    #[error("a URL with a user name or password: give them as a header")]
    User,
    /// Missing or invalid host.
    #[error("'{0}' is not a host: write a name, 127.0.0.1 or [::1]")]
    Host(String),
    /// Invalid port number.
    #[error("'{0}' is not a port: write a number from 1 to 65535")]
    Port(String),
    /// Characters that are not allowed in a request line.
    #[error("the path or query has spaces, control or non-ASCII characters: write them as %20 and the like")]
    Target,
}

impl Url {
    /// The value of the `Host` field: without the port if it is the scheme's default, and without the zone, which means
    /// nothing to another machine (RFC 6874 4).
    #[must_use]
    pub fn authority(&self) -> String {
        self.authority_with("")
    }

    /// Host and port as written in a URL: with the zone.
    #[must_use]
    pub fn zoned_authority(&self) -> String {
        let zone = self.zone.as_ref().map(|zone| format!("%25{zone}"));
        self.authority_with(&zone.unwrap_or_default())
    }

    fn authority_with(&self, zone: &str) -> String {
        let host = match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}{zone}]"),
            Err(_) => self.host.clone(),
        };
        if self.port == self.scheme.port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// The URL that a reference in an answer to this one names, such as a `Location` (RFC 3986 5.2).
    ///
    /// # Errors
    /// If it is no `http` or `https` URL.
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = reference.split('#').next().unwrap_or_default();
        let (path, _) = split_target(&self.target);
        let origin = format!("{}://{}", self.scheme, self.zoned_authority());
        let has_scheme = reference
            .find([':', '/', '?'])
            .is_some_and(|end| reference[end..].starts_with(':'));
        let text = match reference {
            "" => self.to_string(),
            absolute if has_scheme => absolute.to_owned(),
            authority if authority.starts_with("//") => format!("{}:{authority}", self.scheme),
            rooted if rooted.starts_with('/') => format!("{origin}{rooted}"),
            query if query.starts_with('?') => format!("{origin}{path}{query}"),
            relative => {
                let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
                format!("{origin}{folder}{relative}")
            }
        };
        let joined: Self = text.parse()?;
        let (path, query) = split_target(&joined.target);
        let target = without_dots(path) + query;
        Ok(Self { target, ..joined })
    }

    /// The host, if it is an address and needs no resolving.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl Scheme {
    /// The default port of the scheme.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            _ => return Err(UrlError::Scheme(text.to_owned())),
        };
        // A fragment is only used by the client, and never sent.
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let (host, zone, port) = split_authority(authority)?;
        let port = match port {
            None => scheme.port(),
            Some(port) => match port.parse() {
                Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => number,
                _ => return Err(UrlError::Port(port.to_owned())),
            },
        };
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Target);
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            scheme,
            host,
            zone,
            port,
            target: format!("{slash}{target}"),
        })
    }
}

/// The path of a target, and its query with the question mark.
fn split_target(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// A path without its `.` and `..` segments (RFC 3986 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

/// Host, zone and port.
fn split_authority(authority: &str) -> Result<(String, Option<String>, Option<&str>), UrlError> {
    let wrong = || UrlError::Host(authority.to_owned());
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
        let (address, zone) = match host.split_once('%') {
            Some((address, zone)) => {
                let decoded = zone.strip_prefix("25").filter(|zone| !zone.is_empty());
                (address, Some(decoded.unwrap_or(zone).to_owned()))
            }
            None => (host, None),
        };
        let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or_else(wrong)?),
        };
        return Ok((address.to_string(), zone, port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(allowed) {
        return Err(wrong());
    }
    Ok((host.to_owned(), None, port))
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme, self.zoned_authority(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_written_again() {
        let cases = [
            (
                "http://127.0.0.1:8080/",
                "127.0.0.1",
                8080,
                "/",
                "http://127.0.0.1:8080/",
            ),
            (
                "http://example.org",
                "example.org",
                80,
                "/",
                "http://example.org/",
            ),
            (
                "https://[::1]:8443/a?b=c#d",
                "::1",
                8443,
                "/a?b=c",
                "https://[::1]:8443/a?b=c",
            ),
            (
                "HTTP://[2001:db8:0::1]?x",
                "2001:db8::1",
                80,
                "/?x",
                "http://[2001:db8::1]/?x",
            ),
        ];
        for (text, host, port, target, again) in cases {
            let url: Url = text.parse().unwrap();
            assert_eq!(
                (url.host.as_str(), url.port, url.target.as_str()),
                (host, port, target)
            );
            assert_eq!(url.to_string(), again);
        }
    }

    #[test]
    fn the_zone_of_an_address_is_no_part_of_what_is_sent() {
        for (text, zone) in [
            ("http://[fe80::1%25eth0]:8080/a", "eth0"),
            ("http://[fe80::1%eth0]:8080/a", "eth0"),
            ("http://[fe80::1%25]:8080/a", "25"),
            ("http://[fe80::1%2]:8080/a", "2"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.zone.as_deref()), ("fe80::1", Some(zone)));
            assert_eq!(url.authority(), "[fe80::1]:8080");
            let whole = format!("http://[fe80::1%25{zone}]:8080/a");
            assert_eq!(
                (url.to_string(), url.to_string().parse()),
                (whole, Ok(url.clone()))
            );
            assert_eq!(url.join("b").unwrap().zone, url.zone);
        }
    }

    #[test]
    fn a_reference_names_a_url_as_rfc_3986_5_4_lists_them() {
        let base: Url = "http://a/b/c/d;p?q".parse().unwrap();
        for (reference, joined) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g?y#s", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("g..", "http://a/b/c/g.."),
            ("./g/.", "http://a/b/c/g/"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://h:8443/x?y", "https://h:8443/x?y"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), joined, "{reference}");
        }
        for reference in ["ftp://a/", "mailto:a", "//", "/a b", "http:g"] {
            assert!(base.join(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn what_cannot_be_requested_is_refused_with_the_reason() {
        let cases = [
            ("ftp://a/", "does not start with http"),
            ("127.0.0.1:8080", "does not start with http"),
            ("http://user:secret@a/", "user name"),
            ("http:///path", "is not a host"),
            ("http://[::1/", "is not a host"),
            ("http://[%eth0]/", "is not a host"),
            ("http://10.0.0.1%eth0/", "is not a host"),
            ("http://a b/", "is not a host"),
            ("http://a:0/", "is not a port"),
            ("http://a:+80/", "is not a port"),
            ("http://a:99999/", "is not a port"),
            ("http://a/x y", "%20"),
            ("http://a/x\r\nHost: b", "%20"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
