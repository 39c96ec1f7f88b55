//! The tokens of files, written once to a file of our own and read at any place.
//!
//! A window is read with one positioned read: for windows of a few hundred tokens that costs less
//! than a microsecond more than a memory map, needs no unsafe code, and a file that shrinks under
//! us is an error instead of a signal.

mod build;
mod header;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use header::{Header, MAGIC};

use super::source::{Files, Progress};
use super::{DataError, Tokenizer, keyed};

/// A file of tokens, checked when it was opened.
#[derive(Debug)]
pub(super) struct TokenFile {
    file: File,
    path: PathBuf,
    header: Header,
}

/// The token file of `files` in the folder `cache`: the one that is there if it is still right,
/// else a new one.
pub(super) fn open_or_build(
    files: &Files,
    tokenizer: &Tokenizer,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<TokenFile, DataError> {
    let found = files.find()?;
    let fingerprint = files.fingerprint(&found, tokenizer);
    let path = cache.join(name(files, tokenizer));
    if let Some(file) = TokenFile::open(&path)?
        && file.header.fingerprint == fingerprint
    {
        return Ok(file);
    }
    build::build(files, &found, tokenizer, (&path, fingerprint), progress)?;
    let damaged = || DataError::DamagedCache {
        path: path.clone(),
        reason: "it changed while it was written".into(),
    };
    TokenFile::open(&path)?
        .filter(|file| file.header.fingerprint == fingerprint)
        .ok_or_else(damaged)
}

impl TokenFile {
    /// Tokens in it.
    pub(super) fn count(&self) -> u64 {
        self.header.count
    }

    /// A hash of the tokens.
    pub(super) fn content(&self) -> [u8; 32] {
        self.header.content
    }

    /// Appends `count` tokens from `start` on; `bytes` is room to read into.
    pub(super) fn read(
        &self,
        start: u64,
        count: usize,
        bytes: &mut Vec<u8>,
        into: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let width = self.header.width;
        bytes.resize(count * width, 0);
        let at = Header::LENGTH as u64 + start * width as u64;
        read_at(&self.file, bytes, at).map_err(DataError::file(&self.path))?;
        let length = into.len();
        if width == 2 {
            into.extend(
                bytes.chunks_exact(2).map(|it| u32::from(u16::from_le_bytes([it[0], it[1]]))),
            );
        } else {
            let id = |it: &[u8]| u32::from_le_bytes([it[0], it[1], it[2], it[3]]);
            into.extend(bytes.chunks_exact(4).map(id));
        }
        // A token that the model does not know would be read past the end of its embedding.
        match into[length..].iter().find(|id| **id >= self.header.vocab) {
            None => Ok(()),
            Some(id) => Err(DataError::DamagedCache {
                path: self.path.clone(),
                reason: format!("token {id} of a vocabulary of {}", self.header.vocab),
            }),
        }
    }

    /// Opens what is at `path`: none if there is nothing, or nothing whole. What we never wrote is
    /// an error, so that it is not overwritten.
    fn open(path: &Path) -> Result<Option<Self>, DataError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DataError::file(path)(error)),
        };
        let mut bytes = Vec::with_capacity(Header::LENGTH);
        let mut limited = (&mut file).take(Header::LENGTH as u64);
        limited.read_to_end(&mut bytes).map_err(DataError::file(path))?;
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(DataError::ForeignCache { path: path.to_owned() });
        }
        let length = file.metadata().map_err(DataError::file(path))?.len();
        let header = Header::decode(&bytes).filter(|header| header.file_length() == Some(length));
        Ok(header.map(|header| Self { file, path: path.to_owned(), header }))
    }
}

/// What the token file of `files` is called: the same for as long as they stay where they are, so
/// that a new one replaces the old one.
fn name(files: &Files, tokenizer: &Tokenizer) -> String {
    let path = std::path::absolute(&files.path).unwrap_or_else(|_| files.path.clone());
    let field = files.field.as_deref().unwrap_or_default();
    let parts = [path.as_os_str().as_encoded_bytes(), field.as_bytes(), &tokenizer.digest()];
    let hash = blake3::Hash::from_bytes(keyed("atoll 2026 name of a token file v1", &parts));
    format!("{}.tokens", &hash.to_hex().as_str()[..16])
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                at += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        files: Files,
    }

    impl Place {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("text.txt");
            fs::write(&path, text).unwrap();
            Self { folder, files: Files { path, field: None } }
        }

        /// The tokens, and whether they had to be made.
        fn open(&self) -> Result<(Vec<u32>, bool), DataError> {
            let cache = self.folder.path().join("cache/deep");
            let mut heard = Vec::new();
            let tokenizer = Tokenizer::byte();
            let file = open_or_build(&self.files, &tokenizer, &cache, &mut |it| heard.push(it))?;
            let mut tokens = Vec::new();
            let count = usize::try_from(file.count()).unwrap();
            file.read(0, count, &mut Vec::new(), &mut tokens)?;
            assert!(heard.is_sorted_by_key(|it| it.done));
            assert!(heard.last().is_none_or(|it| it.done == it.total));
            let entries = fs::read_dir(&cache).unwrap().count();
            assert_eq!(entries, 1, "nothing unfinished stays");
            Ok((tokens, !heard.is_empty()))
        }

        fn cache(&self) -> PathBuf {
            let cache = self.folder.path().join("cache/deep");
            cache.join(name(&self.files, &Tokenizer::byte()))
        }
    }

    #[test]
    fn tokens_are_made_once_and_again_when_the_text_changes() {
        let place = Place::new("abc");
        assert_eq!(place.open().unwrap(), (vec![97, 98, 99, 0], true));
        assert_eq!(place.open().unwrap(), (vec![97, 98, 99, 0], false));
        fs::write(&place.files.path, "other").unwrap();
        assert_eq!(place.open().unwrap().0.len(), 6);
        assert!(!place.open().unwrap().1);
        // The same size, another time.
        fs::write(&place.files.path, "older").unwrap();
        let file = File::options().write(true).open(&place.files.path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(7)).unwrap();
        assert!(place.open().unwrap().1);
        assert_eq!(place.open().unwrap().0[..3], [111, 108, 100]);
    }

    #[test]
    fn torn_files_are_made_again() {
        let place = Place::new("abc");
        place.open().unwrap();
        let whole = fs::read(place.cache()).unwrap();
        for length in [0, 3, 8, 40, Header::LENGTH, whole.len() - 1] {
            fs::write(place.cache(), &whole[..length]).unwrap();
            assert!(place.open().unwrap().1, "{length} bytes");
        }
        let mut damaged = whole.clone();
        damaged[20] ^= 1;
        fs::write(place.cache(), &damaged).unwrap();
        assert!(place.open().unwrap().1);
        assert_eq!(fs::read(place.cache()).unwrap(), whole);
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let place = Place::new("abc");
        place.open().unwrap();
        fs::write(place.cache(), "my diary").unwrap();
        assert!(matches!(place.open(), Err(DataError::ForeignCache { .. })));
        assert_eq!(fs::read(place.cache()).unwrap(), b"my diary");
    }

    #[test]
    fn an_impossible_token_is_an_error() {
        let place = Place::new("abc");
        place.open().unwrap();
        let mut bytes = fs::read(place.cache()).unwrap();
        bytes[Header::LENGTH + 3] = 1;
        fs::write(place.cache(), &bytes).unwrap();
        let error = place.open().unwrap_err().to_string();
        assert!(error.ends_with("token 354 of a vocabulary of 256"), "{error}");
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let place = Place::new("abc");
        fs::write(&place.files.path, b"abc\xff").unwrap();
        assert!(matches!(place.open(), Err(DataError::NotUtf8 { byte: 3, .. })));
        assert_eq!(fs::read_dir(place.folder.path().join("cache/deep")).unwrap().count(), 0);
    }

    #[test]
    fn lines_without_any_text_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(&path, "{\"text\": \"\"}\n").unwrap();
        let files = Files { path, field: None };
        let cache = folder.path().join("cache");
        let opened = open_or_build(&files, &Tokenizer::byte(), &cache, &mut |_| {});
        assert!(matches!(opened, Err(DataError::Empty { .. })));
    }
}
