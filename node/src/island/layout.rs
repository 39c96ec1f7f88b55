//! Where each tensor lies in the island's one flat slice of parameters.

use std::ops::Range;

use atoll_protocol::fragment::FragmentMap;
use atoll_protocol::genesis::{Genesis, TensorKind};
use atoll_protocol::id::FragmentId;

/// Where each tensor and each fragment lies in the flat slice of all parameters.
///
/// Fragments follow one another, and inside a fragment its tensors, in name order: capture and
/// adopt work on a fragment without gathering it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Place>,
    fragments: Vec<Range<usize>>,
}

impl Layout {
    /// The layout that the genesis implies.
    pub fn new(genesis: &Genesis) -> Self {
        Self::with_map(genesis, &genesis.fragment_map())
    }

    fn with_map(genesis: &Genesis, map: &FragmentMap) -> Self {
        let mut places = vec![None; genesis.tensors.len()];
        let mut fragments = Vec::with_capacity(map.fragments().len());
        let mut start = 0;
        for fragment in map.fragments() {
            for piece in &fragment.pieces {
                let tensor = &genesis.tensors[piece.tensor];
                let begin = start + piece.start;
                places[piece.tensor] = Some(Place {
                    name: tensor.name.clone(),
                    shape: tensor.shape.iter().map(|&side| side as usize).collect(),
                    kind: tensor.kind,
                    range: begin..begin + piece.len,
                });
            }
            fragments.push(start..start + fragment.elements);
            start += fragment.elements;
        }
        let tensors =
            places.into_iter().map(|place| place.expect("every tensor is in a fragment")).collect();
        Self { tensors, fragments }
    }

    /// All tensors, in name order.
    pub fn tensors(&self) -> &[Place] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Place> {
        let index = self.tensors.binary_search_by(|place| place.name.as_str().cmp(name)).ok()?;
        self.tensors.get(index)
    }

    /// Where a fragment lies, if the run has it.
    pub fn fragment(&self, id: FragmentId) -> Option<Range<usize>> {
        self.fragments.get(id.index()).cloned()
    }

    /// All fragments and where they lie.
    pub fn fragments(&self) -> impl Iterator<Item = (FragmentId, Range<usize>)> {
        (0..).map(FragmentId).zip(self.fragments.iter().cloned())
    }

    /// Number of parameters.
    pub fn elements(&self) -> usize {
        self.fragments.last().map_or(0, |range| range.end)
    }

    /// The seeded initial parameters of the run.
    pub fn initial(&self, genesis: &Genesis) -> Vec<f32> {
        genesis.fragment_map().fragments().iter().flat_map(|it| genesis.initial(it)).collect()
    }
}

/// One tensor's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name, as in Hugging Face's files.
    pub name: String,
    /// Its dimensions; a matrix is stored row by row, one row for each output.
    pub shape: Vec<usize>,
    /// What it is.
    pub kind: TensorKind,
    /// Where it lies in the flat slice.
    pub range: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_protocol::genesis::Model;

    #[test]
    fn tensors_fill_the_slice_without_gaps() {
        let genesis = Genesis::new("layout", Model::preset("nano").unwrap());
        let layout = Layout::new(&genesis);
        let mut ranges: Vec<_> = layout.tensors().iter().map(|it| it.range.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        assert_eq!(ranges[0].start, 0);
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(ranges.last().unwrap().end, layout.elements());
        let norm = layout.tensor("model.norm.weight").unwrap();
        assert!(layout.initial(&genesis)[norm.range.clone()].iter().all(|&value| value == 1.0));
        assert_eq!(layout.tensor("model.nothing.weight"), None);
    }
}
