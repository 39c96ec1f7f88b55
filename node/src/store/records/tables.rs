//! What the database holds.

use redb::{Database, ReadableDatabase, TableDefinition};

/// Each record under its number, sealed.
pub(super) const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
/// For each record that a prune may name: its fragment, round and number; and its author, which
/// is empty for a closed round. So a prune reads no record it does not remove.
pub(super) const INDEX: TableDefinition<'_, (u16, u32, u64), &[u8]> = TableDefinition::new("index");
/// What checks measured, sealed, under the id of the content.
pub(super) const NORMS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("norms");
/// The few single values.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// The run whose records these are.
pub(super) const RUN: &str = "run";
/// The number of the next record.
pub(super) const NEXT: &str = "next";
/// How often the node was started.
pub(super) const INCARNATION: &str = "incarnation";

/// `bytes` with a checksum that also covers the key they are stored under.
pub(super) fn seal(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut sealed = checksum(key, bytes).to_vec();
    sealed.extend_from_slice(bytes);
    sealed
}

/// What was sealed under `key`, if it still is that.
pub(super) fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (check, bytes) = sealed.split_first_chunk()?;
    (*check == checksum(key, bytes)).then_some(bytes)
}

/// One of the single values that are numbers.
pub(super) fn number(database: &Database, name: &str) -> Result<Option<u64>, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    let value = meta.get(name)?;
    Ok(value.and_then(|value| Some(u64::from_le_bytes(value.value().try_into().ok()?))))
}

fn checksum(key: &[u8], bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(bytes);
    *hasher.finalize().as_bytes().first_chunk().expect("a hash is longer")
}

const CHECKSUM_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_breaks_with_any_bit_and_under_another_key() {
        let sealed = seal(b"key", b"bytes");
        assert_eq!(unseal(b"key", &sealed), Some(&b"bytes"[..]));
        assert_eq!(unseal(b"kez", &sealed), None);
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(b"key", &other), None, "{bit}");
        }
        assert_eq!(unseal(b"key", &sealed[..CHECKSUM_BYTES - 1]), None);
    }
}
