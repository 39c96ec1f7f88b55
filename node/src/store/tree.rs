//! The hash of a content, from the hashes of its chunks.

use atoll_protocol::id::ContentId;
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;
use blake3::hazmat::{
    HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// What a chunk adds to the hash of a content of `length` bytes.
pub(super) fn chunk_value(index: u64, bytes: &[u8], length: u64) -> [u8; 32] {
    if length <= CHUNK {
        return *blake3::hash(bytes).as_bytes();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(index * CHUNK).update(bytes);
    hasher.finalize_non_root()
}

/// The hash of a content of `length` bytes whose chunks have these values.
pub(super) fn root(values: &[[u8; 32]], length: u64) -> ContentId {
    let [first, rest @ ..] = values else { return ContentId(*blake3::hash(&[]).as_bytes()) };
    if rest.is_empty() {
        return ContentId(*first);
    }
    let left = left_subtree_len(length);
    let (one, other) = values.split_at(count(left));
    let root = merge_subtrees_root(&subtree(one, left), &subtree(other, length - left), Mode::Hash);
    ContentId(*root.as_bytes())
}

/// How many chunks `length` bytes have.
pub(super) fn count(length: u64) -> usize {
    usize::try_from(length.div_ceil(CHUNK)).unwrap_or(usize::MAX)
}

fn subtree(values: &[[u8; 32]], length: u64) -> [u8; 32] {
    if let [value] = values {
        return *value;
    }
    let left = left_subtree_len(length);
    let (one, other) = values.split_at(count(left));
    merge_subtrees_non_root(&subtree(one, left), &subtree(other, length - left), Mode::Hash)
}

/// Bytes of a chunk.
pub(super) const CHUNK: u64 = CONTENT_CHUNK_BYTES as u64;

#[cfg(test)]
mod tests {
    use atoll_protocol::crypto::content_id;

    use super::*;

    #[test]
    fn chunks_give_the_plain_hash() {
        let bytes: Vec<u8> = (0..251).cycle().take(7 * CONTENT_CHUNK_BYTES + 99).collect();
        let chunk = CONTENT_CHUNK_BYTES;
        for length in [0, 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 5, 4 * chunk, bytes.len()] {
            let bytes = &bytes[..length];
            let values: Vec<[u8; 32]> = (0..)
                .zip(bytes.chunks(chunk))
                .map(|(index, part)| chunk_value(index, part, length as u64))
                .collect();
            assert_eq!(values.len(), count(length as u64));
            assert_eq!(root(&values, length as u64), content_id(bytes), "{length}");
        }
    }
}
