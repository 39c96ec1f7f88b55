//! The fragment map: which parameters are exchanged as a unit, in which order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::genesis::{TensorKind, TensorSpec};
use crate::id::FragmentId;

/// How a model's tensors are split into fragments.
///
/// Every tensor lies in exactly one fragment. The largest tensor goes first, always into the
/// lightest fragment: the heaviest fragment is then at most 4/3 of the best possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentMap {
    fragments: Vec<Fragment>,
}

impl FragmentMap {
    /// Splits `tensors`, which are in name order as in a genesis, into `fragments`; fewer if
    /// there are fewer tensors, and at least one if there is any.
    pub fn new(tensors: &[TensorSpec], fragments: u16) -> Self {
        let count = usize::from(fragments.max(1)).min(tensors.len());
        let mut largest_first: Vec<(usize, usize)> =
            tensors.iter().map(TensorSpec::elements).enumerate().collect();
        largest_first.sort_by_key(|&(tensor, elements)| (Reverse(elements), tensor));
        let mut lightest: BinaryHeap<Reverse<(usize, usize)>> =
            (0..count).map(|fragment| Reverse((0, fragment))).collect();
        let mut members = vec![Vec::new(); count];
        for (tensor, elements) in largest_first {
            // An empty fragment is lighter than any other, because no tensor is empty: after
            // the first few tensors every fragment has one.
            let Some(Reverse((load, fragment))) = lightest.pop() else { break };
            members[fragment].push(tensor);
            lightest.push(Reverse((load.saturating_add(elements.max(1)), fragment)));
        }
        let fragments = members
            .into_iter()
            .zip(0..)
            .map(|(members, id)| Fragment::new(FragmentId(id), tensors, members))
            .collect();
        Self { fragments }
    }

    /// All fragments, in the order of their ids.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// One fragment, if the map has it.
    pub fn fragment(&self, id: FragmentId) -> Option<&Fragment> {
        self.fragments.get(id.index())
    }

    /// Parameters in all fragments.
    pub fn elements(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.elements).sum()
    }
}

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

impl Fragment {
    fn new(id: FragmentId, tensors: &[TensorSpec], mut members: Vec<usize>) -> Self {
        members.sort_unstable();
        let mut elements = 0usize;
        let pieces = members
            .into_iter()
            .map(|tensor| {
                let (start, len) = (elements, tensors[tensor].elements());
                elements = elements.saturating_add(len);
                Piece { tensor, kind: tensors[tensor].kind, start, len }
            })
            .collect();
        Self { id, pieces, elements }
    }
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
