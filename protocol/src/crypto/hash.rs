//! blake3: with a domain for what we make, plain for bytes that are fetched by their hash.

use blake3::hazmat::{
    HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::id::ContentId;
use crate::limits::CONTENT_CHUNK_BYTES;
use crate::pool::{self, Pool};
use crate::wire::tag::Domain;
use crate::wire::version::WIRE_VERSION;

/// The hash of `parts`, bound to `domain` and the wire version.
///
/// The parts are concatenated: callers give them fixed lengths or put the length first.
pub fn hash(domain: Domain, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(domain.tag()).update(&WIRE_VERSION.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The plain blake3 hash of `bytes`, which is how they are fetched.
///
/// Such bytes begin with a tag of their own kind, so no domain is needed; a plain hash can be
/// verified while it streams.
pub fn content_id(bytes: &[u8]) -> ContentId {
    ContentId(*blake3::hash(bytes).as_bytes())
}

/// [`content_id`], with the tree's branches hashed on `pool`.
pub fn content_id_with(bytes: &[u8], pool: &dyn Pool) -> ContentId {
    if bytes.len() <= BRANCH_BYTES {
        return content_id(bytes);
    }
    let left = usize::try_from(left_subtree_len(bytes.len() as u64)).expect("shorter than bytes");
    let branches: Vec<(usize, &[u8])> = bytes
        .chunks(BRANCH_BYTES)
        .enumerate()
        .map(|(index, branch)| (index * BRANCH_BYTES, branch))
        .collect();
    let values = pool::map(pool, branches, |(offset, branch)| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset as u64).update(branch);
        hasher.finalize_non_root()
    });
    let (left_values, right_values) = values.split_at(left / BRANCH_BYTES);
    let root = merge_subtrees_root(
        &subtree(left_values, left),
        &subtree(right_values, bytes.len() - left),
        Mode::Hash,
    );
    ContentId(*root.as_bytes())
}

/// The chaining value over `values`, the branches of `len` bytes.
pub(super) fn subtree(values: &[[u8; 32]], len: usize) -> [u8; 32] {
    if values.len() == 1 {
        return values[0];
    }
    let left = usize::try_from(left_subtree_len(len as u64)).expect("shorter than len");
    let (left_values, right_values) = values.split_at(left / BRANCH_BYTES);
    merge_subtrees_non_root(
        &subtree(left_values, left),
        &subtree(right_values, len - left),
        Mode::Hash,
    )
}

/// One job's share of the tree: a power of two, large enough to keep blake3's lanes full.
const BRANCH_BYTES: usize = CONTENT_CHUNK_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Inline;

    #[test]
    fn branches_give_the_plain_hash() {
        let bytes: Vec<u8> = (0..251).cycle().take(5 * BRANCH_BYTES + 777).collect();
        for len in [0, 1, BRANCH_BYTES, BRANCH_BYTES + 1, 2 * BRANCH_BYTES, bytes.len()] {
            assert_eq!(content_id_with(&bytes[..len], &Inline), content_id(&bytes[..len]), "{len}");
        }
    }

    #[test]
    fn domains_separate() {
        assert_ne!(hash(Domain::Cut, &[b"x"]), hash(Domain::Trail, &[b"x"]));
    }
}
