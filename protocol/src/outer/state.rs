//! The outer state of one fragment, kept as the very bytes of its snapshot.

use std::fmt;

use thiserror::Error;

use crate::codec::CHUNK;
use crate::crypto::content_id_with;
use crate::fragment::Fragment;
use crate::id::{ContentId, FragmentId, Version};
use crate::pool::{self, Pool};

#[cfg(target_endian = "big")]
compile_error!("the outer state is its snapshot's little-endian bytes");

/// Parameters and momentum of one fragment at one version.
///
/// One buffer holds eight header words, the parameters and the momentum, so a snapshot and its
/// digest need no copy. The words are kept as integers: no float operation can touch a header,
/// and a bit pattern survives whatever it means as a float.
#[derive(Clone, PartialEq, Eq)]
pub struct OuterState {
    words: Vec<u32>,
}

impl OuterState {
    /// Version 0: the initial parameters and no momentum.
    pub fn new(fragment: FragmentId, params: &[f32]) -> Self {
        let mut words = vec![0; HEADER_WORDS + 2 * params.len()];
        let count = u32::try_from(params.len()).expect("fragments have fewer than 2^29 elements");
        words[..HEADER_WORDS].copy_from_slice(&header(fragment, 0, count));
        let mut state = Self { words };
        state.parts_mut().0.copy_from_slice(params);
        state
    }

    /// Which fragment.
    pub fn fragment(&self) -> FragmentId {
        FragmentId(u16::try_from(self.words[FRAGMENT_WORD]).expect("written from a fragment id"))
    }

    /// Which version.
    pub fn version(&self) -> Version {
        self.words[VERSION_WORD]
    }

    /// The parameters.
    pub fn params(&self) -> &[f32] {
        bytemuck::cast_slice(&self.words[HEADER_WORDS..HEADER_WORDS + self.elements()])
    }

    /// The outer optimiser's momentum.
    pub fn momentum(&self) -> &[f32] {
        bytemuck::cast_slice(&self.words[HEADER_WORDS + self.elements()..])
    }

    /// The snapshot.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// The snapshot's hash, by which it is compared and fetched.
    pub fn digest(&self, pool: &dyn Pool) -> ContentId {
        content_id_with(self.bytes(), pool)
    }

    /// The state that a snapshot holds, if it is one of `fragment` and every value is finite.
    pub fn from_bytes(bytes: &[u8], fragment: &Fragment) -> Result<Self, SnapshotError> {
        Self::check(bytes, fragment)?;
        let mut state = Self { words: vec![0; bytes.len() / WORD_BYTES] };
        state.copy_from_bytes(bytes);
        Ok(state)
    }

    /// Whether bytes are a snapshot of `fragment` and every value is finite.
    pub fn check(bytes: &[u8], fragment: &Fragment) -> Result<(), SnapshotError> {
        let expected = (HEADER_WORDS + 2 * fragment.elements) * WORD_BYTES;
        if bytes.len() != expected {
            return Err(SnapshotError::Length { bytes: bytes.len(), expected });
        }
        // The bytes may lie at any address, so words are read one by one.
        let (head, values) = bytes.as_chunks::<WORD_BYTES>().0.split_at(HEADER_WORDS);
        let head: Vec<u32> = head.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let count = u32::try_from(fragment.elements).map_err(|_| SnapshotError::Header)?;
        if head != header(fragment.id, head[VERSION_WORD], count) {
            return Err(SnapshotError::Header);
        }
        match values.iter().position(|value| !f32::from_le_bytes(*value).is_finite()) {
            Some(index) => Err(SnapshotError::NotFinite { index }),
            None => Ok(()),
        }
    }

    /// Number of parameters.
    pub(super) fn elements(&self) -> usize {
        (self.words.len() - HEADER_WORDS) / 2
    }

    /// The parameters and the momentum, to change.
    pub(super) fn parts_mut(&mut self) -> (&mut [f32], &mut [f32]) {
        let elements = self.elements();
        bytemuck::cast_slice_mut(&mut self.words[HEADER_WORDS..]).split_at_mut(elements)
    }

    /// Names the version that the values now are.
    pub(super) fn set_version(&mut self, version: Version) {
        self.words[VERSION_WORD] = version;
    }

    /// Becomes `other`, in the memory that is already there.
    pub(super) fn copy_from(&mut self, other: &Self, pool: &dyn Pool) {
        self.set_version(other.version());
        self.copy_from_parts(other.params(), other.momentum(), pool);
    }

    /// Takes over parameters and momentum.
    pub(super) fn copy_from_parts(&mut self, params: &[f32], momentum: &[f32], pool: &dyn Pool) {
        let parts = self.parts_mut();
        copy(parts.0, params, pool);
        copy(parts.1, momentum, pool);
    }

    /// Becomes the state of a snapshot that was checked.
    pub(super) fn copy_from_bytes(&mut self, bytes: &[u8]) {
        bytemuck::cast_slice_mut::<u32, u8>(&mut self.words).copy_from_slice(bytes);
    }
}

impl fmt::Debug for OuterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OuterState")
            .field("fragment", &self.fragment())
            .field("version", &self.version())
            .field("elements", &self.elements())
            .finish_non_exhaustive()
    }
}

/// Why bytes are not a snapshot of the expected fragment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// Not as long as the fragment's parameters and momentum.
    #[error("{bytes} bytes, expected {expected}")]
    Length {
        /// Bytes found.
        bytes: usize,
        /// Bytes of every snapshot of this fragment.
        expected: usize,
    },
    /// The header does not describe a snapshot of this fragment.
    #[error("not the header of a snapshot of this fragment")]
    Header,
    /// A value is not finite.
    #[error("value {index} is not finite")]
    NotFinite {
        /// Its index among parameters and momentum.
        index: usize,
    },
}

/// Copies values, bit for bit.
pub(super) fn copy(to: &mut [f32], from: &[f32], pool: &dyn Pool) {
    assert_eq!(to.len(), from.len(), "values of one fragment");
    let parts = to.chunks_mut(CHUNK).zip(from.chunks(CHUNK)).collect();
    pool::map(pool, parts, |(to, from): (&mut [f32], &[f32])| to.copy_from_slice(from));
}

fn header(fragment: FragmentId, version: Version, count: u32) -> [u32; HEADER_WORDS] {
    let mut words = [0; HEADER_WORDS];
    words[0] = TAG;
    words[1] = FORMAT;
    words[FRAGMENT_WORD] = u32::from(fragment.0);
    words[VERSION_WORD] = version;
    words[4] = count;
    words
}

/// "ATOS": the first bytes of every snapshot.
const TAG: u32 = u32::from_le_bytes(*b"ATOS");
/// Grows when the layout changes.
const FORMAT: u32 = 1;
const HEADER_WORDS: usize = 8;
const FRAGMENT_WORD: usize = 2;
const VERSION_WORD: usize = 3;
const WORD_BYTES: usize = size_of::<u32>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::Piece;
    use crate::genesis::TensorKind;
    use crate::pool::Inline;

    fn fragment(elements: usize) -> Fragment {
        let piece = Piece { tensor: 0, kind: TensorKind::Vector, start: 0, len: elements };
        Fragment { id: FragmentId(3), pieces: vec![piece], elements }
    }

    #[test]
    fn a_snapshot_comes_back_bit_for_bit() {
        let mut state = OuterState::new(FragmentId(3), &[1.5, -0.0, f32::MIN_POSITIVE / 2.0]);
        state.parts_mut().1[1] = -7.25;
        state.set_version(9);
        let mut shifted = vec![0u8];
        shifted.extend_from_slice(state.bytes());
        let again = OuterState::from_bytes(&shifted[1..], &fragment(3)).unwrap();
        assert_eq!(again, state);
        assert_eq!((again.version(), again.fragment()), (9, FragmentId(3)));
        assert_eq!(again.digest(&Inline), crate::crypto::content_id(state.bytes()));
    }

    #[test]
    fn any_other_bytes_are_refused() {
        let state = OuterState::new(FragmentId(3), &[1.0, 2.0]);
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = state.bytes().to_vec();
            change(&mut bytes);
            OuterState::from_bytes(&bytes, &fragment(2)).unwrap_err()
        };
        assert!(matches!(refused(&|bytes| bytes.push(0)), SnapshotError::Length { .. }));
        for word in [0, 1, 2, 4, 5, 6, 7] {
            assert_eq!(refused(&|bytes| bytes[word * 4] ^= 1), SnapshotError::Header, "{word}");
        }
        let infinite = f32::INFINITY.to_le_bytes();
        let error = refused(&|bytes| bytes[44..48].copy_from_slice(&infinite));
        assert_eq!(error, SnapshotError::NotFinite { index: 3 });
    }
}
