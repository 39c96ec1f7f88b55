//! Small steps with files, each of which a crash leaves either done or not done.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use atoll_protocol::id::ContentId;

use super::error::StoreError;

/// Replaces `path` by `bytes`: durable on return, and a reader sees the old or the new.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_then_rename(path, bytes, true)?;
    flush_folder(parent(path))
}

/// [`replace`] without waiting for the disk: after a loss of power the old, the new or none of
/// both may be there.
pub(super) fn replace_soon(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_then_rename(path, bytes, false)
}

/// Writes a new file and, if `durable`, waits until its bytes (not yet its name) are on the disk.
/// Nothing is left of it if that fails.
pub(super) fn write_new(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        if durable { file.sync_all() } else { Ok(()) }
    };
    write().map_err(|error| {
        let _ = fs::remove_file(path);
        StoreError::file(path)(error)
    })
}

/// Makes the names in a folder durable.
pub(super) fn flush_folder(folder: &Path) -> Result<(), StoreError> {
    // Other systems make names durable by themselves and do not let folders be opened.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(StoreError::file(folder))?;
    }
    Ok(())
}

/// Removes a file; one that is not there counts as removed.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    gone(fs::remove_file(path)).map_err(StoreError::file(path))
}

/// Removes a folder with all that is in it; one that is not there counts as removed.
pub(super) fn remove_folder(path: &Path) -> Result<(), StoreError> {
    gone(fs::remove_dir_all(path)).map_err(StoreError::file(path))
}

/// Makes a folder where there is none.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(StoreError::file(path))
}

/// The bytes of a file, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::file(path)(error)),
    }
}

/// The names and lengths of the files in a folder, in the order of their names.
pub(super) fn list(folder: &Path) -> Result<Vec<(String, u64)>, StoreError> {
    let entries = || -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_file() {
                found.push((entry.file_name().to_string_lossy().into_owned(), about.len()));
            }
        }
        found.sort();
        Ok(found)
    };
    match entries() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(StoreError::file(folder)),
    }
}

/// Renames a damaged file to `<name>.broken-<n>` with the next number, and forgets the oldest
/// of those beyond a few: they are evidence for a person, and a failing disk makes many.
pub(super) fn move_aside(path: &Path, into: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".redb").unwrap_or(&name);
    let mut numbers: Vec<u64> = list(into)?
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(stem)?.strip_prefix(BROKEN)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let named = |number: u64| into.join(format!("{stem}{BROKEN}{number}"));
    forget_oldest(into)?;
    while numbers.len() >= BROKEN_KEPT {
        remove(&named(numbers.remove(0)))?;
    }
    let kept = named(numbers.last().map_or(1, |last| last + 1));
    fs::rename(path, &kept).map_err(StoreError::file(path))?;
    flush_folder(into)?;
    Ok(kept)
}

/// Leaves room for one more file in a folder of damaged ones, whatever they are called.
fn forget_oldest(folder: &Path) -> Result<(), StoreError> {
    let aside = |(name, _): (String, u64)| Some(folder.join(name)).filter(|it| is_aside(it));
    let mut files: Vec<(Option<SystemTime>, PathBuf)> = list(folder)?
        .into_iter()
        .filter_map(aside)
        .map(|path| (fs::metadata(&path).and_then(|about| about.modified()).ok(), path))
        .collect();
    files.sort();
    let many = files.len().saturating_sub(BROKEN_IN_ALL - 1);
    files[..many].iter().try_for_each(|(_, path)| remove(path))
}

fn is_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(BROKEN))
}

/// The hash of a file's bytes, and how many they are; none if there is no such file.
pub(super) fn content_id_of(path: &Path) -> io::Result<Option<(ContentId, u64)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut length = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(Some((ContentId(*hasher.finalize().as_bytes()), length))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        hasher.update(&buffer[..count]);
        length += count as u64;
    }
}

/// A content id from its 64 hexadecimal digits.
pub(super) fn parse_id(name: &str) -> Option<ContentId> {
    let bytes = data_encoding::HEXLOWER.decode(name.as_bytes()).ok()?;
    Some(ContentId(bytes.try_into().ok()?))
}

fn write_then_rename(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let mut next = path.as_os_str().to_owned();
    next.push(NEXT);
    let next = PathBuf::from(next);
    write_new(&next, bytes, durable)?;
    fs::rename(&next, path).map_err(StoreError::file(path))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Ends the name of a file that is not yet whole.
pub(super) const NEXT: &str = ".next";
const BROKEN: &str = ".broken-";
const BROKEN_KEPT: usize = 4;
/// Damaged files in one folder.
const BROKEN_IN_ALL: usize = 16;
const READ_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_kept_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        for n in 1..=9u8 {
            fs::write(&path, [n]).unwrap();
            let kept = move_aside(&path, folder.path()).unwrap();
            assert_eq!(kept, folder.path().join(format!("records.broken-{n}")));
            assert_eq!(fs::read(kept).unwrap(), [n]);
            assert!(!path.exists());
        }
        assert_eq!(list(folder.path()).unwrap().len(), BROKEN_KEPT);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/file");
        assert!(matches!(replace(&path, b"x"), Err(StoreError::File { .. })));
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        // A folder in the way of the temporary file: the old bytes stay.
        fs::create_dir(folder.path().join("file.next")).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(read(&path).unwrap().unwrap(), b"old");
    }

    #[test]
    fn a_full_device_is_a_full_disk() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let write = || -> io::Result<()> { File::create(full)?.write_all(b"x") };
        assert!(StoreError::file(full)(write().unwrap_err()).is_full());
    }

    #[test]
    fn the_hash_of_a_file_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(content_id_of(&path).unwrap(), None);
        let bytes: Vec<u8> = (0..251).cycle().take(READ_BYTES + 77).collect();
        fs::write(&path, &bytes).unwrap();
        let id = atoll_protocol::crypto::content_id(&bytes);
        assert_eq!(content_id_of(&path).unwrap(), Some((id, bytes.len() as u64)));
        assert_eq!(parse_id(&id.to_hex()), Some(id));
        assert_eq!(parse_id("abc"), None);
    }
}
