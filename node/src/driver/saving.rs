//! The island's checkpoint: when it is written, and how it takes its place.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::part::Done;
use super::{Driver, Ending};
use crate::island::IslandError;
use crate::island::host::Errand;
use crate::observe::Event;
use crate::store::StoreError;

/// When the next checkpoint is due.
#[derive(Debug)]
pub(super) struct Saving {
    due: Instant,
    /// Whether the island or the disk is at one now.
    under_way: bool,
    /// Steps at the last one.
    steps: u64,
}

impl Saving {
    pub(super) fn new() -> Self {
        Self { due: Instant::now() + EVERY, under_way: false, steps: 0 }
    }
}

impl Driver {
    /// Asks for a checkpoint if one is due and nothing is under way: what the island captured
    /// must be in the records before a checkpoint says that it is captured.
    pub(super) fn save_if_due(&mut self) {
        let leaving = self.leaving.is_some();
        let due = leaving || Instant::now() >= self.saving.due;
        if !due || self.saving.under_way || self.ending.is_some() {
            return;
        }
        let Some(errands) = &mut self.errands else {
            if leaving && self.outputs.is_empty() {
                self.ending = Some(Ending::Left);
            }
            return;
        };
        let steps = errands.host().pace().steps();
        if !errands.is_idle() || !self.outputs.is_empty() || self.write.is_some() {
            return;
        }
        if steps == self.saving.steps {
            self.saving.due = Instant::now() + EVERY;
            if leaving {
                self.ending = Some(Ending::Left);
            }
            return;
        }
        match self.store.next_checkpoint() {
            Ok(folder) => {
                errands.ask(Errand::Save(folder));
                (self.saving.under_way, self.saving.steps) = (true, steps);
            }
            Err(error) => self.checkpoint_failed(&error.to_string()),
        }
    }

    /// The island has written a checkpoint.
    pub(super) fn saved(
        &mut self,
        folder: PathBuf,
        outcome: Result<(), IslandError>,
        took: Duration,
    ) {
        // A checkpoint stops the island, so it may cost a hundredth of the time at most.
        self.saving.due = Instant::now() + EVERY.max(took * 100);
        if let Err(error) = outcome {
            self.checkpoint_failed(&error.to_string());
            return;
        }
        let (store, done) = (self.store.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            // The driver may have ended.
            let _ = done.blocking_send(Done::Placed(store.place_checkpoint(&folder)));
        });
    }

    /// The checkpoint is the one that a restart finds.
    pub(super) fn placed(&mut self, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.saving.under_way = false,
            Err(error) => self.checkpoint_failed(&error.to_string()),
        }
        if self.leaving.is_some() {
            self.ending.get_or_insert(Ending::Left);
        }
    }

    fn checkpoint_failed(&mut self, reason: &str) {
        self.saving.under_way = false;
        self.saving.due = Instant::now() + EVERY;
        self.observer
            .event(Event::warning(format!("no checkpoint: {reason}; the one before stays")));
        if self.leaving.is_some() {
            self.ending.get_or_insert(Ending::Left);
        }
    }
}

/// Time between checkpoints: what a crash costs an island at most, beside what it captured.
const EVERY: Duration = Duration::from_secs(60);
