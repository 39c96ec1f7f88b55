//! Answers that are much longer than their questions: nobody gets the same one at every question.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::id::{FragmentId, NodeId};
use crate::limits::PEERS_MAX;
use crate::time::{Span, Time};

/// What a peer may ask for with few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// The headers of rounds in which its ledger differs.
    Headers(FragmentId),
    /// The stable history.
    History(FragmentId),
    /// What stewards and equivocators have signed.
    Roster,
}

/// When each peer was last answered each question.
pub(super) type Answers = BTreeMap<(NodeId, Question), Time>;

impl Engine {
    /// Whether a peer may be answered, and notes that it was. Honest ones ask once in a heartbeat,
    /// and not much sooner when there is news.
    pub(super) fn may_answer(&mut self, peer: NodeId, question: Question) -> bool {
        let gap = Span(self.heartbeat_span().0 / ANSWERS_PER_HEARTBEAT);
        let key = (peer, question);
        if self.answers.get(&key).is_some_and(|last| self.now < last.after(gap)) {
            return false;
        }
        if self.answers.len() >= self.answers_max() {
            self.answers.pop_first();
        }
        self.answers.insert(key, self.now);
        true
    }

    /// How many answers are remembered at most.
    pub(super) fn answers_max(&self) -> usize {
        PEERS_MAX * (2 * self.courses.len() + 1)
    }
}

/// Answers to one question of one peer in a heartbeat.
const ANSWERS_PER_HEARTBEAT: u64 = 2;
