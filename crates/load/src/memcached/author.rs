//! Who wrote a value that was read, and who added to it.

use super::counts::WrongAnswers;
use super::judge::Judge;
use super::parts::{Parted, Versions};
use super::request::Asked;
use super::value::Origin;

/// Versions that a short value is compared with; with more, any is taken.
const MOST_CANDIDATES: usize = 256;

/// Which counter a wrong value is counted by.
type Kind = fn(&mut WrongAnswers) -> &mut u64;

impl Judge<'_> {
    /// The version in this run. What other runs wrote, or this one ahead, is older than everything that it wrote since.
    pub(super) fn version(&self, origin: Origin) -> u32 {
        match origin.run == self.requests.plan.run {
            true => origin.version,
            false => 0,
        }
    }

    pub(super) fn is_own(&self, run: u32) -> bool {
        run == self.requests.plan.run || run == self.requests.ahead
    }

    /// The latest version of a value from this origin and its parts.
    pub(super) fn latest(&self, origin: Origin, value: Parted<'_>) -> u32 {
        let own = value.parts().filter(|(run, _)| *run == self.requests.plan.run);
        own.map(|(_, version)| version)
            .fold(self.version(origin), u32::max)
    }

    /// Who wrote a value of this key; the kind of error, if nobody or the wrong one did, or added to it. `None`: that cannot be said.
    pub(super) fn origin(
        &self,
        key: (u64, usize),
        asked: &Asked,
        flags: u32,
        value: Parted<'_>,
    ) -> Result<Origin, Option<Kind>> {
        let origin = self.stored_by(key, asked, (flags, value.stored))?;
        let newest = self.shared.known[asked.index as usize].newest;
        let mut found = Versions::up_to(newest);
        for (run, version) in value.parts() {
            match run == self.requests.plan.run {
                true if version > newest || !found.insert(version) => {
                    return Err(Some(|wrong| &mut wrong.wrong_value));
                }
                true if u64::from(version) < asked.oldest => {
                    return Err(Some(|wrong| &mut wrong.old_version));
                }
                false if origin.run == self.requests.plan.run => {
                    return Err(Some(|wrong| &mut wrong.old_version));
                }
                _ => {}
            }
        }
        let added = self.shared.added.get(asked.index as usize);
        let is_whole = added.is_none_or(|added| added.are_in(found, self.version(origin), asked.version));
        is_whole
            .then_some(origin)
            .ok_or(Some(|wrong| &mut wrong.missing_part))
    }

    /// The same, of the value as it was stored.
    fn stored_by(
        &self,
        (number, length): (u64, usize),
        asked: &Asked,
        (flags, data): (u32, &[u8]),
    ) -> Result<Origin, Option<Kind>> {
        let oldest = asked.oldest as u32;
        let newest = self.shared.known[asked.index as usize].newest;
        let Some(origin) = Origin::named(data) else {
            return self.short_origin(number, (oldest, newest), length, (flags, data));
        };
        if origin.number != number {
            let is_whole = origin.wrote(data);
            return Err(Some(if is_whole {
                |wrong| &mut wrong.other_key
            } else {
                |wrong| &mut wrong.wrong_value
            }));
        }
        if self.is_own(origin.run) && data.len() != length {
            return Err(Some(|wrong| &mut wrong.wrong_length));
        }
        if !origin.wrote(data) {
            return Err(Some(|wrong| &mut wrong.wrong_value));
        }
        let version = self.version(origin);
        let is_known = version <= newest && (origin.run != self.requests.ahead || origin.version == 0);
        match version < oldest {
            _ if !is_known => Err(Some(|wrong| &mut wrong.wrong_value)),
            true => Err(Some(|wrong| &mut wrong.old_version)),
            false => Ok(origin),
        }
    }

    /// The same, of a value that is too short to name who wrote it.
    fn short_origin(
        &self,
        number: u64,
        (oldest, newest): (u32, u32),
        length: usize,
        (flags, data): (u32, &[u8]),
    ) -> Result<Origin, Option<Kind>> {
        let origin = |version| Origin {
            number,
            run: match version {
                0 => self.requests.ahead,
                _ => self.requests.plan.run,
            },
            version,
        };
        let wrote = |version: u32| data.len() == length && origin(version).wrote(data);
        let mut latest = (oldest..=newest).rev().take(MOST_CANDIDATES);
        let mut older = (0..oldest).rev().take(MOST_CANDIDATES);
        let right = |version: &u32| wrote(*version) && origin(*version).flags() == flags;
        match latest.clone().find(right) {
            Some(version) => Ok(origin(version)),
            // Of another run, or one of more versions than are compared.
            None if oldest == 0 || newest as usize >= oldest as usize + MOST_CANDIDATES => Err(None),
            None if data.len() != length => Err(Some(|wrong| &mut wrong.wrong_length)),
            None if older.any(|version| right(&version)) => Err(Some(|wrong| &mut wrong.old_version)),
            None if latest.any(wrote) => Err(Some(|wrong| &mut wrong.wrong_flags)),
            None => Err(Some(|wrong| &mut wrong.wrong_value)),
        }
    }
}
