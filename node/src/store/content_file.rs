//! A stored content that is read in places, to serve it.

use std::fs::File;
use std::io;
use std::path::Path;

use super::position::read_exact_at;

/// An open content. It stays readable even if the content is pruned meanwhile.
///
/// What it reads is what the disk has: whoever fetches it verifies it.
#[derive(Debug)]
pub struct ContentFile {
    file: File,
    length: u64,
}

impl ContentFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Fills `into` from `offset` on.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        read_exact_at(&self.file, into, offset)
    }
}
