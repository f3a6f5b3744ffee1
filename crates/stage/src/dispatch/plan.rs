//! The plan of a dispatch: a method and a policy for each protocol, and the limit of its queues.

use corelane_measure::words;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

words!(Method, Policy, Protocol);

/// Whether a frame is handled where it is, or from a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Always here, whatever its bucket.
    Direct,
    /// Always from the queue of its bucket.
    Deferred,
    /// Here, if its bucket is this one and nothing waits in the bucket's queues; otherwise from the queue of its bucket.
    #[default]
    Hybrid,
}

/// How the bucket of a frame is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// By the link that it came from: the index of the link, modulo buckets.
    Source,
    /// By the hash, modulo buckets.
    Flow,
    /// By the hash and the indirection table.
    Cpu,
}

/// What a queue is for. The names are those of `netstat -Q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Every frame, as it comes from its link.
    Ether,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// ARP.
    Arp,
    /// Everything else.
    Other,
    /// IPv4 packets that were made of others here: reassembled, or taken out of a tunnel.
    IpDirect,
    /// The same of IPv6.
    Ip6Direct,
}

impl Protocol {
    /// Their number.
    pub const COUNT: usize = 7;

    /// All, in the order of their numbers.
    pub const ALL: [Protocol; Self::COUNT] = [
        Protocol::Ether,
        Protocol::Ip,
        Protocol::Ip6,
        Protocol::Arp,
        Protocol::Other,
        Protocol::IpDirect,
        Protocol::Ip6Direct,
    ];

    /// The method, `None` for that of the dispatch, and the policy, unless a plan has others.
    fn usual(self) -> (Option<Method>, Policy) {
        match self {
            Protocol::Ether => (Some(Method::Direct), Policy::Cpu),
            Protocol::Ip | Protocol::Ip6 | Protocol::IpDirect | Protocol::Ip6Direct => (None, Policy::Cpu),
            Protocol::Arp | Protocol::Other => (None, Policy::Source),
        }
    }
}

/// A method and a policy of one protocol, written `deferred/flow`; `default` is the method of the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// `None`: that of the dispatch.
    pub method: Option<Method>,
    /// `None`: the protocol's own.
    pub policy: Option<Policy>,
}

impl fmt::Display for Given {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.method {
            Some(method) => method.fmt(formatter)?,
            None => formatter.write_str("default")?,
        }
        self.policy
            .map_or(Ok(()), |policy| write!(formatter, "/{policy}"))
    }
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Given, String> {
        let (method, policy) = match text.split_once('/') {
            Some((method, policy)) => (method, Some(policy)),
            None => (text, None),
        };
        let method = match method {
            "default" => None,
            method => Some(method.parse().map_err(|error| format!("{error}, or default"))?),
        };
        let policy = policy.map(str::parse).transpose();
        Ok(Given {
            method,
            policy: policy.map_err(|error: words::UnknownWord| error.to_string())?,
        })
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// The dispatch of all protocols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchPlan {
    /// The method of protocols that have none of their own.
    #[serde(default)]
    pub default: Method,
    /// Frames that wait for one bucket and protocol at most.
    #[serde(default = "usual_limit")]
    pub limit: u32,
    /// Methods and policies that differ from the usual ones.
    #[serde(flatten)]
    pub protocols: BTreeMap<Protocol, Given>,
}

fn usual_limit() -> u32 {
    DispatchPlan::LIMIT
}

impl Default for DispatchPlan {
    fn default() -> DispatchPlan {
        DispatchPlan {
            default: Method::default(),
            limit: DispatchPlan::LIMIT,
            protocols: BTreeMap::new(),
        }
    }
}

/// What holds for one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolRule {
    /// Where its frames are handled.
    pub method: Method,
    /// How their bucket is chosen.
    pub policy: Policy,
}

impl DispatchPlan {
    /// The usual limit of a queue, and the largest (`net.isr.defaultqlimit`, `net.isr.maxqlimit` of FreeBSD).
    pub const LIMIT: u32 = 256;
    /// See [`DispatchPlan::LIMIT`].
    pub const LARGEST_LIMIT: u32 = 10_240;

    /// What holds for a protocol.
    #[must_use]
    pub fn rule(&self, protocol: Protocol) -> ProtocolRule {
        let (method, policy) = protocol.usual();
        let given = self.protocols.get(&protocol);
        let method = given.map_or(method, |given| given.method);
        ProtocolRule {
            method: method.unwrap_or(self.default),
            policy: given.and_then(|given| given.policy).unwrap_or(policy),
        }
    }

    /// The method of a protocol as it was given: `None` for that of the dispatch.
    #[must_use]
    pub fn method_of(&self, protocol: Protocol) -> Option<Method> {
        let given = self.protocols.get(&protocol);
        given.map_or(protocol.usual().0, |given| given.method)
    }

    /// # Errors
    /// If the limit is not between 1 and [`DispatchPlan::LARGEST_LIMIT`], or a setting of a protocol would have no effect.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=DispatchPlan::LARGEST_LIMIT).contains(&self.limit) {
            return Err(format!(
                "a queue limit of {}: give 1 to {}",
                self.limit,
                DispatchPlan::LARGEST_LIMIT
            ));
        }
        for (protocol, given) in &self.protocols {
            let is_usual = (given.method, given.policy) == (Some(Method::Direct), None);
            let is_by_link = given.policy.is_none_or(|policy| policy == Policy::Source);
            let why = match protocol {
                Protocol::Ether if !is_usual => {
                    "frames are queued by what they carry: leave ether out, or give direct"
                }
                Protocol::Arp | Protocol::Other if !is_by_link => "such frames have no hash: give source",
                _ => continue,
            };
            return Err(format!("{protocol} {given}: {why}"));
        }
        Ok(())
    }
}
