//! What each rule makes of a cut, and what an attacker can make of each rule.

#![allow(clippy::unwrap_used, reason = "a test may stop here")]

#[path = "support/swarm.rs"]
#[allow(dead_code, reason = "shared with the tests of the fold")]
mod swarm;

use atoll_protocol::codec::{self, Codec};
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::{Merge, MergeRule, TensorKind};
use atoll_protocol::outer::{self, CheckError, Member};
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;
use swarm::{bell, fragment};

const LEN: usize = 2000;

fn matrix() -> Fragment {
    fragment(&[(TensorKind::Matrix, LEN)])
}

fn merged(fragment: &Fragment, merge: &Merge, members: &[(u64, Vec<f32>)]) -> Vec<f32> {
    let measured: Vec<_> = members
        .iter()
        .map(|(tokens, values)| {
            let payload = codec::encode(Codec::F32, values, &Inline).unwrap();
            let norms = outer::check(&payload, Codec::F32, fragment, 1e9, &Inline).unwrap();
            (*tokens, payload, norms)
        })
        .collect();
    let members: Vec<_> = measured
        .iter()
        .map(|(tokens, payload, norms)| Member { tokens: *tokens, payload, norms })
        .collect();
    outer::merge(fragment, merge, Codec::F32, &members, &Inline).unwrap()
}

fn rule(rule: MergeRule) -> Merge {
    Merge { rule, weight_cap: 1000, clip: 1e9, norm_max: 1e9 }
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
}

fn distance(left: &[f32], right: &[f32]) -> f64 {
    norm(&left.iter().zip(right).map(|(left, right)| left - right).collect::<Vec<_>>())
}

fn times(values: &[f32], factor: f32) -> Vec<f32> {
    values.iter().map(|value| value * factor).collect()
}

/// Honest pseudo-gradients: a common part and noise of `noise` times its length.
fn honest(count: usize, noise: f32) -> Vec<(u64, Vec<f32>)> {
    let mut rng = Rng::new(17);
    let common = bell(&mut rng, LEN, 1.0);
    (0..count)
        .map(|_| {
            let own = bell(&mut rng, LEN, noise);
            (100, common.iter().zip(own).map(|(common, own)| common + own).collect())
        })
        .collect()
}

#[test]
fn the_mean_is_weighted_by_tokens() {
    let fragment = fragment(&[(TensorKind::Vector, 2)]);
    let members = [(3, vec![1.0, 0.0]), (1, vec![-1.0, 8.0])];
    assert_eq!(merged(&fragment, &rule(MergeRule::Mean), &members), [0.5, 2.0]);
    assert_eq!(merged(&fragment, &rule(MergeRule::Mean), &[]), [0.0, 0.0]);
    for empty in [MergeRule::Rda, MergeRule::TrimmedMean, MergeRule::CenteredClip] {
        assert_eq!(merged(&fragment, &rule(empty), &[]), [0.0, 0.0]);
        assert_eq!(merged(&fragment, &rule(empty), &[(0, vec![1.0, 1.0])]), [0.0, 0.0]);
        assert_eq!(merged(&fragment, &rule(empty), &[(9, vec![0.0, 0.0])]), [0.0, 0.0]);
        let alone = merged(&fragment, &rule(empty), &[(9, vec![3.0, -4.0])]);
        assert!(distance(&alone, &[3.0, -4.0]) < 1e-6, "{empty:?}: {alone:?}");
    }
}

#[test]
fn a_claim_of_tokens_buys_no_more_than_the_cap() {
    let fragment = fragment(&[(TensorKind::Vector, 1)]);
    let merge = Merge { weight_cap: 2, ..rule(MergeRule::Mean) };
    let members = [(10, vec![0.0]), (10, vec![0.0]), (u64::MAX, vec![1.0])];
    assert_eq!(merged(&fragment, &merge, &members), [0.5]);
}

#[test]
fn one_huge_member_is_clipped_by_every_rule() {
    let fragment = matrix();
    for name in [MergeRule::Mean, MergeRule::Rda, MergeRule::TrimmedMean, MergeRule::CenteredClip] {
        let merge = Merge { clip: 2.0, ..rule(name) };
        let mut members = honest(7, 0.5);
        let usual = norm(&members[0].1);
        members.push((100, times(&members[3].1, 1e6)));
        let length = norm(&merged(&fragment, &merge, &members));
        assert!(length < 1.5 * usual, "{name:?}: {length} against {usual}");
    }
}

#[test]
fn rda_keeps_the_length_that_the_mean_loses() {
    let fragment = fragment(&[(TensorKind::Matrix, LEN), (TensorKind::Embedding, LEN)]);
    let mut rng = Rng::new(2);
    let members: Vec<_> = (0..8).map(|_| (100, bell(&mut rng, 2 * LEN, 1.0))).collect();
    let mean = merged(&fragment, &rule(MergeRule::Mean), &members);
    let rda = merged(&fragment, &rule(MergeRule::Rda), &members);
    let usual = norm(&members[0].1[..LEN]);
    assert!(norm(&mean[..LEN]) < 0.45 * usual);
    assert!((norm(&rda[..LEN]) / usual - 1.0).abs() < 0.05);
    assert_eq!(mean[LEN..], rda[LEN..], "embeddings get the mean");
}

#[test]
fn rda_without_a_direction_is_the_mean() {
    let fragment = fragment(&[(TensorKind::Matrix, LEN), (TensorKind::Matrix, LEN)]);
    let mut rng = Rng::new(2);
    let one = bell(&mut rng, 2 * LEN, 1.0);
    let mut other = times(&one, -1.0);
    other[LEN..].copy_from_slice(&one[LEN..]);
    let members = [(100, one), (100, other)];
    let mean = merged(&fragment, &rule(MergeRule::Mean), &members);
    let rda = merged(&fragment, &rule(MergeRule::Rda), &members);
    assert_eq!(mean[..LEN], rda[..LEN]);
    assert!(distance(&mean[LEN..], &rda[LEN..]) < 1e-4 * norm(&mean[LEN..]));
}

#[test]
fn one_attacker_among_eight_barely_moves_the_robust_rules() {
    let fragment = matrix();
    let honest = honest(7, 0.3);
    let truth = merged(&fragment, &rule(MergeRule::Mean), &honest);
    let mut rng = Rng::new(4);
    let stranger = bell(&mut rng, LEN, 1.0);
    for (name, attack) in [
        ("sign flip x10", times(&honest[2].1, -10.0)),
        ("sign flip", times(&honest[2].1, -1.0)),
        ("stranger of the same norm", stranger),
    ] {
        let mut members = honest.clone();
        members.insert(3, (100, attack));
        let moved = |name| {
            let merge = Merge { clip: 2.0, ..rule(name) };
            distance(&merged(&fragment, &merge, &members), &truth) / norm(&truth)
        };
        let centered = moved(MergeRule::CenteredClip);
        assert!(centered < 0.1, "{name}: centred clipping moved by {centered}");
        let trimmed = moved(MergeRule::TrimmedMean);
        assert!(trimmed < 0.15, "{name}: the trimmed mean moved by {trimmed}");
    }
}

#[test]
fn three_attackers_among_eight_do_not_turn_centred_clipping() {
    let fragment = matrix();
    let honest = honest(5, 0.3);
    let truth = merged(&fragment, &rule(MergeRule::Mean), &honest);
    let mut members = honest.clone();
    for index in [0, 2, 5] {
        members.insert(index, (100, times(&truth, -10.0)));
    }
    let merge = Merge { clip: 2.0, ..rule(MergeRule::CenteredClip) };
    let result = merged(&fragment, &merge, &members);
    assert!(distance(&result, &truth) < 0.5 * norm(&truth));
}

#[test]
fn unbounded_payloads_are_refused() {
    let fragment = matrix();
    let payload = codec::encode(Codec::F32, &vec![1.0; LEN], &Inline).unwrap();
    let check = |bytes: &[u8], max| outer::check(bytes, Codec::F32, &fragment, max, &Inline);
    let norms = check(&payload, 100.0).unwrap();
    assert_eq!(norms.total, (LEN as f64).sqrt());
    assert_eq!(norms.pieces, [norms.total]);
    assert!(matches!(check(&payload, 44.0), Err(CheckError::TooLarge { max: 44.0, .. })));
    assert!(matches!(check(&payload[1..], 100.0), Err(CheckError::Payload(_))));
}
