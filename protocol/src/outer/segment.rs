//! Segments: the runs of elements that lie in one piece and in one codec chunk.
//!
//! A job has a whole chunk; its segments are where what it does to a piece begins and ends.

use std::ops::Range;

use crate::codec::CHUNK;
use crate::fragment::Fragment;

/// A run of elements in one piece and one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Index of the piece.
    pub(super) piece: usize,
    /// Its elements, counted from the start of the chunk.
    pub(super) range: Range<usize>,
}

/// The segments of chunk `index`, in order.
pub(super) fn segments(fragment: &Fragment, index: usize) -> Vec<Segment> {
    let start = index * CHUNK;
    let end = fragment.elements.min(start + CHUNK);
    let first = fragment.pieces.partition_point(|piece| piece.start + piece.len <= start);
    fragment.pieces[first..]
        .iter()
        .enumerate()
        .take_while(|(_, piece)| piece.start < end)
        .filter(|(_, piece)| piece.len > 0)
        .map(|(offset, piece)| Segment {
            piece: first + offset,
            range: piece.start.max(start) - start..(piece.start + piece.len).min(end) - start,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::Piece;
    use crate::genesis::TensorKind;
    use crate::id::FragmentId;

    #[test]
    fn every_element_is_in_one_segment() {
        let mut pieces = Vec::new();
        let mut elements = 0;
        for (tensor, len) in [5, CHUNK - 5, 0, 1, 3 * CHUNK, 7].into_iter().enumerate() {
            pieces.push(Piece { tensor, kind: TensorKind::Matrix, start: elements, len });
            elements += len;
        }
        let fragment = Fragment { id: FragmentId(0), pieces, elements };
        let mut seen = vec![0; fragment.pieces.len()];
        let mut next = 0;
        for index in 0..elements.div_ceil(CHUNK) {
            for segment in segments(&fragment, index) {
                assert_eq!(index * CHUNK + segment.range.start, next);
                next += segment.range.len();
                seen[segment.piece] += segment.range.len();
            }
        }
        assert_eq!(next, elements);
        assert_eq!(seen, fragment.pieces.iter().map(|piece| piece.len).collect::<Vec<_>>());
    }
}
