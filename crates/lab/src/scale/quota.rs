//! CPU quotas as the limit of a trial: readings of both sides before and after become words.

use crate::trial::{TrialHead, TrialStatus};
use corelane_host::counters::Throttling;
use corelane_load::RunOutcome;

/// The throttling of both sides at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    server: Throttling,
    generator: Throttling,
}

/// The quotas that were the limit of a trial, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaLimits {
    /// The server's, or that of both sides: the limit of what was measured.
    pub(crate) of_server: Option<String>,
    /// The generator's alone: the server could do more.
    pub(crate) of_generator: Option<String>,
    /// Both sides have the one that `of_server` names: it also explains what the generator was late with.
    pub(crate) is_shared: bool,
}

impl QuotaLimits {
    /// Ends a trial that is no result: it `failed`, or the generator was the limit.
    pub(crate) fn end(&self, head: &mut TrialHead, outcome: &RunOutcome, failed: Option<String>) {
        head.quota.clone_from(&self.of_server);
        head.lost.clone_from(&outcome.lost);
        let late = outcome.limited_by.as_ref().filter(|_| !self.is_shared);
        if let Some(failed) = failed {
            head.end(TrialStatus::Failed, failed);
        } else if let Some(limit) = self.of_generator.as_ref().or(late) {
            head.end(TrialStatus::GeneratorLimited, limit);
        }
    }
}

impl Quotas {
    /// Reads a process of each side, with its descendants.
    pub(crate) fn read(server: u32, generator: u32) -> Self {
        Self {
            server: Throttling::read(server),
            generator: Throttling::read(generator),
        }
    }

    /// What limited the sides since `earlier`.
    pub(crate) fn limits_since(&self, earlier: &Self) -> QuotaLimits {
        let server = self.server.limit_since(&earlier.server);
        let generator = self.generator.limit_since(&earlier.generator);
        let groups = [&server, &generator].map(|quota| quota.as_ref().map(|quota| &quota.group));
        let is_shared = server.is_some() && groups[0] == groups[1];
        let whose = if is_shared { "both sides'" } else { "the server's" };
        let generator = generator.filter(|_| !is_shared);
        QuotaLimits {
            of_server: server.map(|quota| quota.words(whose)),
            of_generator: generator.map(|quota| quota.words("the generator's")),
            is_shared,
        }
    }
}
