//! How many records were acknowledged, beside the database.
//!
//! After a crash redb goes back to the transaction before if the pages of the last do not fit
//! their checksums. That is right for a write that was cut off, and wrong for a bit that flipped
//! later: acknowledged records would vanish without a word. This number tells the two apart. It
//! is written after the database was flushed and is not flushed itself, so it costs next to
//! nothing and can only ever lag behind.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::file;
use super::position::write_all_at;

/// The file with the number.
#[derive(Debug)]
pub(super) struct Mark {
    path: PathBuf,
    file: File,
}

impl Mark {
    /// Opens the file; the number is none if it is not there or damaged.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<u64>), StoreError> {
        let found = file::read(path)?.and_then(|bytes| decode(&bytes));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(StoreError::file(path))?;
        Ok((Self { path: path.to_owned(), file }, found))
    }

    /// Records up to this number are acknowledged.
    pub(super) fn write(&self, count: u64) -> Result<(), StoreError> {
        write_all_at(&self.file, &encode(count), 0).map_err(StoreError::file(&self.path))
    }
}

fn encode(count: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    let check = blake3::hash(&bytes[..8]);
    bytes[8..].copy_from_slice(&check.as_bytes()[..8]);
    bytes
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let count = u64::from_le_bytes(*bytes.first_chunk()?);
    (bytes == encode(count)).then_some(count)
}

const BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_number_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let (mark, found) = Mark::open(&path).unwrap();
        assert_eq!(found, None);
        mark.write(7).unwrap();
        mark.write(300).unwrap();
        assert_eq!(Mark::open(&path).unwrap().1, Some(300));
        for bit in 0..BYTES * 8 {
            let mut bytes = encode(300);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), None, "{bit}");
        }
        assert_eq!(decode(&encode(300)[..9]), None);
    }
}
