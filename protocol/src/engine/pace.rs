//! What a peer is sent now and then, however often it asks or differs: most of it is much longer
//! than the question.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::id::{FragmentId, NodeId};
use crate::limits::PEERS_MAX;
use crate::time::{Span, Time};

/// What is sent to one peer at a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Paced {
    /// Our ledger digests.
    Summary(FragmentId),
    /// The headers of rounds in which its ledger differs.
    Headers(FragmentId),
    /// The stable history.
    History(FragmentId),
    /// What stewards and equivocators have signed.
    Roster,
}

/// When each peer was last sent what.
pub(super) type Pace = BTreeMap<(NodeId, Paced), Time>;

impl Engine {
    /// Whether it is time to send this to a peer; if it is, it counts as sent.
    pub(super) fn may_send(&mut self, to: NodeId, what: Paced) -> bool {
        let heartbeat = self.heartbeat_span();
        let gap = match what {
            Paced::Summary(_) => heartbeat,
            // Honest peers ask once in a heartbeat, and not much sooner when there is news.
            Paced::Headers(_) | Paced::History(_) | Paced::Roster => Span(heartbeat.0 / 2),
        };
        if self.pace.get(&(to, what)).is_some_and(|last| self.now < last.after(gap)) {
            return false;
        }
        if self.pace.len() >= self.pace_max() {
            self.pace.pop_first();
        }
        self.pace.insert((to, what), self.now);
        true
    }

    /// How much of it is remembered at most.
    pub(super) fn pace_max(&self) -> usize {
        PEERS_MAX * (3 * self.courses.len() + 1)
    }
}
