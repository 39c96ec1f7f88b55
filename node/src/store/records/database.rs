//! Making and opening the database, and what redb's errors mean here.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use atoll_protocol::id::RunId;
use redb::{Builder, Database, ReadableDatabase};

use super::tables::{INDEX, META, NEXT, NORMS, RECORDS, RUN, number};
use crate::store::error::{StoreError, is_full, is_unreadable};
use crate::store::file;

/// Makes an empty database for `run`.
pub(super) fn create(path: &Path, run: RunId) -> Result<(), StoreError> {
    let next = path.with_extension("redb.next");
    file::remove(&next)?;
    let make = || -> Result<(), redb::Error> {
        let database = builder().create(&next)?;
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.open_table(INDEX)?;
        transaction.open_table(NORMS)?;
        transaction.open_table(META)?.insert(RUN, run.0.as_slice())?;
        transaction.open_table(META)?.insert(NEXT, 0u64.to_le_bytes().as_slice())?;
        Ok(transaction.commit()?)
    };
    make().map_err(|error| failure(&next, error))?;
    // Closing wrote to it once more.
    File::open(&next).and_then(|file| file.sync_all()).map_err(StoreError::file(&next))?;
    fs::rename(&next, path).map_err(StoreError::file(path))?;
    file::flush_folder(path.parent().unwrap_or(path))
}

/// Opens the database of `run`, with every page checked; the second value is the number of the
/// next record.
pub(super) fn open(path: &Path, run: RunId) -> Result<(Database, u64), StoreError> {
    if !path.exists() {
        return Err(StoreError::corrupt(path, WHOLE, "the file is gone"));
    }
    let open = || -> Result<_, redb::Error> {
        let mut database = builder().open(path)?;
        // Opening trusts what was closed in good order; bits flip there too. What this repairs
        // by itself is the list of free pages, and anything else is an error.
        database.check_integrity()?;
        let meta = database.begin_read()?.open_table(META)?;
        let found = meta.get(RUN)?.and_then(|run| <[u8; 32]>::try_from(run.value()).ok());
        let next = number(&database, NEXT)?;
        drop(meta);
        Ok((database, found, next))
    };
    // redb answers damage with errors, but its own checks of itself may panic on it.
    let opened = catch_unwind(AssertUnwindSafe(open))
        .map_err(|_| StoreError::corrupt(path, WHOLE, "its pages contradict each other"))?;
    let (database, found, next) = opened.map_err(|error| failure(path, error))?;
    let (Some(found), Some(next)) = (found.map(RunId), next) else {
        return Err(StoreError::corrupt(path, WHOLE, "it does not say whose records it holds"));
    };
    if found != run {
        let folder = path.parent().unwrap_or(path).to_owned();
        return Err(StoreError::OtherRun { folder, found, wanted: run });
    }
    Ok((database, next))
}

/// What an error of redb means.
pub(super) fn failure(path: &Path, error: redb::Error) -> StoreError {
    match error {
        // What redb says of a file that is none of its own, and what a failing disk says.
        redb::Error::Io(error)
            if !is_full(&error) && (error.raw_os_error().is_none() || is_unreadable(&error)) =>
        {
            StoreError::corrupt(path, WHOLE, error)
        }
        redb::Error::Io(error) => StoreError::file(path)(error),
        redb::Error::DatabaseAlreadyOpen => {
            let folder = path.parent().unwrap_or(path).to_owned();
            StoreError::Locked { folder, holder: None }
        }
        redb::Error::Corrupted(reason) => StoreError::corrupt(path, WHOLE, reason),
        other => StoreError::corrupt(path, WHOLE, other),
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// The database is small, and redb would take a gigabyte.
const CACHE_BYTES: usize = 8 << 20;
const WHOLE: &str = "the database";
