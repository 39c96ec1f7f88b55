//! The account: whatever happens to a capture, no progress is lost and none counts twice.

#![allow(clippy::unwrap_used, reason = "a test may stop here")]

#[path = "support/swarm.rs"]
#[allow(dead_code, reason = "shared with the tests of the fold")]
mod swarm;
#[path = "support/threads.rs"]
mod threads;

use atoll_protocol::codec::{CHUNK, Codec, Payload};
use atoll_protocol::island::Account;
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;
use proptest::prelude::*;
use swarm::bell;
use threads::Threads;

const CODECS: [Codec; 5] = [Codec::F32, Codec::Int8, Codec::Int4, Codec::Low, Codec::Sparse];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Pending,
    Merged,
    Returned,
}

/// A capture, and exactly what its payload stands for.
struct Capture {
    payload: Vec<u8>,
    content: Vec<f64>,
    fate: Fate,
}

/// An island, and beside it a model in f64 that knows where every bit of progress is.
struct Island {
    codec: Codec,
    account: Account,
    local: Vec<f32>,
    /// Everything that was ever trained.
    trained: Vec<f64>,
    /// What others have brought into the outer version.
    others: Vec<f32>,
    captures: Vec<Capture>,
    rng: Rng,
}

impl Island {
    fn new(seed: u64, elements: usize, codec: Codec) -> Self {
        let mut rng = Rng::new(seed);
        let outer = bell(&mut rng, elements, 1.0);
        Self {
            codec,
            account: Account::new(&outer),
            local: outer.clone(),
            trained: vec![0.0; elements],
            others: outer,
            captures: Vec::new(),
            rng,
        }
    }

    fn train(&mut self) {
        for (index, step) in bell(&mut self.rng, self.local.len(), 0.1).into_iter().enumerate() {
            let before = self.local[index];
            self.local[index] += step;
            self.trained[index] += f64::from(self.local[index]) - f64::from(before);
        }
    }

    fn capture(&mut self) {
        let before = self.local.clone();
        let payload = self.account.capture(&self.local, self.codec, &Inline).unwrap();
        assert_eq!(self.local, before);
        let mut decoded = vec![0.0; self.local.len()];
        let opened = Payload::open(&payload, self.codec, decoded.len()).unwrap();
        opened.decode(&mut decoded, &Inline).unwrap();
        let content = decoded.into_iter().map(|value| -f64::from(value)).collect();
        self.captures.push(Capture { payload, content, fate: Fate::Pending });
    }

    /// A new version: others have moved, some captures are merged, un-merged, expired, orphaned.
    fn adopt(&mut self) {
        let mut reissued = Vec::new();
        for (index, capture) in self.captures.iter_mut().enumerate() {
            capture.fate = match (capture.fate, self.rng.below(6)) {
                (Fate::Pending, 0..3) => Fate::Merged,
                (Fate::Merged, 0) => Fate::Pending,
                (Fate::Pending, 3) | (Fate::Merged, 1) => {
                    reissued.push(index);
                    Fate::Returned
                }
                (fate, _) => fate,
            };
        }
        let moves = bell(&mut self.rng, self.local.len(), 0.05);
        self.others.iter_mut().zip(moves).for_each(|(value, step)| *value += step);
        let outer = self.outer();
        let payload = |index: usize| self.captures[index].payload.as_slice();
        let pending: Vec<&[u8]> = (0..self.captures.len())
            .filter(|index| self.captures[*index].fate == Fate::Pending)
            .map(payload)
            .collect();
        let reissued: Vec<&[u8]> = reissued.into_iter().map(payload).collect();
        self.account
            .adopt(&mut self.local, &outer, &pending, &reissued, self.codec, &Inline)
            .unwrap();
        assert_eq!(self.account.outer(), outer);
    }

    /// The outer version holds what others did and, of this island, what is merged.
    fn outer(&self) -> Vec<f32> {
        let merged = self.sum(|fate| fate == Fate::Merged);
        #[expect(clippy::cast_possible_truncation, reason = "an outer version is f32")]
        let add = |(others, merged): (&f32, f64)| (f64::from(*others) + merged) as f32;
        self.others.iter().zip(merged).map(add).collect()
    }

    fn sum(&self, counts: impl Fn(Fate) -> bool) -> Vec<f64> {
        let mut sum = vec![0.0; self.local.len()];
        for capture in self.captures.iter().filter(|capture| counts(capture.fate)) {
            sum.iter_mut().zip(&capture.content).for_each(|(sum, content)| *sum += content);
        }
        sum
    }

    fn check(&self) {
        let pending = self.sum(|fate| fate == Fate::Pending);
        let left = self.sum(|fate| fate != Fate::Returned);
        let mut fresh = vec![0.0; self.local.len()];
        self.account.fresh(&self.local, &mut fresh);
        for index in 0..fresh.len() {
            let expected = self.trained[index] - left[index];
            let found = f64::from(fresh[index]);
            assert!((found - expected).abs() < 2e-5, "fresh {found}, expected {expected}");
            let found = f64::from(self.account.pending()[index]);
            assert!((found - pending[index]).abs() < 2e-6, "pending {found}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn progress_is_conserved(
        seed: u64,
        codec in 0usize..5,
        actions in prop::collection::vec(0u8..3, 1..40),
    ) {
        let mut island = Island::new(seed, 30, CODECS[codec]);
        for action in actions {
            match action {
                0 => island.train(),
                1 => island.capture(),
                _ => island.adopt(),
            }
            island.check();
        }
    }
}

#[test]
fn an_idle_island_is_its_outer_version_bit_for_bit() {
    let mut rng = Rng::new(1);
    let mut local = bell(&mut rng, 100, 1.0);
    let mut account = Account::new(&local);
    for _ in 0..100 {
        let outer = bell(&mut rng, 100, 1.0);
        account.adopt(&mut local, &outer, &[], &[], Codec::F32, &Inline).unwrap();
        assert_eq!(local, outer);
    }
}

#[test]
fn what_moves_within_the_account_does_not_touch_local() {
    let mut island = Island::new(7, 200, Codec::Int4);
    island.train();
    island.capture();
    island.train();
    island.capture();
    let (outer, local) = (island.account.outer().to_vec(), island.local.clone());
    let [first, second] = [0, 1].map(|index| island.captures[index].payload.clone());
    let adopt = |account: &mut Account, pending: &[&[u8]], reissued: &[&[u8]]| {
        let mut moved = local.clone();
        account.adopt(&mut moved, &outer, pending, reissued, Codec::Int4, &Inline).unwrap();
        assert_eq!(moved, local);
    };
    adopt(&mut island.account, &[&first, &second], &[]);
    adopt(&mut island.account, &[&second], &[&first]);
    assert_eq!(island.account.captured().len(), 1);
    adopt(&mut island.account, &[], &[&second]);
    assert!(island.account.pending().iter().all(|value| *value == 0.0));
}

#[test]
fn equal_payloads_of_two_captures_are_two() {
    let outer = [0.0; 3];
    let mut account = Account::new(&outer);
    let step = [1.0, 2.0, 4.0];
    let first = account.capture(&step, Codec::F32, &Inline).unwrap();
    let mut local = step.map(|value| value * 2.0);
    let second = account.capture(&local, Codec::F32, &Inline).unwrap();
    assert_eq!(first, second);
    // One of them is merged: outer has it, local keeps the sum of both.
    account.adopt(&mut local, &step, &[&second], &[], Codec::F32, &Inline).unwrap();
    assert_eq!((&local[..], account.pending()), (&[2.0, 4.0, 8.0][..], &step[..]));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let run = |pool: &dyn atoll_protocol::pool::Pool| {
        let mut rng = Rng::new(3);
        let mut local = bell(&mut rng, 2 * CHUNK + 17, 1.0);
        let mut account = Account::new(&local);
        let mut payloads = Vec::new();
        for _ in 0..2 {
            let steps = bell(&mut rng, local.len(), 0.1);
            local.iter_mut().zip(steps).for_each(|(local, step)| *local += step);
            payloads.push(account.capture(&local, Codec::Int8, pool).unwrap());
        }
        let outer = bell(&mut rng, local.len(), 1.0);
        account.adopt(&mut local, &outer, &[&payloads[1]], &[], Codec::Int8, pool).unwrap();
        account.adopt(&mut local, &outer, &[], &[&payloads[0]], Codec::Int8, pool).unwrap();
        (local, account, payloads)
    };
    let expected = run(&Inline);
    for threads in [1, 2, 4] {
        assert!(run(&Threads::new(threads)) == expected, "{threads} threads");
    }
}

#[test]
fn a_bad_payload_changes_nothing() {
    let mut island = Island::new(11, 64, Codec::F32);
    island.train();
    island.capture();
    let (account, local) = (island.account.clone(), island.local.clone());
    let bad: &[u8] = &island.captures[0].payload[1..];
    let outer = vec![0.5; 64];
    for (pending, reissued) in [(vec![bad], vec![]), (vec![], vec![bad])] {
        let adopted = island.account.adopt(
            &mut island.local,
            &outer,
            &pending,
            &reissued,
            Codec::F32,
            &Inline,
        );
        assert!(adopted.is_err());
        assert_eq!((&island.account, &island.local), (&account, &local));
    }
}

#[test]
fn an_account_resumes_from_its_payloads() {
    let mut island = Island::new(5, 90, Codec::Int8);
    for _ in 0..3 {
        island.train();
        island.capture();
    }
    let payloads: Vec<&[u8]> =
        island.captures.iter().map(|capture| capture.payload.as_slice()).collect();
    let outer = island.account.outer();
    let resumed = Account::resume(outer, &payloads, Codec::Int8, &Inline).unwrap();
    assert_eq!(resumed, island.account);
}
