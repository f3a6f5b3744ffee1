//! Address pools in text form: `10.11.2.0/24`, `10.11.2.3-10.11.2.9`, `10.11.2.3,10.11.2.32`, and comma-separated lists
//! of those.
//!
//! In: text. Out: addresses, in the order written. An IPv4 prefix yields its host addresses, without network and
//! broadcast address (invalid as sources, RFC 1122 3.2.1.3), except for /31 (RFC 3021) and /32.

use ipnet::{IpAddrRange, IpNet, Ipv4AddrRange, Ipv4Subnets, Ipv6AddrRange, Ipv6Subnets};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// A list of addresses, prefixes and ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Prefix(IpNet),
    RangeV4(Ipv4Addr, Ipv4Addr),
    RangeV6(Ipv6Addr, Ipv6Addr),
}

/// Invalid pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{part}' is not an address, prefix or range: write 10.11.2.3, 10.11.2.0/24, 10.11.2.3-10.11.2.9, or a list with commas"
)]
pub struct PoolError {
    part: String,
}

impl Pool {
    /// The addresses, in the order written.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.0.iter().flat_map(|part| part.addresses())
    }

    /// The number of addresses, at most that of a machine word.
    #[must_use]
    pub fn size(&self) -> usize {
        let sizes = self.0.iter().map(|part| part.addresses().size_hint().0);
        sizes.fold(0, usize::saturating_add)
    }

    /// The addresses of the same family as `like`, in the order written. Prefixes of the other family are skipped
    /// without iterating over them.
    pub fn addresses_like(&self, like: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
        let ranges = self.0.iter().map(|part| part.addresses());
        ranges
            .filter(move |range| matches!(range, IpAddrRange::V4(_)) == like.is_ipv4())
            .flatten()
    }

    /// The prefixes that cover the pool exactly, for routes in a test bed.
    #[must_use]
    pub fn prefixes(&self) -> Vec<IpNet> {
        let of_part = |part: &Part| -> Vec<IpNet> {
            match *part {
                Part::Prefix(prefix) => vec![prefix],
                Part::RangeV4(first, last) => Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect(),
                Part::RangeV6(first, last) => Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect(),
            }
        };
        self.0.iter().flat_map(of_part).collect()
    }
}

impl FromIterator<IpNet> for Pool {
    fn from_iter<Prefixes: IntoIterator<Item = IpNet>>(prefixes: Prefixes) -> Self {
        Self(prefixes.into_iter().map(Part::Prefix).collect())
    }
}

impl Part {
    fn addresses(self) -> IpAddrRange {
        match self {
            Self::Prefix(prefix) => prefix.hosts(),
            Self::RangeV4(first, last) => Ipv4AddrRange::new(first, last).into(),
            Self::RangeV6(first, last) => Ipv6AddrRange::new(first, last).into(),
        }
    }
}

impl FromStr for Part {
    type Err = PoolError;

    fn from_str(text: &str) -> Result<Self, PoolError> {
        let wrong = || PoolError {
            part: text.to_owned(),
        };
        let Some((first, last)) = text.split_once('-') else {
            let prefix = text.parse().or_else(|_| text.parse().map(IpAddr::into));
            return prefix.map(Self::Prefix).map_err(|_| wrong());
        };
        let address = |text: &str| text.trim().parse().map_err(|_| wrong());
        match (address(first)?, address(last)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => Ok(Self::RangeV4(first, last)),
            (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => Ok(Self::RangeV6(first, last)),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Pool {
    type Err = PoolError;

    fn from_str(text: &str) -> Result<Self, PoolError> {
        let parts = text.split(',').map(|part| part.trim().parse());
        parts.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str(",")?;
            }
            match part {
                Part::Prefix(prefix) if prefix.prefix_len() == prefix.max_prefix_len() => {
                    write!(out, "{}", prefix.addr())?;
                }
                Part::Prefix(prefix) => write!(out, "{prefix}")?,
                Part::RangeV4(first, last) => write!(out, "{first}-{last}")?,
                Part::RangeV6(first, last) => write!(out, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

corelane_measure::texts!(Pool);

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<String> {
        text.parse::<Pool>()
            .unwrap()
            .addresses()
            .map(|address| address.to_string())
            .collect()
    }

    #[test]
    fn lists_prefixes_and_ranges_keep_their_order() {
        let pool = "10.0.0.9, 10.0.0.0/30,10.0.1.1-10.0.1.3,2001:db8::1";
        let expected = [
            "10.0.0.9",
            "10.0.0.1",
            "10.0.0.2",
            "10.0.1.1",
            "10.0.1.2",
            "10.0.1.3",
            "2001:db8::1",
        ];
        assert_eq!(addresses(pool), expected);
        assert_eq!(
            pool.parse::<Pool>().unwrap().to_string(),
            "10.0.0.9,10.0.0.0/30,10.0.1.1-10.0.1.3,2001:db8::1"
        );
    }

    #[test]
    fn what_is_no_pool_is_named() {
        for (pool, part) in [
            ("10.0.0.1,nonsense", "nonsense"),
            ("10.0.0.9-10.0.0.1", "10.0.0.9-10.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(
                pool.parse::<Pool>(),
                Err(PoolError {
                    part: part.to_owned()
                })
            );
        }
    }

    #[test]
    fn the_prefixes_of_a_range_cover_it_exactly() {
        let pool: Pool = "10.0.0.3-10.0.0.9".parse().unwrap();
        let covered: usize = pool
            .prefixes()
            .iter()
            .map(|prefix| 1usize << (32 - prefix.prefix_len()))
            .sum();
        assert_eq!(covered, 7);
        assert!(
            pool.addresses()
                .all(|address| pool.prefixes().iter().any(|prefix| prefix.contains(&address)))
        );
    }
}
