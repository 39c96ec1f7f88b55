//! Why a swarm did not come to its end.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a swarm did not come to its end. Everything that was started is gone.
#[derive(Debug, Error)]
pub enum UpError {
    /// What was asked for makes no sense.
    #[error("{what}\nhint: {hint}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do instead.
        hint: String,
    },
    /// There is no program to start.
    #[error("{what}\nhint: {hint}")]
    Binaries {
        /// What is missing.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// A process did not do what it is for.
    #[error("{who} {what}\n{log}hint: --keep keeps the logs")]
    Process {
        /// Which one.
        who: String,
        /// What it did instead.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// A file or the terminal.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something could not be shown.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// A link of an island could not be made or changed.
    #[error(
        "a link cannot be made: {0}\nhint: leave out --link, --delay, --loss and --chaos split"
    )]
    Links(String),
    /// Somebody pressed Ctrl-C.
    #[error("stopped; everything that was started is gone")]
    Interrupted,
}

impl UpError {
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    /// For `map_err`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
