//! Writing a token file: to a name of its own first, so that nobody ever sees half of one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::source::{Files, Found, Progress};
use super::super::{DataError, Tokenizer};
use super::TokenFile;
use super::header::Header;

/// Writes the tokens of `found` to `path`, all or nothing.
pub(super) fn build(
    files: &Files,
    found: &[Found],
    tokenizer: &Tokenizer,
    (path, fingerprint): (&Path, [u8; 32]),
    progress: &mut dyn FnMut(Progress),
) -> Result<(), DataError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(DataError::file(folder))?;
    }
    let unfinished = Unfinished::new(path);
    let mut writer = TokenWriter::new(tokenizer, &unfinished.path)?;
    let total = found.iter().map(Found::size).sum();
    let mut done = 0;
    progress(Progress { done, total });
    files.read(found, &mut |part| {
        done += part.bytes;
        if writer.take(part.text, part.last)? {
            progress(Progress { done: done.min(total), total });
        }
        Ok(())
    })?;
    if writer.text == 0 {
        return Err(DataError::Empty { path: files.path.clone() });
    }
    writer.finish(fingerprint)?;
    if let Err(error) = fs::rename(&unfinished.path, path) {
        // Where an open file cannot be replaced, another island may have written the same one.
        let other = TokenFile::open(path)?;
        if other.is_none_or(|file| file.header.fingerprint != fingerprint) {
            return Err(DataError::File { path: path.to_owned(), source: error });
        }
    }
    progress(Progress { done: total, total });
    Ok(())
}

/// A file that is removed unless it was renamed.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn new(path: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let end = format!("unfinished-{}-{count}", std::process::id());
        Self { path: path.with_extension(end) }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is gone if all went well, and nothing can be done if it cannot be removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// Collects text until encoding it is worth the while, then writes its tokens.
struct TokenWriter<'a> {
    tokenizer: &'a Tokenizer,
    path: &'a Path,
    file: BufWriter<File>,
    waiting: Vec<(String, bool)>,
    waiting_bytes: usize,
    /// Bytes of text seen.
    text: u64,
    ids: Vec<u32>,
    bytes: Vec<u8>,
    count: u64,
    hasher: blake3::Hasher,
}

impl<'a> TokenWriter<'a> {
    fn new(tokenizer: &'a Tokenizer, path: &'a Path) -> Result<Self, DataError> {
        let file = File::create(path).map_err(DataError::file(path))?;
        let mut file = BufWriter::new(file);
        // The header is known only at the end; until then the file is not one of ours.
        file.write_all(&[0; Header::LENGTH]).map_err(DataError::file(path))?;
        Ok(Self {
            tokenizer,
            path,
            file,
            waiting: Vec::new(),
            waiting_bytes: 0,
            text: 0,
            ids: Vec::new(),
            bytes: Vec::new(),
            count: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    /// Takes text and says whether this wrote some tokens.
    fn take(&mut self, text: String, last: bool) -> Result<bool, DataError> {
        self.text += text.len() as u64;
        self.waiting_bytes += text.len() + 1;
        self.waiting.push((text, last));
        let enough = self.waiting_bytes >= WAITING;
        if enough {
            self.write()?;
        }
        Ok(enough)
    }

    fn finish(mut self, fingerprint: [u8; 32]) -> Result<(), DataError> {
        self.write()?;
        let vocab = self.tokenizer.vocab();
        let header = Header {
            width: Header::width_for(vocab),
            vocab,
            count: self.count,
            tokenizer: self.tokenizer.digest(),
            fingerprint,
            content: *self.hasher.finalize().as_bytes(),
        };
        let seal = |mut file: BufWriter<File>| -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header.encode())?;
            file.into_inner()?.sync_all()
        };
        seal(self.file).map_err(DataError::file(self.path))
    }

    fn write(&mut self) -> Result<(), DataError> {
        self.ids.clear();
        self.tokenizer.encode_all(&self.waiting, &mut self.ids)?;
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.bytes.clear();
        let width = Header::width_for(self.tokenizer.vocab());
        for id in &self.ids {
            self.bytes.extend_from_slice(&id.to_le_bytes()[..width]);
        }
        self.hasher.update(&self.bytes);
        self.count += self.ids.len() as u64;
        self.file.write_all(&self.bytes).map_err(DataError::file(self.path))
    }
}

/// Bytes of text that are encoded together.
const WAITING: usize = 1024 * 1024;
