//! Proxies that the environment names for a URL, as curl reads them. Generators use none: a report that did not say so
//! would be of another way than the one that curl takes.

use corelane_proto::http::url::{Scheme, Url};

/// A note for requests to this URL, if a variable names a proxy for it.
pub fn note(url: &Url, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    // Upper case `HTTP_PROXY` is ignored, since a CGI program could be given it by a request (httpoxy).
    let names: &[&'static str] = match url.scheme {
        Scheme::Http => &["http_proxy", "all_proxy", "ALL_PROXY"],
        Scheme::Https => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let given = |name: &&'static str| Some((*name, variable(name).filter(|value| !value.is_empty())?));
    let set = |names: &[&'static str]| names.iter().find_map(&given);
    let (name, proxy) = set(names)?;
    let excepted = set(&["no_proxy", "NO_PROXY"]).unwrap_or_default().1;
    let mut excepted = excepted.split([',', ' ']);
    let (proxy, server) = (without_password(&proxy), url.authority());
    (!excepted.any(|domain| is_within(&url.host, domain)))
        .then(|| format!("{name}={proxy} is set and not used: requests go to {server} itself"))
}

/// Whether a host is one of `no_proxy`: this name or one below it, or any with `*`.
fn is_within(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
    let domain = domain.strip_prefix('.').unwrap_or(&domain);
    let domain = domain.trim_start_matches('[').trim_end_matches(']');
    let below = || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    domain == "*" || (!domain.is_empty() && (host == domain || below()))
}

/// A proxy without user name and password.
fn without_password(proxy: &str) -> String {
    match (proxy.split_once("://"), proxy.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => proxy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        note(&url.parse().unwrap(), variable)
    }

    #[test]
    fn a_proxy_of_the_environment_is_named_as_curl_would_use_it() {
        let proxy = "http://user:secret@proxy:3128";
        let named = "http_proxy=http://proxy:3128 is set and not used: requests go to a.example:8080 itself";
        assert_eq!(
            of("http://a.example:8080/", &[("http_proxy", proxy)]).as_deref(),
            Some(named)
        );
        for (url, variables, noted) in [
            ("http://a/", &[("HTTP_PROXY", proxy)][..], false),
            ("http://a/", &[("https_proxy", proxy)], false),
            ("https://a/", &[("HTTPS_PROXY", proxy)], true),
            ("https://a/", &[("ALL_PROXY", proxy)], true),
            ("http://a/", &[("http_proxy", "")], false),
            ("http://a/", &[], false),
            ("http://a/", &[("http_proxy", proxy), ("no_proxy", "*")], false),
            (
                "http://a.b.example/",
                &[("http_proxy", proxy), ("NO_PROXY", "c, .B.example")],
                false,
            ),
            (
                "http://ab.example/",
                &[("http_proxy", proxy), ("no_proxy", "b.example")],
                true,
            ),
            (
                "http://[::1]/",
                &[("http_proxy", proxy), ("no_proxy", "localhost,[::1]")],
                false,
            ),
        ] {
            assert_eq!(of(url, variables).is_some(), noted, "{url} {variables:?}");
        }
    }
}
