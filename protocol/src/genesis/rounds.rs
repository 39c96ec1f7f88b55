//! When rounds open, close and are forgotten.

use serde::{Deserialize, Serialize};

use crate::id::FragmentId;

/// When rounds open, close and are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Own steps between captures of a fragment (H).
    ///
    /// Default 24: small models lose quality with a longer H (a few percent from 25 to 500
    /// steps at 50M parameters), and a shorter one costs bandwidth.
    pub steps: u32,
    /// Own steps an island must have to answer a round that another opened (h_min).
    ///
    /// Default 3, an eighth of H: an island at an eighth of the fastest one's speed still takes
    /// part in every round, and nobody sends a payload for a step or two.
    pub steps_min: u32,
    /// Fewest contributions that let a round close.
    ///
    /// Default 1, so that a lone island makes versions that a second one can adopt; with
    /// company the percentage decides.
    pub quorum_min: u32,
    /// Share of the live islands that must have contributed, in percent.
    ///
    /// Default 50: cuts of single islands learned visibly worse than cuts of half the swarm.
    pub quorum_percent: u32,
    /// Shortest grace window after quorum.
    ///
    /// Default 250: an announcement and an answer over the internet.
    pub grace_ms_min: u64,
    /// Longest grace window after quorum.
    ///
    /// Default 10 000: also slow islands reach a step boundary, and islands train on meanwhile.
    pub grace_ms_max: u64,
    /// Rounds kept open for late contributions (W).
    ///
    /// Default 64: a partition of ten minutes fits at a round every ten seconds; a horizon of 4
    /// left crashed nodes behind in measurements, 64 did not.
    pub horizon: u32,
    /// Silence after which an island no longer counts for quorum.
    ///
    /// Default 20 000: ten frontiers in a row are hardly lost by chance, and a swarm at rest may
    /// say one in eight seconds. While an island is missed, rounds close by quorum and grace.
    pub alive_ms: u64,
    /// Silence after which an island's agreement is no longer awaited for stability.
    ///
    /// Default 600 000, the length of a partition that must heal without loss.
    pub forget_ms: u64,
    /// Time between a node's frontiers.
    ///
    /// Default 2000: a dead island is noticed within seconds for under 1 KiB of gossip each.
    pub heartbeat_ms: u64,
}

impl Rounds {
    /// Own steps before the very first capture of a fragment, one of so many: fewer for earlier
    /// ones, so that fragments travel one after another and none waits longer than H.
    pub fn first_steps(&self, fragment: FragmentId, fragments: usize) -> u32 {
        let turn = u64::from(fragment.0) + 1;
        let steps = u64::from(self.steps) * turn / fragments.max(1) as u64;
        u32::try_from(steps).unwrap_or(self.steps).max(self.steps_min)
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            steps: 24,
            steps_min: 3,
            quorum_min: 1,
            quorum_percent: 50,
            grace_ms_min: 250,
            grace_ms_max: 10_000,
            horizon: 64,
            alive_ms: 20_000,
            forget_ms: 600_000,
            heartbeat_ms: 2000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_captures_come_in_turn_and_none_after_h() {
        let rounds = Rounds { steps: 24, steps_min: 3, ..Rounds::default() };
        let first = |fragment, fragments| rounds.first_steps(FragmentId(fragment), fragments);
        assert_eq!([0, 1, 2, 3].map(|it| first(it, 4)), [6, 12, 18, 24]);
        assert_eq!((first(0, 1), first(0, 100), first(99, 100)), (24, 3, 24));
    }
}
