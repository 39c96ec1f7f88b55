//! The fold: one set of contributions gives one state, however it came about.

#![allow(clippy::unwrap_used, reason = "a test may stop here")]

#[path = "support/swarm.rs"]
mod swarm;
#[path = "support/threads.rs"]
mod threads;

use atoll_protocol::codec::CHUNK;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::{MergeRule, TensorKind};
use atoll_protocol::id::{ContentId, Version};
use atoll_protocol::outer::FoldError;
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;
use proptest::prelude::*;
use swarm::{Contribution, Store, contributions, cuts, fold, fragment};
use threads::Threads;

const RULES: [MergeRule; 4] =
    [MergeRule::Mean, MergeRule::Rda, MergeRule::TrimmedMean, MergeRule::CenteredClip];

fn small() -> Fragment {
    fragment(&[
        (TensorKind::Matrix, 40),
        (TensorKind::Vector, 3),
        (TensorKind::Embedding, 21),
        (TensorKind::Matrix, 17),
    ])
}

/// Several chunks, with pieces that do not care where a chunk ends. The lengths are fixed, so that
/// the golden digests are those of one fragment whatever a chunk is.
fn large() -> Fragment {
    fragment(&[
        (TensorKind::Matrix, 300_000),
        (TensorKind::Vector, 77),
        (TensorKind::Embedding, 240_000),
        (TensorKind::Matrix, 9001),
    ])
}

fn from_scratch(
    fragment: &Fragment,
    rule: MergeRule,
    known: &[Contribution],
    store: &Store,
    head: Version,
) -> ContentId {
    fold(fragment, rule).refold(&cuts(known, 0, head), store, &Inline).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Contributions arrive in any order, some twice; after some arrivals the node re-folds what
    /// it has. In the end it has what a node has that saw everything at once.
    #[test]
    fn arrival_order_and_duplication_do_not_matter(seed: u64, rounds in 1u32..40, rule in 0usize..4) {
        let (fragment, rule) = (small(), RULES[rule]);
        let mut store = Store::default();
        let all = contributions(&mut store, &fragment, seed, rounds, 4);
        let mut rng = Rng::new(seed);
        let mut arriving = all.clone();
        for known in &all {
            if rng.ratio(1, 4) {
                arriving.push(known.clone());
            }
        }
        rng.shuffle(&mut arriving);
        let mut fold = fold(&fragment, rule);
        let mut known = Vec::new();
        for contribution in arriving {
            known.push(contribution);
            if rng.ratio(1, 3) {
                let head = known.iter().map(|known| known.round).max().unwrap_or(0);
                let digest = fold.refold(&cuts(&known, 0, head), &store, &Inline).unwrap();
                prop_assert_eq!(digest, fold.head().digest(&Inline));
            }
        }
        let digest = fold.refold(&cuts(&known, 0, rounds), &store, &Inline).unwrap();
        prop_assert_eq!(digest, from_scratch(&fragment, rule, &all, &store, rounds));
        prop_assert_eq!(digest, fold.head().digest(&Inline));
        prop_assert_eq!(fold.head().version(), rounds);
    }

    /// The base follows the head at some distance, contributions are late by less than that.
    #[test]
    fn advancing_the_base_changes_nothing(seed: u64, rounds in 1u32..70, late in 1u64..30) {
        let fragment = small();
        let mut store = Store::default();
        let all = contributions(&mut store, &fragment, seed, rounds, 3);
        let mut rng = Rng::new(seed);
        let arrivals: Vec<u64> =
            all.iter().map(|known| u64::from(known.round) + rng.below(late)).collect();
        let mut fold = fold(&fragment, MergeRule::Mean);
        for now in 1..=rounds {
            let here = |index: &usize| arrivals[*index] <= u64::from(now) || now == rounds;
            let known: Vec<_> =
                (0..all.len()).filter(here).map(|index| all[index].clone()).collect();
            fold.refold(&cuts(&known, fold.base().version(), now), &store, &Inline).unwrap();
            let complete = now.saturating_sub(u32::try_from(late).unwrap());
            if complete > fold.base().version() && rng.ratio(1, 2) {
                let digest = fold.advance_base(complete, &store, &Inline).unwrap();
                prop_assert_eq!(digest, fold.base().digest(&Inline));
                let scratch = from_scratch(&fragment, MergeRule::Mean, &all, &store, complete);
                prop_assert_eq!(digest, scratch);
            }
        }
        let digest = from_scratch(&fragment, MergeRule::Mean, &all, &store, rounds);
        prop_assert_eq!(fold.head().digest(&Inline), digest);
        prop_assert_eq!(fold.advance_base(rounds, &store, &Inline).unwrap(), digest);
    }

    /// A head that goes back, because fewer rounds are closed than before, is a true fold too.
    #[test]
    fn fewer_rounds_are_a_fold_too(seed: u64, rounds in 2u32..40, fewer in 0u32..40) {
        let fragment = small();
        let fewer = fewer.min(rounds);
        let mut store = Store::default();
        let all = contributions(&mut store, &fragment, seed, rounds, 3);
        let mut fold = fold(&fragment, MergeRule::Rda);
        let whole = fold.refold(&cuts(&all, 0, rounds), &store, &Inline).unwrap();
        let digest = fold.refold(&cuts(&all, 0, fewer), &store, &Inline).unwrap();
        prop_assert_eq!(digest, from_scratch(&fragment, MergeRule::Rda, &all, &store, fewer));
        prop_assert_eq!(fold.refold(&cuts(&all, 0, rounds), &store, &Inline).unwrap(), whole);
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let fragment = large();
    assert!(fragment.elements > 2 * CHUNK);
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 5, 2, 5);
    for rule in RULES {
        let expected = from_scratch(&fragment, rule, &all, &store, 2);
        for threads in [1, 2, 4] {
            let pool = Threads::new(threads);
            let mut fold = fold(&fragment, rule);
            let digest = fold.refold(&cuts(&all, 0, 2), &store, &pool).unwrap();
            assert_eq!(digest, expected, "{rule:?} with {threads} threads");
            assert_eq!(fold.advance_base(2, &store, &pool).unwrap(), expected);
        }
    }
}

/// Bits that may never change without a new genesis format: every node computes these.
#[test]
fn golden_digests() {
    let fragment = large();
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 20, 3, 5);
    let digests: Vec<String> =
        RULES.iter().map(|rule| from_scratch(&fragment, *rule, &all, &store, 3).to_hex()).collect();
    assert_eq!(digests, GOLDEN);
}

#[test]
fn only_new_cuts_are_merged() {
    let fragment = small();
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 3, 64, 4);
    let mut fold = fold(&fragment, MergeRule::Mean);
    let members = |round| cuts(&all, 0, 64)[round as usize - 1].members.len();
    let late = all.iter().position(|known| known.round == 56).unwrap();
    let mut known = all.clone();
    known.remove(late);
    for head in 1..=64 {
        fold.refold(&cuts(&known, 0, head), &store, &Inline).unwrap();
    }
    store.lookups.set(0);
    fold.refold(&cuts(&known, 0, 64), &store, &Inline).unwrap();
    assert_eq!(store.lookups.get(), 0, "nothing changed");
    let digest = fold.refold(&cuts(&all, 0, 64), &store, &Inline).unwrap();
    assert_eq!(store.lookups.get(), members(56), "one round changed, eight rounds deep");
    assert_eq!(digest, from_scratch(&fragment, MergeRule::Mean, &all, &store, 64));
    store.lookups.set(0);
    fold.advance_base(57, &store, &Inline).unwrap();
    assert_eq!(store.lookups.get(), 0, "the merges near the head are remembered");
}

#[test]
fn a_missing_payload_is_an_error_and_not_an_end() {
    let fragment = small();
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 8, 30, 3);
    let expected = from_scratch(&fragment, MergeRule::Mean, &all, &store, 30);
    let late = all.iter().position(|known| known.round == 11).unwrap();
    let mut before = all.clone();
    let id = before.remove(late).member.payload;
    let mut fold = fold(&fragment, MergeRule::Mean);
    fold.refold(&cuts(&before, 0, 30), &store, &Inline).unwrap();
    let payload = store.remove(&id);
    let error = fold.refold(&cuts(&all, 0, 30), &store, &Inline).unwrap_err();
    assert_eq!(error, FoldError::Missing { round: 11, payload: id });
    let shorter = fold.head().version();
    assert!(shorter < 11);
    let true_fold = from_scratch(&fragment, MergeRule::Mean, &before, &store, shorter);
    assert_eq!(fold.head().digest(&Inline), true_fold);
    store.insert(id, payload);
    assert_eq!(fold.refold(&cuts(&all, 0, 30), &store, &Inline).unwrap(), expected);
}

#[test]
fn versions_outside_are_refused() {
    let fragment = small();
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 8, 5, 3);
    let mut fold = fold(&fragment, MergeRule::Mean);
    let gap = fold.refold(&cuts(&all, 1, 5), &store, &Inline).unwrap_err();
    assert_eq!(gap, FoldError::Gap { expected: 1, found: 2 });
    fold.refold(&cuts(&all, 0, 5), &store, &Inline).unwrap();
    fold.advance_base(3, &store, &Inline).unwrap();
    for version in [2, 6] {
        let error = fold.advance_base(version, &store, &Inline).unwrap_err();
        assert_eq!(error, FoldError::Outside { version, base: 3, head: 5 });
    }
}

#[test]
fn a_snapshot_continues_the_history() {
    let fragment = small();
    let mut store = Store::default();
    let all = contributions(&mut store, &fragment, 4, 20, 3);
    let mut donor = fold(&fragment, MergeRule::Rda);
    donor.refold(&cuts(&all, 0, 12), &store, &Inline).unwrap();
    let mut joiner = fold(&fragment, MergeRule::Rda);
    joiner.refold(&cuts(&all, 0, 2), &store, &Inline).unwrap();
    let mut broken = donor.head().bytes().to_vec();
    broken.pop();
    assert!(joiner.install(&broken).is_err());
    assert_eq!((joiner.base().version(), joiner.head().version()), (0, 2), "nothing has changed");
    joiner.install(donor.head().bytes()).unwrap();
    assert_eq!(joiner.head(), donor.head());
    let digest = joiner.refold(&cuts(&all, 12, 20), &store, &Inline).unwrap();
    assert_eq!(digest, from_scratch(&fragment, MergeRule::Rda, &all, &store, 20));
}

/// In the order of [`RULES`].
const GOLDEN: [&str; 4] = [
    "e25651bdbd346a6322a3442e7a3b53a19d43ba9d5ef5946af7e71b57efa8efb2",
    "2d04c302bb9a92c455d4c157352353990f048ba04d56d80d1f34664e0f0bc697",
    "f0f0cd473b2f49045b360759c2a6890b15740022f42d8589e6b7803118a2a7ff",
    "513e82161a781a6b009d6ab64dbb6b5645c281e64e33a7e135aae4b0d7e8fe93",
];
