//! Contents of which only some chunks are here yet; they survive restarts.
//!
//! For each there are three files: the bytes, with holes; the outline, as whoever fetches wants
//! it back; and for each chunk its share of the content's hash. The last makes a chunk that never
//! reached the disk show after a loss of power, and the whole content's hash known at the end
//! without reading it again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use atoll_protocol::id::ContentId;

use super::Inner;
use super::budget::Budget;
use super::contents::{MADE, Reached};
use super::error::StoreError;
use super::file;
use super::locked;
use super::position::{read_exact_at, write_all_at};
use super::tree::{CHUNK, chunk_value, count, root};

/// The folder of contents on their way.
#[derive(Debug)]
pub(super) struct Incoming {
    folder: PathBuf,
    known: Mutex<BTreeMap<ContentId, Entry>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Bytes taken into account.
    bytes: u64,
    /// Whether somebody writes to it.
    open: bool,
}

impl Incoming {
    /// Looks at what is there and removes what is of no use.
    pub(super) fn open(folder: PathBuf, budget: &Budget) -> Result<Self, StoreError> {
        let mut known = BTreeMap::new();
        let files = file::list(&folder)?;
        for (name, _) in &files {
            if let Some(id) = name.strip_suffix(OUTLINE).and_then(file::parse_id)
                && let Some((bytes, _)) = read_outline(&folder.join(name))?
                && files.contains(&(id.to_hex(), bytes))
            {
                known.insert(id, Entry { bytes, open: false });
            }
        }
        for (name, _) in &files {
            let stem = name.split('.').next().unwrap_or(name);
            let kept = file::parse_id(stem).is_some_and(|id| known.contains_key(&id));
            if !kept || name.ends_with(MADE) || name.ends_with(file::NEXT) {
                file::remove(&folder.join(name))?;
            }
        }
        let incoming = known.values().map(|entry| entry.bytes).sum();
        budget.count(|used| used.incoming = incoming);
        Ok(Self { folder, known: Mutex::new(known) })
    }

    /// Removes what is here of a content that nobody writes to.
    pub(super) fn remove(&self, id: &ContentId, budget: &Budget) -> Result<(), StoreError> {
        let mut known = locked(&self.known);
        let Some(entry) = known.get(id).copied().filter(|entry| !entry.open) else { return Ok(()) };
        remove_files(&self.path(id))?;
        known.remove(id);
        budget.count(|used| used.incoming -= entry.bytes);
        Ok(())
    }

    /// Everything of which a part is here.
    pub(super) fn ids(&self) -> Vec<ContentId> {
        locked(&self.known).keys().copied().collect()
    }

    fn path(&self, id: &ContentId) -> PathBuf {
        self.folder.join(id.to_hex())
    }
}

/// A content that arrives chunk by chunk, in any order.
#[derive(Debug)]
pub struct IncomingFile {
    inner: Arc<Inner>,
    id: ContentId,
    path: PathBuf,
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    bytes: File,
    chunks: File,
    length: u64,
    outline: Vec<u8>,
    /// The share of each chunk in the content's hash; none for one that is missing.
    values: Vec<Option<[u8; 32]>>,
}

impl IncomingFile {
    /// Goes on with a content; whatever an earlier attempt left is verified first.
    pub(super) fn open(inner: Arc<Inner>, id: ContentId) -> io::Result<Self> {
        let path = inner.incoming.path(&id);
        {
            let mut known = locked(&inner.incoming.known);
            let entry = known.entry(id).or_default();
            if entry.open {
                let message = format!("content {id} is being received already");
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            entry.open = true;
        }
        // From here on dropping it closes the entry.
        let mut file = Self { inner, id, path, begun: None };
        file.begun = Begun::resume(&file.path)?;
        if file.begun.is_none() {
            file.clear()?;
        }
        Ok(file)
    }

    /// What is received.
    pub fn id(&self) -> ContentId {
        self.id
    }

    /// The outline that `begin` was given, perhaps by an earlier process.
    pub fn outline(&self) -> Option<Vec<u8>> {
        self.begun.as_ref().map(|begun| begun.outline.clone())
    }

    /// The length that `begin` was given.
    pub fn length(&self) -> Option<u64> {
        self.begun.as_ref().map(|begun| begun.length)
    }

    /// Says how long the content is, and what to give back as its outline. Room for all of it is
    /// taken into account now. Begun again in the same way, it goes on; in another, from nothing.
    pub fn begin(&mut self, length: u64, outline: &[u8]) -> io::Result<()> {
        if let Some(begun) = &self.begun
            && (begun.length, begun.outline.as_slice()) == (length, outline)
        {
            return Ok(());
        }
        if length > LENGTH_MAX || outline.len() > OUTLINE_BYTES_MAX {
            let message = format!("content {}: {length} bytes are too many", self.id);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.clear()?;
        self.inner.budget.reserve(&self.path, length, |used| used.incoming += length)?;
        self.reserved(length);
        let begun = Begun::new(&self.path, length, outline);
        if begun.is_err() {
            let _ = self.clear();
        }
        self.begun = Some(begun?);
        Ok(())
    }

    /// Whether a chunk is here.
    pub fn has(&self, chunk: u32) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.has(chunk))
    }

    /// Writes a chunk, which the caller has verified.
    pub fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        let begun = self.begun.as_mut().ok_or_else(|| not_begun(self.id))?;
        begun.write(chunk, bytes)
    }

    /// Makes it a content, if its chunks are all here and have the right hash. The next record
    /// that names it makes it durable.
    pub fn finish(mut self) -> io::Result<()> {
        let begun = self.begun.as_ref().ok_or_else(|| not_begun(self.id))?;
        let values: Option<Vec<[u8; 32]>> = begun.values.iter().copied().collect();
        let Some(values) = values else {
            let message = format!("content {} is not all here yet", self.id);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let length = begun.length;
        if root(&values, length) != self.id {
            self.clear()?;
            let message = format!("content {} arrived with another hash", self.id);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let inner = self.inner.clone();
        let Inner { contents, budget, incidents, .. } = &*inner;
        if !contents.is_whole(&self.id, length, budget, incidents)? {
            contents.place(self.id, &self.path, length, Reached::Nothing, budget)?;
            budget.count(|used| used.contents += length);
        }
        self.clear()
    }

    /// Removes what is here; another attempt begins from nothing.
    pub fn abandon(mut self) -> io::Result<()> {
        self.clear()
    }

    /// Removes the files and gives back what they took of the budget.
    fn clear(&mut self) -> io::Result<()> {
        self.begun = None;
        remove_files(&self.path)?;
        self.reserved(0);
        Ok(())
    }

    /// Notes what is taken into account for it, and gives back what was before.
    fn reserved(&self, bytes: u64) {
        let mut known = locked(&self.inner.incoming.known);
        let entry = known.entry(self.id).or_default();
        let before = std::mem::replace(&mut entry.bytes, bytes);
        self.inner.budget.count(|used| used.incoming -= before);
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        let mut known = locked(&self.inner.incoming.known);
        if let Some(entry) = known.get_mut(&self.id) {
            entry.open = false;
            if entry.bytes == 0 && self.begun.is_none() {
                known.remove(&self.id);
            }
        }
    }
}

impl Begun {
    fn new(path: &Path, length: u64, outline: &[u8]) -> io::Result<Self> {
        // Last comes the outline, without which the rest is of no use.
        let bytes = open(path)?;
        bytes.set_len(length)?;
        let chunks = open(&beside(path, CHUNKS))?;
        chunks.set_len(count(length) as u64 * 32)?;
        write_outline(&beside(path, OUTLINE), length, outline)?;
        let values = vec![None; count(length)];
        Ok(Self { bytes, chunks, length, outline: outline.to_vec(), values })
    }

    /// What an earlier attempt left, without the chunks that are not what was written.
    fn resume(path: &Path) -> io::Result<Option<Self>> {
        let Some((length, outline)) = read_outline(&beside(path, OUTLINE))? else {
            return Ok(None);
        };
        let there = std::fs::metadata(path).is_ok_and(|about| about.len() == length);
        let table = file::read(&beside(path, CHUNKS))?.unwrap_or_default();
        if !there || table.len() != count(length) * 32 {
            return Ok(None);
        }
        let (bytes, chunks) = (open(path)?, open(&beside(path, CHUNKS))?);
        let mut begun = Self { bytes, chunks, length, outline, values: vec![None; count(length)] };
        let mut buffer = Vec::new();
        for (index, value) in table.as_chunks::<32>().0.iter().enumerate() {
            if *value == ABSENT {
                continue;
            }
            let (offset, size) = begun.place(index);
            buffer.resize(size, 0);
            let read = read_exact_at(&begun.bytes, &mut buffer, offset);
            if read.is_ok() && chunk_value(index as u64, &buffer, length) == *value {
                begun.values[index] = Some(*value);
            }
        }
        Ok(Some(begun))
    }

    fn has(&self, chunk: u32) -> bool {
        matches!(self.values.get(chunk as usize), Some(Some(_)))
    }

    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        let index = chunk as usize;
        let (offset, size) = self.place(index);
        if index >= self.values.len() || bytes.len() != size {
            let message = format!("chunk {chunk} of {} bytes does not belong here", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let value = chunk_value(u64::from(chunk), bytes, self.length);
        // A crash in between leaves a chunk that counts as missing.
        write_all_at(&self.bytes, bytes, offset)?;
        write_all_at(&self.chunks, &value, u64::from(chunk) * 32)?;
        self.values[index] = Some(value);
        Ok(())
    }

    /// Where a chunk begins, and how long it is.
    fn place(&self, index: usize) -> (u64, usize) {
        let offset = index as u64 * CHUNK;
        let size = self.length.saturating_sub(offset).min(CHUNK);
        (offset, usize::try_from(size).expect("at most a chunk"))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).open(path)
}

fn read_outline(path: &Path) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let Some(bytes) = file::read(path)? else { return Ok(None) };
    let parts = bytes.split_first_chunk::<32>().and_then(|(check, rest)| {
        let (length, outline) = rest.split_first_chunk::<8>()?;
        (blake3::hash(rest).as_bytes() == check)
            .then(|| (u64::from_le_bytes(*length), outline.to_vec()))
    });
    Ok(parts.filter(|(length, _)| *length <= LENGTH_MAX))
}

fn write_outline(path: &Path, length: u64, outline: &[u8]) -> Result<(), StoreError> {
    let mut rest = length.to_le_bytes().to_vec();
    rest.extend_from_slice(outline);
    let check = blake3::hash(&rest);
    file::replace_soon(path, &[check.as_bytes(), rest.as_slice()].concat())
}

fn remove_files(path: &Path) -> Result<(), StoreError> {
    // First the outline, without which the rest is of no use.
    file::remove(&beside(path, OUTLINE))?;
    file::remove(&beside(path, CHUNKS))?;
    file::remove(path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

fn not_begun(id: ContentId) -> io::Error {
    let message = format!("nobody said how long content {id} is");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

const OUTLINE: &str = ".outline";
const CHUNKS: &str = ".chunks";
/// The value of a chunk that is not here; no hash is known that is this.
const ABSENT: [u8; 32] = [0; 32];
/// Longer than any snapshot of a fragment.
const LENGTH_MAX: u64 = 1 << 33;
/// Longer than any outline of the longest content.
const OUTLINE_BYTES_MAX: usize = 4 << 20;
