//! Moments that everybody should see: a lie found out, another history, a state from peers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Recording;

/// What was seen of a liar.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::up) struct SeenLiar {
    /// When it came.
    pub(in crate::up) at: f64,
    pub(in crate::up) node: Option<String>,
    /// Islands that found it out, and when.
    pub(in crate::up) found_out: BTreeMap<usize, f64>,
}

impl SeenLiar {
    pub(in crate::up) fn new(at: f64) -> Self {
        Self { at, ..Self::default() }
    }
}

/// What is seldom, and never only the business of one island.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::up) enum Mark {
    /// It holds the proof that somebody signed twice.
    Equivocated,
    /// It met another history.
    Diverged,
    /// It took an outer state from peers.
    Installed,
}

impl Recording {
    /// Liars that at least one island found out.
    pub(in crate::up) fn liars_found_out(&self) -> usize {
        self.liars.iter().filter(|it| !it.found_out.is_empty()).count()
    }

    /// Marks the moment of an event, if it is of that kind.
    pub(super) fn mark(&mut self, at: f64, island: usize, event: &Value) {
        let mark = match event["event"].as_str() {
            Some("equivocated") => Mark::Equivocated,
            Some("diverged") => Mark::Diverged,
            Some("installed") => Mark::Installed,
            _ => return,
        };
        self.marks.push((at, island, mark));
        let node = event["node"].as_str().filter(|_| mark == Mark::Equivocated);
        for liar in self.liars.iter_mut().filter(|it| node.is_some() && it.node.as_deref() == node)
        {
            liar.found_out.entry(island).or_insert(at);
        }
    }
}
