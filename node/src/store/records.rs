//! The engine's records, in a redb database: every one with a checksum, in the order written.

mod database;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, RunId, Version};
use atoll_protocol::limits::GENESIS_BYTES_MAX;
use atoll_protocol::wire;
use redb::{Database, ReadableDatabase, ReadableTable};

use super::error::StoreError;
use super::mark::Mark;
use super::measured::Measures;
use tables::{INCARNATION, INDEX, META, NEXT, NORMS, RECORDS};

/// The database of records.
#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    run: RunId,
    /// None after a write failed: redb then wants to be opened again.
    database: Option<Database>,
    /// The number of the next record.
    next: u64,
    mark: Mark,
}

impl Records {
    /// Makes an empty database where there is none. A crash leaves none or a whole one.
    pub(super) fn create(path: &Path, run: RunId) -> Result<(), StoreError> {
        database::create(path, run)
    }

    /// Opens the database and checks all of it.
    pub(super) fn open(path: &Path, mark: &Path, run: RunId) -> Result<Self, StoreError> {
        let (mark, acknowledged) = Mark::open(mark)?;
        let (database, next) = database::open(path, run)?;
        // A number that cannot be read is only a check less; it is written anew below.
        let lost = acknowledged.unwrap_or(0).saturating_sub(next);
        if lost > 0 {
            let reason = format!("the last {lost} that were acknowledged are gone");
            return Err(StoreError::corrupt(path, "the end of the records", reason));
        }
        mark.write(next)?;
        Ok(Self { path: path.to_owned(), run, database: Some(database), next, mark })
    }

    /// All records, in the order written.
    pub(super) fn all(&mut self) -> Result<Vec<Record>, StoreError> {
        let path = self.path.clone();
        let rows = self.read(|database| {
            let table = database.begin_read()?.open_table(RECORDS)?;
            let rows = table.iter()?.map(|row| {
                let (number, value) = row?;
                Ok((number.value(), value.value().to_vec()))
            });
            rows.collect::<Result<Vec<_>, redb::Error>>()
        })?;
        let decode = |(number, value): (u64, Vec<u8>)| {
            let bytes = tables::unseal(&number.to_le_bytes(), &value);
            let record = bytes.map(|bytes| wire::decode(bytes, RECORD_BYTES_MAX));
            match record {
                Some(Ok(record)) => Ok(record),
                Some(Err(error)) => Err(damaged(&path, number, error)),
                None => Err(damaged(&path, number, "its checksum is wrong")),
            }
        };
        rows.into_iter().map(decode).collect()
    }

    /// Writes records and norms in one durable transaction.
    pub(super) fn write(
        &mut self,
        records: &[Record],
        norms: &[(ContentId, Measures)],
    ) -> Result<(), StoreError> {
        let encoded = records.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let first = self.count()?;
        let next = first + records.len() as u64;
        self.change(|change| {
            let mut rows = change.open_table(RECORDS)?;
            let mut index = change.open_table(INDEX)?;
            for (number, (record, bytes)) in (first..).zip(records.iter().zip(&encoded)) {
                let sealed = tables::seal(&number.to_le_bytes(), bytes);
                rows.insert(number, sealed.as_slice())?;
                if let Some(round) = record.contribution_round() {
                    let key = (round.fragment.0, round.number, number);
                    index.insert(key, author(record))?;
                }
            }
            let mut table = change.open_table(NORMS)?;
            for (id, norms) in norms {
                let sealed = tables::seal(&id.0, &wire::encode(norms));
                table.insert(id.0.as_slice(), sealed.as_slice())?;
            }
            let mut meta = change.open_table(META)?;
            meta.insert(NEXT, next.to_le_bytes().as_slice())?;
            Ok(())
        })?;
        self.next = next;
        // The records are durable whether or not this works, and it lags at worst.
        let _ = self.mark.write(next);
        Ok(())
    }

    /// Forgets contributions and closed rounds of `fragment`: of `own` up to `own_through`, all
    /// others up to `through`; and the norms of `payloads`.
    pub(super) fn prune(
        &mut self,
        own: NodeId,
        fragment: FragmentId,
        through: Version,
        own_through: Version,
        payloads: &[ContentId],
    ) -> Result<(), StoreError> {
        self.change(|change| {
            let mut index = change.open_table(INDEX)?;
            let mut rows = change.open_table(RECORDS)?;
            let range = (fragment.0, 0, 0)..=(fragment.0, through.max(own_through), u64::MAX);
            let forgotten = index.extract_from_if(range, |(_, round, _), author| {
                round <= if author == own.0 { own_through } else { through }
            })?;
            for row in forgotten {
                let (_, _, number) = row?.0.value();
                rows.remove(number)?;
            }
            remove_norms(change, payloads)
        })
    }

    /// How many records were ever written. After a write that failed this says whether it left
    /// anything after all.
    pub(super) fn count(&mut self) -> Result<u64, StoreError> {
        self.reopen()?;
        Ok(self.next)
    }

    /// All norms.
    pub(super) fn norms(&mut self) -> Result<BTreeMap<ContentId, Measures>, StoreError> {
        self.read(|database| {
            let table = database.begin_read()?.open_table(NORMS)?;
            let mut norms = BTreeMap::new();
            for row in table.iter()? {
                let (key, value) = row?;
                // One that is damaged is measured again.
                let Ok(id) = <[u8; 32]>::try_from(key.value()) else { continue };
                let bytes = tables::unseal(&id, value.value());
                let Some(Ok(found)) = bytes.map(|it| wire::decode(it, RECORD_BYTES_MAX)) else {
                    continue;
                };
                norms.insert(ContentId(id), found);
            }
            Ok(norms)
        })
    }

    /// Forgets norms.
    pub(super) fn remove_norms(&mut self, gone: &[ContentId]) -> Result<(), StoreError> {
        if gone.is_empty() {
            return Ok(());
        }
        self.change(|change| remove_norms(change, gone))
    }

    /// For each fragment, the highest round that anybody contributed to.
    pub(super) fn rounds(&mut self) -> Result<BTreeMap<FragmentId, Version>, StoreError> {
        self.read(|database| {
            let table = database.begin_read()?.open_table(INDEX)?;
            let mut rounds = BTreeMap::new();
            for row in table.iter()? {
                let (key, author) = row?;
                let (fragment, round, _) = key.value();
                if !author.value().is_empty() {
                    // In the order of their keys, so the highest comes last.
                    rounds.insert(FragmentId(fragment), round);
                }
            }
            Ok(rounds)
        })
    }

    /// How often the node was started, as far as the database knows.
    pub(super) fn incarnation(&mut self) -> Result<u64, StoreError> {
        self.read(|database| Ok(tables::number(database, INCARNATION)?.unwrap_or(0)))
    }

    /// Counts a start. Durable on return.
    pub(super) fn begin(&mut self, incarnation: u64) -> Result<(), StoreError> {
        self.change(|change| {
            let mut meta = change.open_table(META)?;
            meta.insert(INCARNATION, incarnation.to_le_bytes().as_slice())?;
            Ok(())
        })
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |about| about.len())
    }

    fn read<T>(
        &mut self,
        read: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.reopen()?;
        let database = self.database.as_ref().expect("just opened");
        read(database).map_err(|error| database::failure(&self.path, error))
    }

    /// One durable transaction; all of it or nothing.
    fn change(
        &mut self,
        change: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        self.reopen()?;
        let database = self.database.as_ref().expect("just opened");
        let transaction = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            change(&transaction)?;
            Ok(transaction.commit()?)
        };
        transaction().map_err(|error| {
            self.database = None;
            database::failure(&self.path, error)
        })
    }

    /// Opens the database again after a failure.
    fn reopen(&mut self) -> Result<(), StoreError> {
        if self.database.is_some() {
            return Ok(());
        }
        let (database, next) = database::open(&self.path, self.run)?;
        if next < self.next {
            let reason = "acknowledged records are gone after a failed write";
            return Err(StoreError::corrupt(&self.path, "the end of the records", reason));
        }
        (self.database, self.next) = (Some(database), next);
        Ok(())
    }
}

/// A record's bytes, if it can be read again.
fn encode(record: &Record) -> Result<Vec<u8>, StoreError> {
    let bytes = wire::encode(record);
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(StoreError::TooLong { bytes: bytes.len(), max: RECORD_BYTES_MAX });
    }
    Ok(bytes)
}

fn remove_norms(change: &redb::WriteTransaction, gone: &[ContentId]) -> Result<(), redb::Error> {
    let mut table = change.open_table(NORMS)?;
    for id in gone {
        table.remove(id.0.as_slice())?;
    }
    Ok(())
}

/// Whose contribution a record is; nobody's for a closed round.
fn author(record: &Record) -> &[u8] {
    match record {
        Record::Contribution(signed) => &signed.body.author.0,
        _ => &[],
    }
}

fn damaged(path: &Path, number: u64, reason: impl ToString) -> StoreError {
    StoreError::corrupt(path, format!("record {number}"), reason)
}

/// The longest record is a history as long as a message, with room to spare.
const RECORD_BYTES_MAX: usize = GENESIS_BYTES_MAX;
