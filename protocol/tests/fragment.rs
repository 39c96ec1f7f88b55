//! The fragment map: whole, balanced, and the same every time.

use atoll_protocol::fragment::FragmentMap;
use atoll_protocol::genesis::{Genesis, Init, Model, PRESETS, TensorKind, TensorSpec};
use atoll_protocol::id::FragmentId;
use proptest::prelude::*;

fn tensors(sizes: &[u32]) -> Vec<TensorSpec> {
    let tensor = |(index, &size): (usize, &u32)| {
        TensorSpec::new(format!("t{index:03}"), &[size], TensorKind::Vector, Init::Zeros)
    };
    sizes.iter().enumerate().map(tensor).collect()
}

/// The smallest possible heaviest fragment, by trying every assignment.
fn optimum(sizes: &[u32], loads: &mut [u32]) -> u32 {
    let Some((&first, rest)) = sizes.split_first() else {
        return loads.iter().copied().max().unwrap_or(0);
    };
    let mut best = u32::MAX;
    for fragment in 0..loads.len() {
        loads[fragment] += first;
        best = best.min(optimum(rest, loads));
        loads[fragment] -= first;
    }
    best
}

#[test]
fn the_largest_goes_first_into_the_lightest() {
    let map = FragmentMap::new(&tensors(&[3, 9, 3, 5, 4]), 2);
    let members: Vec<Vec<usize>> = map
        .fragments()
        .iter()
        .map(|fragment| fragment.pieces.iter().map(|piece| piece.tensor).collect())
        .collect();
    // 9 | 5, then 4 joins 5, then one 3 goes to each: the one with the lower name to the lower
    // fragment, for both weigh 9.
    assert_eq!(members, [vec![0, 1], vec![2, 3, 4]]);
    assert_eq!(map.fragment(FragmentId(1)).unwrap().elements, 12);
    assert_eq!(map.fragment(FragmentId(2)), None);
}

#[test]
fn presets_are_balanced() {
    for preset in PRESETS {
        let genesis = Genesis::new("a", Model::preset(preset).unwrap());
        let map = genesis.fragment_map();
        let heaviest = map.fragments().iter().map(|fragment| fragment.elements).max().unwrap();
        assert_eq!(map.fragments().len(), 4);
        assert!(heaviest * 4 <= map.elements() * 11 / 10, "{preset}: {heaviest}");
    }
}

#[test]
fn no_tensors_make_no_fragments() {
    assert!(FragmentMap::new(&[], 3).fragments().is_empty());
}

proptest! {
    #[test]
    fn every_tensor_lies_in_one_place(
        sizes in prop::collection::vec(1u32..1000, 1..60),
        fragments in 0u16..70,
    ) {
        let tensors = tensors(&sizes);
        let map = FragmentMap::new(&tensors, fragments);
        prop_assert_eq!(&map, &FragmentMap::new(&tensors, fragments));
        prop_assert_eq!(map.fragments().len(), usize::from(fragments.max(1)).min(sizes.len()));
        let mut seen = vec![0; sizes.len()];
        for (index, fragment) in map.fragments().iter().enumerate() {
            prop_assert_eq!(fragment.id.index(), index);
            prop_assert!(!fragment.pieces.is_empty());
            let mut end = 0;
            for piece in &fragment.pieces {
                prop_assert_eq!(piece.start, end);
                prop_assert_eq!(piece.len, tensors[piece.tensor].elements());
                end += piece.len;
                seen[piece.tensor] += 1;
            }
            prop_assert_eq!(fragment.elements, end);
            let names = fragment.pieces.iter().map(|piece| &tensors[piece.tensor].name);
            prop_assert!(names.is_sorted_by(|one, other| one < other));
        }
        prop_assert!(seen.iter().all(|&count| count == 1));
        prop_assert_eq!(map.elements(), sizes.iter().sum::<u32>() as usize);
    }

    #[test]
    fn the_heaviest_is_within_four_thirds_of_the_best(
        sizes in prop::collection::vec(1u32..100, 1..9),
        fragments in 1u16..4,
    ) {
        let map = FragmentMap::new(&tensors(&sizes), fragments);
        let heaviest = map.fragments().iter().map(|fragment| fragment.elements).max().unwrap();
        let best = optimum(&sizes, &mut vec![0; usize::from(fragments)]) as usize;
        prop_assert!(heaviest * 3 <= best * 4, "{} of {}", heaviest, best);
    }
}
