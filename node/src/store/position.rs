//! Reads and writes at a place of a file, from any thread, without a cursor.

use std::fs::File;
use std::io;

/// Fills `into` from `offset` on.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

/// Writes `bytes` from `offset` on.
#[cfg(unix)]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Fills `into` from `offset` on.
#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, into, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        into = &mut into[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Writes `bytes` from `offset` on.
#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}
