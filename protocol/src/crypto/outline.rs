//! The outline of a content: what its chunks must hash to, so that each can be checked alone.

use std::ops::Range;

use blake3::hazmat::{
    HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use super::hash::subtree;
use crate::id::ContentId;
use crate::limits::CONTENT_CHUNK_BYTES;

/// A content's length and the blake3 value of each of its chunks.
///
/// A content of one chunk has the root itself as its value. The values alone do not pin the
/// length, because it only enters the hash of the last leaf; so the way down to that leaf, and
/// the leaf, are part of the outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    bytes: u64,
    values: Vec<[u8; 32]>,
    /// The left siblings on the way from the last chunk's value down to the last leaf.
    spine: Vec<[u8; 32]>,
    /// The last leaf: the content's last bytes.
    tail: Vec<u8>,
}

impl Outline {
    /// The outline of `bytes`, at most 4 GiB.
    pub fn of(bytes: &[u8]) -> Self {
        let mut draft = OutlineDraft::new(bytes.len() as u64);
        if bytes.is_empty() {
            draft.push(&[]);
        }
        for chunk in bytes.chunks(CONTENT_CHUNK_BYTES) {
            draft.push(chunk);
        }
        draft.finish().expect("all chunks were given")
    }

    /// Whether this outlines the content `content`: its values merge to it, and no content of
    /// another length has it.
    pub fn verify(&self, content: &ContentId) -> bool {
        self.is_whole() && self.ends_here() && self.root() == content.0
    }

    /// The content's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of chunks; an empty content has one, which is empty.
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.values.len()).expect("contents are at most 4 GiB")
    }

    /// Where a chunk lies in the content; empty past the last one.
    pub fn range(&self, chunk: u32) -> Range<u64> {
        range_of(self.bytes, chunk)
    }

    /// Whether `bytes` are the chunk with this index.
    pub fn chunk_is(&self, chunk: u32, bytes: &[u8]) -> bool {
        let range = self.range(chunk);
        let Some(value) = self.values.get(chunk as usize) else { return false };
        bytes.len() as u64 == range.end - range.start
            && *value == chunk_value(self.bytes, range.start, bytes)
    }

    /// The wire form: everything but the length has a length that follows from it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_le_bytes().to_vec();
        for value in self.values.iter().chain(&self.spine) {
            bytes.extend_from_slice(value);
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    /// Reads the wire form of a content of at most `bytes_max` bytes; none if it is not one.
    pub fn from_bytes(bytes: &[u8], bytes_max: u64) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length);
        if length > bytes_max || bytes.len() as u64 != Self::wire_bytes(length)? {
            return None;
        }
        let values = chunk_count(length)? as usize;
        let (hashes, tail) = rest.split_at_checked(32 * (values + lefts(length).len()))?;
        let (hashes, _) = hashes.as_chunks::<32>();
        let (values, spine) = hashes.split_at_checked(values)?;
        Some(Self {
            bytes: length,
            values: values.to_vec(),
            spine: spine.to_vec(),
            tail: tail.to_vec(),
        })
    }

    /// The length of the wire form of a content's outline; none if the content is too long.
    pub fn wire_bytes(content_bytes: u64) -> Option<u64> {
        let hashes = u64::from(chunk_count(content_bytes)?) + lefts(content_bytes).len() as u64;
        Some(8 + 32 * hashes + tail_bytes(content_bytes))
    }

    fn is_whole(&self) -> bool {
        chunk_count(self.bytes).is_some_and(|count| count as usize == self.values.len())
            && self.spine.len() == lefts(self.bytes).len()
            && self.tail.len() as u64 == tail_bytes(self.bytes)
    }

    /// Whether the tail, at the place where the length puts it, leads to the last value.
    fn ends_here(&self) -> bool {
        let mut value = chunk_value(self.bytes, self.bytes - tail_bytes(self.bytes), &self.tail);
        for (depth, left) in self.spine.iter().enumerate().rev() {
            value = if depth == 0 && self.values.len() == 1 {
                *merge_subtrees_root(left, &value, Mode::Hash).as_bytes()
            } else {
                merge_subtrees_non_root(left, &value, Mode::Hash)
            };
        }
        self.values.last() == Some(&value)
    }

    fn root(&self) -> [u8; 32] {
        if let [value] = self.values.as_slice() {
            return *value;
        }
        let left = left_subtree_len(self.bytes);
        let middle = usize::try_from(left).expect("fits: is_whole") / CONTENT_CHUNK_BYTES;
        let (left_values, right_values) = self.values.split_at(middle);
        let left = usize::try_from(left).expect("fits: is_whole");
        let right = usize::try_from(self.bytes).expect("fits: is_whole") - left;
        let root = merge_subtrees_root(
            &subtree(left_values, left),
            &subtree(right_values, right),
            Mode::Hash,
        );
        *root.as_bytes()
    }
}

/// An outline in the making: takes the chunks of a content one after another.
#[derive(Debug)]
pub struct OutlineDraft {
    bytes: u64,
    given: u64,
    values: Vec<[u8; 32]>,
    spine: Vec<[u8; 32]>,
    tail: Vec<u8>,
}

impl OutlineDraft {
    /// Begins the outline of a content of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, given: 0, values: Vec::new(), spine: Vec::new(), tail: Vec::new() }
    }

    /// Where the next chunk lies in the content; none after the last one.
    pub fn next(&self) -> Option<Range<u64>> {
        let index = u32::try_from(self.values.len()).ok()?;
        (index < chunk_count(self.bytes)?).then(|| range_of(self.bytes, index))
    }

    /// Adds the next chunk. One of another length than [`OutlineDraft::next`] says spoils it.
    pub fn push(&mut self, chunk: &[u8]) {
        let offset = self.given;
        let length = self.next().map(|range| range.end - range.start);
        if offset > self.bytes || length != Some(chunk.len() as u64) {
            self.given = u64::MAX;
            return;
        }
        self.given += chunk.len() as u64;
        self.values.push(chunk_value(self.bytes, offset, chunk));
        if self.given == self.bytes {
            let mut rest = chunk;
            for left in lefts(self.bytes) {
                let (left, right) = rest.split_at_checked(left).unwrap_or((rest, &[]));
                let at = self.bytes - rest.len() as u64;
                self.spine.push(part_value(at, left));
                rest = right;
            }
            self.tail = rest.to_vec();
        }
    }

    /// The outline, if exactly the content's chunks were given.
    pub fn finish(self) -> Option<Outline> {
        let Self { bytes, given, values, spine, tail } = self;
        let outline = Outline { bytes, values, spine, tail };
        (given == bytes && outline.is_whole()).then_some(outline)
    }
}

/// Chunks of a content of `bytes` bytes; none if that is more than any content has.
fn chunk_count(bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok()?;
    u32::try_from(bytes.div_ceil(CHUNK).max(1)).ok()
}

fn range_of(bytes: u64, chunk: u32) -> Range<u64> {
    let start = (u64::from(chunk) * CHUNK).min(bytes);
    start..(start + CHUNK).min(bytes)
}

/// The value of a chunk, or of a leaf, of a content of `bytes` bytes.
fn chunk_value(bytes: u64, offset: u64, part: &[u8]) -> [u8; 32] {
    if part.len() as u64 == bytes {
        return *blake3::hash(part).as_bytes();
    }
    part_value(offset, part)
}

fn part_value(offset: u64, part: &[u8]) -> [u8; 32] {
    // Nothing in a tree of several parts is empty, and blake3 has no value for it.
    if part.is_empty() {
        return [0; 32];
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset).update(part);
    hasher.finalize_non_root()
}

/// Bytes in the last chunk.
fn last_bytes(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes - (bytes - 1) / CHUNK * CHUNK }
}

/// The lengths of the left branches on the way down from the last chunk to the last leaf.
fn lefts(bytes: u64) -> Vec<usize> {
    let mut rest = last_bytes(bytes);
    let mut lefts = Vec::new();
    while rest > LEAF {
        let left = left_subtree_len(rest);
        lefts.push(usize::try_from(left).expect("less than a chunk"));
        rest -= left;
    }
    lefts
}

/// Bytes in the last leaf.
fn tail_bytes(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes - (bytes - 1) / LEAF * LEAF }
}

const CHUNK: u64 = CONTENT_CHUNK_BYTES as u64;
/// A leaf of blake3's tree.
const LEAF: u64 = blake3::CHUNK_LEN as u64;

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "a few chunks")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::content_id;

    fn content(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ (at % 251) as u8 ^ seed).collect()
    }

    /// Lengths at which a leaf, a chunk or a level of the tree begins or ends, and some others.
    fn lengths() -> impl Strategy<Value = usize> {
        let near = (0usize..=5, -2i64..=2, prop_oneof![Just(1024i64), Just(CHUNK as i64)]);
        prop_oneof![
            near.prop_map(|(times, off, unit)| (times as i64 * unit + off).max(0) as usize),
            0usize..6 * CONTENT_CHUNK_BYTES,
        ]
    }

    #[test]
    fn outlines_near_boundaries_are_of_the_plain_hash() {
        let bytes = content(9 * CONTENT_CHUNK_BYTES + 5000, 1);
        for unit in [LEAF as usize, CONTENT_CHUNK_BYTES] {
            for times in 0..=9 {
                for len in [times * unit, times * unit + 1, (times * unit).saturating_sub(1)] {
                    let outline = Outline::of(&bytes[..len]);
                    assert!(outline.verify(&content_id(&bytes[..len])), "{len}");
                    assert_eq!(outline.bytes(), len as u64);
                    let chunks = len.div_ceil(CONTENT_CHUNK_BYTES).max(1);
                    assert_eq!(outline.chunks() as usize, chunks);
                }
            }
        }
    }

    #[test]
    fn chunks_of_other_lengths_make_no_outline() {
        let chunk = content(CONTENT_CHUNK_BYTES, 6);
        let mut draft = OutlineDraft::new(CHUNK + 5);
        draft.push(&chunk[..100]);
        draft.push(&chunk);
        draft.push(&chunk[..5]);
        assert_eq!(draft.finish(), None);
    }

    #[test]
    fn a_length_past_the_bound_is_refused() {
        let wire = Outline::of(&content(3000, 0)).to_bytes();
        assert!(Outline::from_bytes(&wire, 3000).is_some());
        assert!(Outline::from_bytes(&wire, 2999).is_none());
        assert_eq!(Outline::wire_bytes(u64::from(u32::MAX) + 1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_wire_form_comes_back(len in lengths()) {
            let outline = Outline::of(&content(len, 2));
            let wire = outline.to_bytes();
            prop_assert_eq!(Some(wire.len() as u64), Outline::wire_bytes(len as u64));
            prop_assert_eq!(Outline::from_bytes(&wire, len as u64), Some(outline));
            prop_assert_eq!(Outline::from_bytes(&wire[..wire.len() - 1], len as u64), None);
        }

        #[test]
        fn every_chunk_is_itself_and_no_other(len in lengths(), at: prop::sample::Index) {
            let mut bytes = content(len, 3);
            let outline = Outline::of(&bytes);
            for chunk in 0..outline.chunks() {
                let range = outline.range(chunk);
                let part = &bytes[range.start as usize..range.end as usize];
                prop_assert!(outline.chunk_is(chunk, part));
                prop_assert!(!outline.chunk_is(chunk + 1, part) || part.is_empty());
                prop_assert!(part.is_empty() || !outline.chunk_is(chunk, &part[1..]));
            }
            prop_assert!(outline.range(outline.chunks()).is_empty());
            if len > 0 {
                let at = at.index(len);
                bytes[at] ^= 1;
                let chunk = (at / CONTENT_CHUNK_BYTES) as u32;
                let range = outline.range(chunk);
                let part = &bytes[range.start as usize..range.end as usize];
                prop_assert!(!outline.chunk_is(chunk, part));
            }
        }

        #[test]
        fn any_other_outline_is_refused(len in lengths(), at: prop::sample::Index, bit in 0u8..8) {
            let bytes = content(len, 4);
            let id = content_id(&bytes);
            let mut wire = Outline::of(&bytes).to_bytes();
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
            let other = Outline::from_bytes(&wire, u64::MAX);
            prop_assert!(other.is_none_or(|outline| !outline.verify(&id)));
        }

        #[test]
        fn another_length_is_refused(len in lengths(), other in lengths()) {
            let bytes = content(len, 5);
            let outline = Outline::of(&bytes);
            let liar = Outline { bytes: other as u64, ..outline };
            prop_assert_eq!(liar.verify(&content_id(&bytes)), len == other);
        }
    }
}
