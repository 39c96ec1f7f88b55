//! The island's checkpoint: when it is written, and how it takes its place.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::part::Done;
use super::{Driver, Ending};
use crate::island::IslandError;
use crate::island::host::Errand;
use crate::store::SaveError;

/// When the next checkpoint is due, and how far it has come.
#[derive(Debug)]
pub(super) struct Saving {
    due: Instant,
    under_way: bool,
    /// A folder to fill, and who waits for it.
    folder: Option<(PathBuf, SyncSender<Saved>)>,
    /// Steps at the last one.
    steps: u64,
}

/// How long the island took, or why it could not.
pub(super) type Saved = Result<Duration, IslandError>;

/// What became of a checkpoint.
pub(super) type Placed = Result<Duration, SaveError<IslandError>>;

impl Saving {
    pub(super) fn new() -> Self {
        Self { due: Instant::now() + FIRST, under_way: false, folder: None, steps: 0 }
    }
}

impl Driver {
    /// Begins a checkpoint if one is due, and goes on with one that waits for the island.
    pub(super) fn save_if_due(&mut self) {
        if self.saving.under_way {
            self.fill_folder();
            return;
        }
        let leaving = self.leaving.is_some();
        if self.ending.is_some() || !(leaving || Instant::now() >= self.saving.due) {
            return;
        }
        let steps = self.host().map_or(0, |host| host.pace().steps());
        if steps == self.saving.steps {
            self.saving.due = Instant::now() + EVERY;
            if leaving && self.outputs.is_empty() {
                self.ending = Some(Ending::Left);
            }
            return;
        }
        (self.saving.under_way, self.saving.steps) = (true, steps);
        let (store, done) = (self.store.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let mut took = Duration::ZERO;
            let placed = store.save_checkpoint(|folder| {
                let (reply, saved) = sync_channel(1);
                let ask = Done::Folder { folder: folder.to_owned(), reply };
                let gone = || IslandError::Checkpoint("the node ended first".into());
                done.blocking_send(ask).map_err(|_| gone())?;
                took = saved.recv().map_err(|_| gone())??;
                Ok(())
            });
            // The driver may have ended.
            let _ = done.blocking_send(Done::Placed(placed.map(|()| took)));
        });
    }

    /// A folder waits to be filled.
    pub(super) fn folder_is_there(&mut self, folder: PathBuf, reply: SyncSender<Saved>) {
        self.saving.folder = Some((folder, reply));
        self.fill_folder();
    }

    /// Asks the island to fill it, once nothing is under way: what was captured must be in the
    /// records before a checkpoint says that it was.
    fn fill_folder(&mut self) {
        let busy = !self.outputs.is_empty() || self.write.is_some() || self.engine.is_capturing();
        if let Some(errands) = &mut self.errands
            && !busy
            && errands.is_idle()
            && let Some((folder, reply)) = self.saving.folder.take()
        {
            errands.ask(Errand::Save { folder, reply });
        }
    }

    /// The checkpoint is the one that a restart finds, or the one before still is.
    pub(super) fn placed(&mut self, placed: Placed) {
        self.saving.under_way = false;
        // A checkpoint stops the island, so it may cost a hundredth of the time at most.
        let took = placed.as_ref().map_or(Duration::ZERO, |took| *took);
        self.saving.due = Instant::now() + EVERY.max(took * 100);
        if let Err(error) = placed {
            self.warn(format!("no checkpoint: {error}; the one before stays"), "");
        }
        if self.leaving.is_some() {
            self.ending.get_or_insert(Ending::Left);
        }
    }
}

/// When the first checkpoint of a life is due: one that is killed young has little to lose, but
/// not all of it.
const FIRST: Duration = Duration::from_secs(5);
/// Time between checkpoints: what a crash costs an island at most, beside what it captured.
const EVERY: Duration = Duration::from_secs(60);
