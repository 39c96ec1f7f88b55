//! What a liar knows of the swarm: enough to look like a part of it.

use std::collections::BTreeMap;

use atoll_protocol::frontier::{Frontier, FrontierEntry, Standing};
use atoll_protocol::id::FragmentId;

/// The newest thing anybody said about each fragment.
#[derive(Debug, Default)]
pub(super) struct View {
    entries: BTreeMap<FragmentId, FrontierEntry>,
    last: Option<Frontier>,
}

impl View {
    /// Takes in a frontier of somebody who takes part.
    pub(super) fn heard(&mut self, frontier: Frontier) {
        if frontier.standing != Standing::CaughtUp {
            return;
        }
        for (offset, entry) in (0u16..).zip(&frontier.entries) {
            let fragment = FragmentId(frontier.first.0.saturating_add(offset));
            self.entries.insert(fragment, *entry);
        }
        self.last = Some(frontier);
    }

    /// The last frontier, with the newest entries.
    pub(super) fn mirror(&self) -> Option<Frontier> {
        let mut frontier = self.last.clone()?;
        for (offset, entry) in (0u16..).zip(&mut frontier.entries) {
            let fragment = FragmentId(frontier.first.0.saturating_add(offset));
            *entry = self.entries.get(&fragment).copied().unwrap_or(*entry);
        }
        Some(frontier)
    }
}
