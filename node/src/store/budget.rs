//! How many bytes a run uses on the disk, and how many it may.

use std::path::Path;
use std::sync::Mutex;

use super::error::StoreError;
use super::locked;

/// Bytes a run uses on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Whole contents: payloads and snapshots.
    pub contents: u64,
    /// Contents on their way, counted as if they were whole.
    pub incoming: u64,
    /// Base states.
    pub bases: u64,
    /// The database and what lies beside it.
    pub records: u64,
    /// The island's checkpoint.
    pub checkpoint: u64,
    /// Damaged files that were set aside.
    pub broken: u64,
}

impl Usage {
    /// All of it.
    pub fn total(&self) -> u64 {
        let parts = [self.contents, self.incoming, self.bases, self.records];
        parts.into_iter().sum::<u64>() + self.checkpoint + self.broken
    }
}

/// The account of a run's bytes.
#[derive(Debug, Default)]
pub(super) struct Budget {
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    used: Usage,
    max: Option<u64>,
}

impl Budget {
    /// What is used.
    pub(super) fn usage(&self) -> Usage {
        locked(&self.account).used
    }

    /// Sets what may be used; none for as much as there is.
    pub(super) fn set_max(&self, max: Option<u64>) {
        locked(&self.account).max = max;
    }

    /// What may be used, if there is a limit.
    pub(super) fn max(&self) -> Option<u64> {
        locked(&self.account).max
    }

    /// Changes the account.
    pub(super) fn count(&self, change: impl FnOnce(&mut Usage)) {
        change(&mut locked(&self.account).used);
    }

    /// Takes `bytes` for `path` into account with `change`, if they fit.
    pub(super) fn reserve(
        &self,
        path: &Path,
        bytes: u64,
        change: impl FnOnce(&mut Usage),
    ) -> Result<(), StoreError> {
        let mut account = locked(&self.account);
        let used = account.used.total();
        if let Some(max) = account.max
            && used.saturating_add(bytes) > max
        {
            let path = path.to_owned();
            return Err(StoreError::Full { path, needed: bytes, used, max: Some(max) });
        }
        change(&mut account.used);
        Ok(())
    }
}
