//! Why the store cannot do what it was asked, and what a person can do about it.

use std::io;
use std::path::{Path, PathBuf};

use atoll_protocol::genesis::GenesisError;
use atoll_protocol::id::{ContentId, RunId};

/// What went wrong on the disk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused to read or write.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room. Nothing was changed.
    #[error("{}", full(path, *needed, *used, *max))]
    Full {
        /// What was to be written.
        path: PathBuf,
        /// Bytes it needs; 0 if nobody knows.
        needed: u64,
        /// Bytes the run uses already.
        used: u64,
        /// Bytes the run may use; none if the disk itself is full.
        max: Option<u64>,
    },
    /// Another process works in this folder.
    #[error("{}: in use by another process{}", folder.display(), process(*holder))]
    Locked {
        /// The folder of the run.
        folder: PathBuf,
        /// Which process, if it said so.
        holder: Option<u32>,
    },
    /// There is no run in this folder.
    #[error("{}: no run lives here", folder.display())]
    NoRun {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds something else than the run that was asked for.
    #[error("{}: run {found} lives here, not run {wanted}", folder.display())]
    OtherRun {
        /// The folder.
        folder: PathBuf,
        /// The run in it.
        found: RunId,
        /// The run that was asked for.
        wanted: RunId,
    },
    /// The folder was written by another version of this program.
    #[error("{}: format {found:?}, this program reads {supported:?}", folder.display())]
    Version {
        /// The folder.
        folder: PathBuf,
        /// The format it has.
        found: String,
        /// The format this program has.
        supported: &'static str,
    },
    /// The genesis in the folder is none.
    #[error("{}: {source}", path.display())]
    Genesis {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: GenesisError,
    },
    /// The records are not what was written.
    #[error("{}: {what} is damaged: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        what: String,
        /// How it shows.
        reason: String,
    },
    /// A stored content was not what was written, and is out of the way now.
    #[error("content {content} was damaged and is now {}", kept.display())]
    Broken {
        /// Which content.
        content: ContentId,
        /// Where the damaged file is.
        kept: PathBuf,
    },
    /// A contribution names a payload that is not stored. Nothing was written.
    #[error("payload {payload} of a contribution is not stored")]
    NoPayload {
        /// Which payload.
        payload: ContentId,
    },
    /// A record is longer than any the protocol makes. Nothing was written.
    #[error("a record of {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
}

impl StoreError {
    /// What a person can do, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::File { .. } => "check the permissions of the folder and the health of the disk",
            Self::Full { max: Some(_), .. } => {
                "allow more with --max-disk, or let the swarm go on until old rounds are dropped"
            }
            Self::Full { max: None, .. } => {
                "free some space on this disk, or move the folder and name its new place with --home"
            }
            Self::Locked { .. } => {
                "stop the other process first; two cannot share a folder, but each can have its own \
                 with --home"
            }
            Self::NoRun { .. } => "`atoll join <ticket>` makes one, and --home names another place",
            Self::OtherRun { .. } => "name another folder with --home; what is here stays as it is",
            Self::Version { .. } => "use the version of atoll that wrote it, or another --home",
            Self::Genesis { .. } => "`atoll join <ticket>` fetches the genesis again",
            Self::Corrupt { what, .. } if what == SIGNED => {
                "what this node signed is no longer known, and its records are lost too: move the \
                 folder away and join again with a new key"
            }
            Self::Corrupt { .. } => {
                "`atoll run` puts the damaged file aside and gets the records back from the swarm; \
                 check the disk, for it may be failing"
            }
            Self::Broken { .. } => "nothing: it is fetched again; check the disk if this repeats",
            Self::NoPayload { .. } | Self::TooLong { .. } => return None,
        })
    }

    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Wraps what the system said about `path`.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            if !is_full(&source) {
                return Self::File { path, source };
            }
            // A budget that was exceeded below comes up through `io` as well.
            match source.downcast::<Self>() {
                Ok(error) => error,
                Err(_) => Self::Full { path, needed: 0, used: 0, max: None },
            }
        }
    }

    /// A part of a file that is not what was written.
    pub(super) fn corrupt(path: &Path, what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Corrupt { path: path.to_owned(), what: what.into(), reason: reason.to_string() }
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::File { source, .. } => source.kind(),
            StoreError::Full { .. } => io::ErrorKind::StorageFull,
            StoreError::Locked { .. } => io::ErrorKind::ResourceBusy,
            StoreError::NoRun { .. } | StoreError::NoPayload { .. } => io::ErrorKind::NotFound,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// Whether the system says that there is no room: on the disk, for this user, in this file.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Whether the disk can no longer read what it once wrote.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(INPUT_OUTPUT_ERROR)
}

fn full(path: &Path, needed: u64, used: u64, max: Option<u64>) -> String {
    let path = path.display();
    match max {
        Some(max) => format!("{path}: {needed} bytes do not fit: {used} of {max} allowed are used"),
        None => format!("{path}: the disk is full"),
    }
}

fn process(holder: Option<u32>) -> String {
    holder.map(|id| format!(" ({id})")).unwrap_or_default()
}

/// EIO, for which std has no name.
const INPUT_OUTPUT_ERROR: i32 = 5;
/// What the file of signed slots is called in messages.
pub(super) const SIGNED: &str = "the list of signed rounds";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_survives_the_way_through_io() {
        let path = Path::new("x");
        let full = StoreError::Full { path: path.into(), needed: 3, used: 2, max: Some(4) };
        let back = StoreError::file(path)(io::Error::from(full));
        assert!(
            matches!(back, StoreError::Full { needed: 3, used: 2, max: Some(4), .. }),
            "{back}"
        );
        assert_eq!(back.to_string(), "x: 3 bytes do not fit: 2 of 4 allowed are used");
        assert!(back.hint().is_some_and(|hint| hint.contains("--max-disk")));
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(StoreError::file(Path::new("x"))(kind.into()).is_full());
        }
        let other = StoreError::file(Path::new("x"))(io::ErrorKind::PermissionDenied.into());
        assert!(matches!(other, StoreError::File { .. }), "{other}");
    }
}
