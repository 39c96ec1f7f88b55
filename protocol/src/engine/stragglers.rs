//! What islands do for those who cannot keep up with them: they capture less often. They train on
//! meanwhile, and wait for nobody.

use super::Engine;
use super::course::Course;
use crate::frontier::Standing;
use crate::id::{NodeId, RoundId, Version};
use crate::peers::Peer;

impl Engine {
    /// Takes note of a round that was closed with so many contributions.
    pub(super) fn note_stragglers(&mut self, round: RoundId, have: u32) {
        let stragglers = self.stragglers(round);
        let course = &mut self.courses[round.fragment.index()];
        let is_thin = usize::try_from(have).is_ok_and(|have| have <= stragglers);
        course.thin = if is_thin { course.thin.saturating_add(1) } else { 0 };
    }

    /// How many who would contribute are far behind. Who is in the round is not, whatever it says of
    /// its version while it folds again; and an island that has to wait for its first state rests.
    fn stragglers(&self, round: RoundId) -> usize {
        let lags = |peer: &Peer| {
            let entry = peer.entry(round.fragment);
            entry.is_some_and(|entry| entry.version.saturating_add(BEHIND) < round.number)
        };
        let would = |peer: &Peer| {
            let rests = peer.rests() && peer.standing != Standing::Joining;
            peer.connected && peer.trains && !rests && peer.standing != Standing::Muted
        };
        let takes_part = |node: &NodeId| self.ledger.slot(round, node).is_some();
        let straggles =
            |(node, peer): &(&NodeId, &Peer)| would(peer) && lags(peer) && !takes_part(node);
        self.speakers().filter(straggles).count()
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
