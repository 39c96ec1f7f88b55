//! Contents that nothing needs any more go from the disk: payloads that failed their check,
//! snapshots that were installed, and what was fetched after it had been given up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use atoll_protocol::id::ContentId;

use super::Driver;
use super::part::{self, Done};

/// When to look next, and what nothing needed at the last look.
#[derive(Debug)]
pub(super) struct Clearing {
    due: Instant,
    useless: BTreeSet<ContentId>,
    /// What is needed although no record and no engine knows of it.
    keep: BTreeSet<ContentId>,
}

impl Clearing {
    pub(super) fn new(keep: BTreeSet<ContentId>) -> Self {
        Self { due: Instant::now() + EVERY, useless: BTreeSet::new(), keep }
    }
}

impl Driver {
    /// Removes what nothing needed at two looks in a row: what has just been stored is not known
    /// to the engine yet. A node that is catching up may go on with half a snapshot.
    pub(super) fn clear_up(&mut self) {
        if Instant::now() < self.clearing.due || !self.is_caught_up() {
            return;
        }
        self.clearing.due = Instant::now() + EVERY;
        let useless: BTreeSet<ContentId> =
            self.store.contents().into_iter().filter(|id| self.is_useless(id)).collect();
        let gone: Vec<ContentId> = useless.intersection(&self.clearing.useless).copied().collect();
        self.clearing.useless = useless;
        if gone.is_empty() {
            return;
        }
        let store = self.store.clone();
        part::spawn(&self.done, move || Done::Chore(store.discard(&gone)));
    }

    fn is_useless(&self, id: &ContentId) -> bool {
        !self.engine.needs(id)
            && !self.clearing.keep.contains(id)
            && !self.rechecks.contains_key(id)
            && self.own.get(id).is_none()
    }
}

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(120);
