//! What a plan must hold before anything is opened, and what of it may change while a bridge runs.

use super::error::BridgeError;
use super::plan::{BridgePlan, LONGEST_BURST};
use corelane_link::LinkSpec;
use corelane_packet::HashTypes;
use corelane_packet::tunnel::Kind;
use corelane_stage::StagePlans;
use corelane_stage::dispatch::{Method, Policy, Protocol};
use corelane_stage::reassembly::Placement;

pub(super) fn refused<T>(setting: &'static str, why: impl Into<String>) -> Result<T, BridgeError> {
    Err(BridgeError::Setting(setting, why.into()))
}

/// Whether decapsulation takes off something, and whether that needs the keys given.
pub(super) fn check_kinds(stages: &StagePlans) -> Result<(), BridgeError> {
    match &stages.decapsulate {
        Some(plan) if plan.kinds.is_empty() => {
            let why = "no kinds of tunnels: name one, or leave decapsulate out";
            refused("decapsulate", why)
        }
        Some(plan) if plan.keys.is_some() && !plan.kinds.contains(&Kind::Esp) => {
            let why = "keys are for esp, which is not among the kinds: add it, or leave keys out";
            refused("decapsulate", why)
        }
        _ => Ok(()),
    }
}

impl BridgePlan {
    /// Whether it can be run, as far as this is known without opening a link or reading a table.
    ///
    /// # Errors
    /// Names the setting that cannot be, alone or with another one.
    pub fn check(&self) -> Result<(), BridgeError> {
        self.specs().map(drop)
    }

    /// The checked links, to be opened for the frames that the stages make.
    pub(super) fn specs(&self) -> Result<Vec<LinkSpec>, BridgeError> {
        let specs = self.links.iter().map(|link| link.parse());
        let specs = specs.collect::<Result<Vec<LinkSpec>, _>>()?;
        if specs.len() < 2 {
            return refused("link", "a bridge needs two links or more");
        }
        LinkSpec::check_together(&specs)?;
        if !(1..=LONGEST_BURST).contains(&self.burst) {
            let (burst, most) = (self.burst, LONGEST_BURST);
            return refused("batch", format!("{burst} frames: give 1 to {most}"));
        }
        self.check_buckets()?;
        self.check_tunnels()?;
        self.check_merged(specs)
    }

    fn check_buckets(&self) -> Result<(), BridgeError> {
        let at = self.stages.reassemble.as_ref().map(|plan| plan.at);
        let Some(plan) = &self.buckets else {
            return match at {
                Some(Placement::Owner) => refused(
                    "reassemble",
                    "without buckets no fragment is brought to its owner: add buckets, or give at=arrival",
                ),
                _ => Ok(()),
            };
        };
        if let Err(why) = plan.dispatch.validate() {
            return refused("dispatch", why);
        }
        let (buckets, named) = (usize::from(plan.buckets), plan.table.buckets());
        if named > buckets {
            let why = format!("the table names {named} buckets, and there are {buckets}");
            return refused("buckets", why);
        }
        let hashes = |protocol: &Protocol| {
            let rule = plan.dispatch.rule(*protocol);
            rule.method != Method::Direct && rule.policy != Policy::Source
        };
        match Protocol::ALL.into_iter().find(hashes) {
            Some(protocol) if plan.hash_types == HashTypes::NONE => {
                let policy = plan.dispatch.rule(protocol).policy;
                let why =
                    format!("there is nothing to hash for the policy {policy} of {protocol}: give source");
                refused("hash", why)
            }
            _ => Ok(()),
        }
    }

    fn check_tunnels(&self) -> Result<(), BridgeError> {
        let (unwrap, wrap) = (&self.stages.decapsulate, &self.stages.encapsulate);
        let links = [
            ("decapsulate", unwrap.as_ref().and_then(|plan| plan.link)),
            ("encapsulate", wrap.as_ref().and_then(|plan| plan.link)),
        ];
        for (stage, link) in links {
            if let Some(link) = link.filter(|link| *link >= self.links.len()) {
                let why = format!("link {link}: there are {}, and the first is 0", self.links.len());
                return refused(stage, why);
            }
        }
        check_kinds(&self.stages)?;
        let Some(wrap) = wrap else { return Ok(()) };
        if let Err(why) = wrap.check() {
            return refused("encapsulate", why.to_string());
        }
        let unwraps_the_same =
            |from: Option<usize>| from.is_none() || wrap.link.is_none() || from == wrap.link;
        match unwrap {
            Some(unwrap) if unwrap.kinds.contains(&wrap.wrap.kind()) && unwraps_the_same(unwrap.link) => {
                let why = "what decapsulate takes out of such a tunnel would be put into one again: give each its own link";
                refused("encapsulate", why)
            }
            _ => Ok(()),
        }
    }

    /// Merged segments are longer than an MTU: whether what follows takes them.
    fn check_merged(&self, specs: Vec<LinkSpec>) -> Result<Vec<LinkSpec>, BridgeError> {
        let stages = &self.stages;
        match (&stages.coalesce, &stages.segment) {
            (None, None) | (Some(_), Some(_)) => return Ok(specs),
            (None, Some(_)) => {
                return refused("segment", "there are no merged segments to cut: add coalesce");
            }
            (Some(_), None) => {}
        }
        if stages.encapsulate.is_some() || stages.fragment.is_some() {
            let why = "merged segments are too long for encapsulate and fragment: add segment";
            return refused("coalesce", why);
        }
        let merged: Result<_, _> = specs.into_iter().map(LinkSpec::for_merged).collect();
        merged.or_else(|error| refused("coalesce", format!("{error}, or add segment")))
    }

    /// Whether a bridge that runs this plan can go on with another one.
    ///
    /// # Errors
    /// Names the setting that cannot change.
    pub(super) fn check_change(&self, to: &BridgePlan) -> Result<(), BridgeError> {
        let buckets = |plan: &BridgePlan| plan.buckets.as_ref().map(|plan| plan.buckets);
        let keys = |plan: &BridgePlan| {
            plan.stages
                .decapsulate
                .as_ref()
                .and_then(|plan| plan.keys.clone())
        };
        let placement = |plan: &BridgePlan| plan.stages.reassemble.as_ref().map(|plan| plan.at);
        let fixed = [
            ("link", self.links != to.links),
            ("workers", self.workers != to.workers),
            ("cpus", self.cpus != to.cpus),
            ("batch", self.burst != to.burst),
            ("buckets", buckets(self) != buckets(to)),
            ("reassemble", placement(self) != placement(to)),
            ("decapsulate", keys(self) != keys(to)),
        ];
        let changed = fixed.into_iter().find(|(_, is_other)| *is_other);
        let stage = || self.stages.added_or_removed(&to.stages);
        match changed.map(|(name, _)| name).or_else(stage) {
            Some(name) => refused(name, "this cannot change while the bridge runs: restart it"),
            None => Ok(()),
        }
    }
}
