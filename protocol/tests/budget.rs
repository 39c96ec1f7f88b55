//! The memory of a fold: any budget gives the same bits, and none is ever exceeded.

#![allow(clippy::unwrap_used, reason = "a test may stop here")]

#[path = "support/swarm.rs"]
#[allow(dead_code, reason = "shared with the other tests of the fold")]
mod swarm;

use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::{MergeRule, TensorKind};
use atoll_protocol::id::Version;
use atoll_protocol::outer::{self, Budget, Cut, Fold, FoldError, Member, OuterState, Payloads};
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;
use proptest::prelude::*;
use swarm::{Contribution, Store, contribute, contributions, cuts, fold_within, fragment, genesis};

const ROUNDS: Version = 80;
const OPERATIONS: usize = 100;

fn small() -> Fragment {
    fragment(&[(TensorKind::Matrix, 11), (TensorKind::Vector, 3), (TensorKind::Matrix, 5)])
}

/// Folds of every budget, and the true states that all of them must have.
struct Folds {
    fragment: Fragment,
    rule: MergeRule,
    store: Store,
    known: Vec<Contribution>,
    /// With each, how many copies it may have.
    folds: Vec<(usize, Fold)>,
    base: OuterState,
    head: OuterState,
}

impl Folds {
    fn new(rule: MergeRule) -> Self {
        let fragment = small();
        let copies = Budget::LEAST.copies()..=Budget::AMPLE.copies();
        let folds: Vec<_> = copies
            .map(|copies| (copies, fold_within(&fragment, rule, Budget::of_copies(copies))))
            .collect();
        let base = folds[0].1.base().clone();
        let head = base.clone();
        Self { fragment, rule, store: Store::default(), known: Vec::new(), folds, base, head }
    }

    fn cuts(&self, head: Version) -> Vec<Cut> {
        cuts(&self.known, self.base.version(), head)
    }

    /// The fold as its definition has it: merge and step, round by round, from the base.
    fn state_at(&self, version: Version) -> OuterState {
        let genesis = genesis(self.rule);
        let mut state = self.base.clone();
        for cut in self.cuts(version) {
            let found: Vec<_> = cut
                .members
                .iter()
                .map(|member| self.store.payload(&member.payload, self.fragment.id).unwrap())
                .collect();
            let members: Vec<Member<'_>> = cut
                .members
                .iter()
                .zip(&found)
                .map(|(member, (payload, norms))| Member { tokens: member.tokens, payload, norms })
                .collect();
            let (rule, codec) = (&genesis.merge, genesis.codec);
            let merged = outer::merge(&self.fragment, rule, codec, &members, &Inline).unwrap();
            outer::step(&mut state, &genesis.outer, &merged, &Inline);
        }
        state
    }

    fn refold(&mut self, head: Version) {
        self.head = self.state_at(head);
        let cuts = self.cuts(head);
        for (_, fold) in &mut self.folds {
            let digest = fold.refold(&cuts, &self.store, &Inline).unwrap();
            assert_eq!(digest, self.head.digest(&Inline));
        }
    }

    fn advance(&mut self, to: Version) {
        self.base = self.state_at(to);
        for (_, fold) in &mut self.folds {
            let digest = fold.advance_base(to, &self.store, &Inline).unwrap();
            assert_eq!(digest, self.base.digest(&Inline));
        }
    }

    /// One payload cannot be read; who needs it fails, and does the same again later.
    fn fail(&mut self, head: Version, to: Version, rng: &mut Rng) {
        let open: Vec<_> = self.cuts(head).into_iter().flat_map(|cut| cut.members).collect();
        let Some(member) = rng.pick(&open) else { return };
        let (base, id, cuts) = (self.base.clone(), member.payload, self.cuts(head));
        let payload = self.store.remove(&id);
        for (_, fold) in &mut self.folds {
            let refolded = fold.refold(&cuts, &self.store, &Inline);
            let version = fold.head().version();
            match refolded {
                Err(FoldError::Missing { round, payload }) => {
                    assert!(payload == id && version < round);
                }
                other => drop(other.unwrap()),
            }
            let advanced = fold.advance_base(to.min(version), &self.store, &Inline);
            if advanced.is_err() && to == base.version() + 1 {
                assert_eq!(*fold.base(), base, "the next version or the one it was");
            }
        }
        self.store.insert(id, payload);
        let states: Vec<OuterState> =
            (base.version()..=head).map(|version| self.state_at(version)).collect();
        for (_, fold) in &mut self.folds {
            let reached = (fold.base().version() - base.version()) as usize;
            assert_eq!(*fold.base(), states[reached]);
            let reached = (fold.head().version() - base.version()) as usize;
            assert_eq!(*fold.head(), states[reached], "shorter but true");
            let rest = (fold.base().version() - base.version()) as usize;
            fold.refold(&cuts[rest..], &self.store, &Inline).unwrap();
            fold.advance_base(to, &self.store, &Inline).unwrap();
        }
        self.base = self.state_at(to);
        self.head = states.into_iter().next_back().unwrap();
    }

    /// A snapshot from somebody who is ahead, or is not.
    fn install(&mut self, version: Version) {
        self.base = self.state_at(version);
        self.head = self.base.clone();
        for (_, fold) in &mut self.folds {
            fold.install(self.base.bytes()).unwrap();
        }
    }

    fn check(&self) {
        for (budget, fold) in &self.folds {
            assert_eq!(*fold.base(), self.base, "{budget} copies");
            assert_eq!(*fold.head(), self.head, "{budget} copies");
            assert!(fold.copies() <= *budget, "{} of {budget} copies", fold.copies());
            let most = fold.copies_most();
            assert!(most <= *budget, "{most} of {budget} copies at the peak");
            assert!(fold.copies() <= most);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Contributions come late and in any order, heads go back, bases advance, payloads are lost
    /// for a while, snapshots replace everything.
    #[test]
    fn any_budget_gives_the_same_bits(seed: u64, pace in 0usize..3, rule in 0usize..2) {
        let mut folds = Folds::new([MergeRule::Mean, MergeRule::Rda][rule]);
        let mut rng = Rng::new(seed);
        let all = contributions(&mut folds.store, &folds.fragment, seed, ROUNDS, 3);
        let mut arriving = all.clone();
        let late = rng.range(1, 6);
        for _ in 0..OPERATIONS {
            let (base, head) = (folds.base.version(), folds.head.version());
            let newest = ROUNDS.min(head + between(&mut rng, 0, 3));
            arriving.retain(|one| {
                let arrives = one.round <= newest && rng.ratio(1, late);
                if arrives && one.round > base {
                    folds.known.push(one.clone());
                }
                !arrives
            });
            match rng.below(40) {
                0..3 => folds.refold(between(&mut rng, base, head)),
                3 => folds.install(between(&mut rng, base, newest)),
                4..7 if newest > base => {
                    let to = between(&mut rng, base, newest);
                    folds.fail(newest, to, &mut rng);
                }
                _ => folds.refold(newest),
            }
            folds.check();
            let (base, head) = (folds.base.version(), folds.head.version());
            // The base follows closely, or slower than the head, or hardly at all.
            if pace == 0 && head > base + 2 {
                folds.advance(head - 2);
            } else if head > base && rng.ratio([0, 8, 1][pace], 24) {
                folds.advance(base + 1);
            } else if rng.ratio(1, 40) {
                folds.advance(between(&mut rng, base, head));
            }
            folds.check();
        }
        prop_assert!(folds.head.version() > 10);
    }
}

fn between(rng: &mut Rng, low: Version, high: Version) -> Version {
    Version::try_from(rng.range(low.into(), high.into())).unwrap()
}

/// A swarm of one author a round, so that payloads read are rounds merged.
fn one_by_one(copies: usize) -> (Fragment, Store, Vec<Contribution>, Fold) {
    let fragment = small();
    let mut store = Store::default();
    let values = |round: Version| vec![0.5 / round as f32; fragment.elements];
    let known = (1..=ROUNDS)
        .map(|round| contribute(&mut store, &fragment, round, 1, 10, &values(round)))
        .collect();
    let fold = fold_within(&fragment, MergeRule::Mean, Budget::of_copies(copies));
    (fragment, store, known, fold)
}

/// How many rounds are merged in a run of [`ROUNDS`] rounds whose base is `behind` the head.
fn merged(copies: usize, behind: Version) -> usize {
    let (_, store, known, mut fold) = one_by_one(copies);
    for head in 1..=ROUNDS {
        let base = fold.base().version();
        fold.refold(&cuts(&known, base, head), &store, &Inline).unwrap();
        if head > base + behind {
            fold.advance_base(base + 1, &store, &Inline).unwrap();
        }
    }
    store.lookups.get()
}

#[test]
fn calm_rounds_are_merged_once() {
    let once = ROUNDS as usize;
    for copies in 4..=32 {
        assert_eq!(merged(copies, 3), once, "{copies} copies");
    }
    assert!(merged(3, 3) < once + once / 2);
    assert!(merged(2, 3) < 2 * once);
    assert!(merged(1, 3) < 2 * once);
}

/// How many rounds a contribution `late` rounds late to a fold whose base is far behind merges,
/// the worst over a few heads.
fn merged_late(copies: usize, late: Version) -> usize {
    let (fragment, mut store, known, mut fold) = one_by_one(copies);
    let mut known = known;
    let mut worst = 0;
    for head in 1..=ROUNDS {
        fold.refold(&cuts(&known, 0, head), &store, &Inline).unwrap();
        if head > 40 {
            let values = vec![0.01; fragment.elements];
            known.push(contribute(&mut store, &fragment, head - late, 2, 10, &values));
            store.lookups.set(0);
            fold.refold(&cuts(&known, 0, head), &store, &Inline).unwrap();
            worst = worst.max(store.lookups.get());
        }
    }
    worst
}

#[test]
fn a_smaller_budget_costs_more_merges_little_by_little() {
    // The round that changed has two payloads, and so have those that changed before.
    for late in 1..=8 {
        assert_eq!(merged_late(32, late), 2, "{late} rounds late");
    }
    for late in 1..=3 {
        for copies in 11..=32 {
            assert_eq!(merged_late(copies, late), 2, "{late} rounds late, {copies} copies");
        }
        for copies in 5..=10 {
            let merged = merged_late(copies, late);
            assert!(merged <= 12, "{late} rounds late, {copies} copies: {merged}");
        }
    }
    assert!(merged_late(18, 8) <= 16);
}
