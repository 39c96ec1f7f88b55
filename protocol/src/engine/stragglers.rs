//! What islands do for those who cannot keep up with them: they capture less often. They train on
//! meanwhile, and wait for nobody.

use super::Engine;
use super::course::Course;
use crate::frontier::Standing;
use crate::id::{FragmentId, Version};
use crate::peers::Peer;

impl Engine {
    /// Takes note of a round that was closed with so many contributions.
    pub(super) fn note_stragglers(&mut self, fragment: FragmentId, have: u32) {
        let stragglers = self.stragglers(fragment);
        let course = &mut self.courses[fragment.index()];
        let is_thin = usize::try_from(have).is_ok_and(|have| have <= stragglers);
        course.thin = if is_thin { course.thin.saturating_add(1) } else { 0 };
    }

    /// How many who would contribute are far behind.
    fn stragglers(&self, fragment: FragmentId) -> usize {
        let version = self.courses[fragment.index()].version;
        let lags = |peer: &Peer| {
            let entry = peer.entry(fragment);
            entry.is_some_and(|entry| entry.version.saturating_add(BEHIND) < version)
        };
        let would = |peer: &Peer| {
            peer.connected && peer.trains && !peer.rests() && peer.standing != Standing::Muted
        };
        self.speakers().filter(|(_, peer)| would(peer) && lags(peer)).count()
    }
}

impl Course {
    /// How many times the usual steps go by between two captures. More than once only if, for a
    /// while, at least as many lagged behind as took part: what is sent is more than reaches them.
    pub(super) fn stretch(&self) -> u32 {
        match self.thin / THIN_ROUNDS {
            0 => 1,
            1 => 2,
            _ => 4,
        }
    }
}

/// Thin rounds before captures become rarer, and before they become rarer still.
const THIN_ROUNDS: u32 = 4;
/// Rounds that a peer may be behind before it counts as one that cannot keep up.
const BEHIND: Version = 4;
