//! When a round may close. Closing is local: every answer here is a pure function of what one
//! node has seen, and carries its reason.

pub mod grace;
pub mod quorum;

use crate::time::{Span, Time};

/// Where the open round of a fragment stands on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundStatus {
    /// Too few contributions.
    Waiting {
        /// Contributions here.
        have: u32,
        /// Contributions needed.
        need: u32,
    },
    /// Enough contributions; others have until `closes_at`.
    Grace {
        /// Contributions here.
        have: u32,
        /// When the window ends.
        closes_at: Time,
    },
    /// It closes now.
    Closes(CloseReason),
}

/// Why a round closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CloseReason {
    /// Every live island had contributed.
    Everyone,
    /// Quorum was met, and the grace window after it was over.
    Grace {
        /// How long quorum had been met.
        waited: Span,
        /// How long the window was.
        window: Span,
    },
    /// Most of the swarm had closed it.
    Peers {
        /// How many had.
        closed: u32,
    },
}

/// What one node has seen of a round.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Contributions in the cut.
    pub have: u32,
    /// Contributions needed: [`quorum::need`].
    pub need: u32,
    /// Live islands, this one included, that have not contributed.
    pub missing: u32,
    /// Peers that report the round closed.
    pub closed_by: u32,
    /// Peers that are most of the swarm.
    pub closed_need: u32,
    /// Since when quorum is met.
    pub quorate_at: Option<Time>,
    /// The grace window: [`grace::window`].
    pub window: Span,
    /// A node that is not caught up decides nothing, it only follows its peers.
    pub follows: bool,
}

/// Whether the round closes at `now`, or what it waits for.
pub fn status(seen: &Seen, now: Time) -> RoundStatus {
    // Most of the swarm had quorum when it closed; what we lack will come and be folded in.
    if seen.have > 0 && seen.closed_by > 0 && seen.closed_by >= seen.closed_need {
        return RoundStatus::Closes(CloseReason::Peers { closed: seen.closed_by });
    }
    if seen.have < seen.need || seen.follows {
        return RoundStatus::Waiting { have: seen.have, need: seen.need };
    }
    if seen.missing == 0 {
        return RoundStatus::Closes(CloseReason::Everyone);
    }
    let quorate_at = seen.quorate_at.unwrap_or(now);
    let closes_at = quorate_at.after(seen.window);
    if now >= closes_at {
        let waited = now.since(quorate_at);
        return RoundStatus::Closes(CloseReason::Grace { waited, window: seen.window });
    }
    RoundStatus::Grace { have: seen.have, closes_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            have: 2,
            need: 2,
            missing: 2,
            closed_by: 0,
            closed_need: 2,
            quorate_at: Some(Time(1000)),
            window: Span(500),
            follows: false,
        }
    }

    #[test]
    fn below_quorum_only_most_of_the_swarm_closes_a_round() {
        let short = Seen { have: 1, missing: 0, closed_by: 1, ..seen() };
        assert_eq!(status(&short, Time(9999)), RoundStatus::Waiting { have: 1, need: 2 });
        let led = Seen { closed_by: 2, ..short };
        let reason = CloseReason::Peers { closed: 2 };
        assert_eq!(status(&led, Time(1)), RoundStatus::Closes(reason));
        let empty = Seen { have: 0, ..led };
        assert!(matches!(status(&empty, Time(1)), RoundStatus::Waiting { .. }));
    }

    #[test]
    fn grace_is_waited_for() {
        let open = RoundStatus::Grace { have: 2, closes_at: Time(1500) };
        assert_eq!(status(&seen(), Time(1499)), open);
        let reason = CloseReason::Grace { waited: Span(500), window: Span(500) };
        assert_eq!(status(&seen(), Time(1500)), RoundStatus::Closes(reason));
    }

    #[test]
    fn everyone_or_most_of_the_swarm_ends_the_wait() {
        let all = Seen { missing: 0, ..seen() };
        assert_eq!(status(&all, Time(1001)), RoundStatus::Closes(CloseReason::Everyone));
        let peers = Seen { closed_by: 2, ..seen() };
        let reason = CloseReason::Peers { closed: 2 };
        assert_eq!(status(&peers, Time(1001)), RoundStatus::Closes(reason));
    }

    #[test]
    fn a_follower_decides_nothing() {
        let alone = Seen { missing: 0, follows: true, ..seen() };
        assert!(matches!(status(&alone, Time(9999)), RoundStatus::Waiting { .. }));
        let led = Seen { closed_by: 2, follows: true, ..seen() };
        assert!(matches!(status(&led, Time(9999)), RoundStatus::Closes(_)));
    }
}
