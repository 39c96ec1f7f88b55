//! When a node has nothing to say: nothing is under way here, and nobody stands elsewhere.

use crate::engine::Engine;
use crate::frontier::{FrontierEntry, Standing};
use crate::id::Short;
use crate::time::{Span, Time};

/// What a node last told everybody of itself.
#[derive(Debug, Default)]
pub(super) struct Said {
    words: Option<Words>,
    /// Frontiers in a row with these words: a run with many fragments needs several.
    times: usize,
    at: Time,
}

/// What a frontier says that others act on.
#[derive(Debug, PartialEq)]
pub(super) struct Words {
    standing: Standing,
    rests: bool,
    roster: Short,
    entries: Vec<FrontierEntry>,
}

impl Engine {
    /// Notes that a frontier was published.
    pub(super) fn note_said(&mut self) {
        let words = self.words();
        let again = self.said.words.as_ref() == Some(&words);
        let times = if again { self.said.times + 1 } else { 1 };
        self.said = Said { words: Some(words), times, at: self.now };
    }

    /// Whether the swarm would learn nothing from another frontier of `pages`, and heard from us
    /// recently enough to know that we live.
    pub(super) fn may_be_quiet(&self, pages: usize) -> bool {
        let alive = Span(self.config.genesis.rounds.alive_ms);
        let recently = self.now.since(self.said.at) < alive.share(QUIET_PERCENT);
        recently && self.said.times >= pages && self.is_calm()
    }

    /// Whether the island makes no steps: it was stopped, or the run is over.
    pub(super) fn rests(&self) -> bool {
        let alive = Span(self.config.genesis.rounds.alive_ms);
        self.now.since(self.stepped_at) > alive.max(self.step.mean().times(REST_STEPS))
    }

    fn is_calm(&self) -> bool {
        let words = self.words();
        self.standing == Standing::CaughtUp
            && self.said.words.as_ref() == Some(&words)
            && !self.is_busy()
            && self.speakers().all(|(_, peer)| {
                let mut entries = self.courses.iter().zip(&words.entries);
                peer.standing == Standing::CaughtUp
                    && peer.roster == words.roster
                    && entries.all(|(course, entry)| peer.entry(course.fragment) == Some(entry))
            })
    }

    /// Whether a contribution is on its way, here or to here.
    fn is_busy(&self) -> bool {
        let open = |course: &super::course::Course| {
            self.ledger.newest(course.fragment).is_some_and(|newest| newest > course.version)
        };
        self.is_capturing()
            || !self.candidates.is_empty()
            || !self.fetcher.is_empty()
            || self.courses.iter().any(open)
    }

    fn words(&self) -> Words {
        Words {
            standing: self.standing,
            rests: self.rests(),
            roster: self.roster_digest(),
            entries: self.courses.iter().map(super::course::Course::frontier_entry).collect(),
        }
    }
}

/// How much of the time in which silence is death may pass in silence, in percent: of two
/// frontiers in a row one may be lost.
const QUIET_PERCENT: u64 = 40;
/// An island rests when it has not finished a step in the time of this many.
const REST_STEPS: u64 = 4;
