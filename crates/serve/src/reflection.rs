//! Which datagrams a server may answer, so that it neither answers answers nor sends to those who did not ask.

use std::net::IpAddr;

/// Ports that are never answered: 0 is invalid, and echo (7), quotd (17) and chargen (19) answer answers (RFC 862, 865,
/// 864), which would loop forever.
pub(crate) const UNANSWERED_PORTS: [u16; 4] = [0, 7, 17, 19];

/// Loopback, private (RFC 1918), unique local (RFC 4193) and link-local addresses.
pub(crate) fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_server_answers_only_local_networks() {
        let local = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
        ];
        let public = ["8.8.8.8", "172.32.0.1", "2001:db8::1", "::ffff:8.8.8.8"];
        for address in local {
            assert!(is_local(address.parse().unwrap()), "{address}");
        }
        for address in public {
            assert!(!is_local(address.parse().unwrap()), "{address}");
        }
    }
}
