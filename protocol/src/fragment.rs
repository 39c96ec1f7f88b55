//! The fragment map: which parameters are exchanged as a unit, in which order.

use crate::genesis::TensorKind;
use crate::id::FragmentId;

/// A fixed set of tensors, laid out one after another in one flat slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its index in the map.
    pub id: FragmentId,
    /// Its tensors in name order, without gaps.
    pub pieces: Vec<Piece>,
    /// Parameters in all pieces.
    pub elements: usize,
}

/// One tensor's place in a fragment's flat slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the tensor in the genesis' name-ordered list.
    pub tensor: usize,
    /// What the tensor is.
    pub kind: TensorKind,
    /// First element in the fragment's slice.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
}
