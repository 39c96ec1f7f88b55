//! The ledger is a join-semilattice: order, repetition and grouping do not matter.

use std::sync::LazyLock;

use atoll_protocol::contribution::{Admitted, Header};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, RunId};
use atoll_protocol::ledger::{Inserted, Ledger, cut_digest};
use atoll_protocol::testkit;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn union_is_commutative(one in set(), other in set()) {
        let (one, other) = (ledger(&one), ledger(&other));
        prop_assert_eq!(union(&one, &other), union(&other, &one));
    }

    #[test]
    fn union_is_associative(one in set(), two in set(), three in set()) {
        let (one, two, three) = (ledger(&one), ledger(&two), ledger(&three));
        let left = union(&union(&one, &two), &three);
        let right = union(&one, &union(&two, &three));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn union_is_idempotent(one in set(), other in set()) {
        let (one, other) = (ledger(&one), ledger(&other));
        prop_assert_eq!(&union(&one, &one), &one);
        let both = union(&one, &other);
        prop_assert_eq!(&union(&both, &other), &both);
        prop_assert_eq!(&union(&both, &Ledger::default()), &both);
    }

    #[test]
    fn insertion_order_and_repetition_do_not_matter((order, other) in shuffled()) {
        let mut repeated = other.clone();
        repeated.extend(&order);
        prop_assert_eq!(ledger(&order), ledger(&other));
        prop_assert_eq!(ledger(&repeated), ledger(&order));
    }

    /// Also where one node saw both headers of an equivocator and the other saw one of each.
    #[test]
    fn union_is_insertion_of_everything(one in set(), other in set()) {
        let mut all = one.clone();
        all.extend(&other);
        prop_assert_eq!(union(&ledger(&one), &ledger(&other)), ledger(&all));
    }

    #[test]
    fn the_cut_is_a_function_of_the_set((order, other) in shuffled(), excluded in 0..AUTHORS) {
        let (one, two) = (ledger(&order), ledger(&other));
        let excluded = testkit::key(excluded + 1).node();
        for round in rounds() {
            let cut = cut_of(&one, round, excluded);
            prop_assert_eq!(cut_digest(&cut), cut_digest(&cut_of(&two, round, excluded)));
            // It is also what the set says it is: everyone who signed once, by author.
            let mut expected: Vec<&Admitted> = order.iter().map(|index| &POOL[*index]).collect();
            expected.retain(|it| {
                let author = it.header().author;
                it.header().round_id() == round && author != excluded && !one.equivocated(&author)
            });
            expected.sort_by_key(|admitted| admitted.header().author);
            expected.dedup();
            let expected: Vec<ContributionId> = expected.into_iter().map(Admitted::id).collect();
            prop_assert_eq!(cut, expected);
        }
    }

    #[test]
    fn whoever_signed_twice_is_found_and_left_out((order, other) in shuffled()) {
        let (one, two) = (ledger(&order), ledger(&other));
        for author in (0..AUTHORS).map(|n| testkit::key(n + 1).node()) {
            let twice = order.iter().any(|one| order.iter().any(|other| {
                let (one, other) = (POOL[*one].header(), POOL[*other].header());
                one.author == author && contradict(one, other)
            }));
            prop_assert_eq!(one.equivocated(&author), twice);
            for round in rounds() {
                let named = one.cut(round, |_| false).iter().any(|it| it.header().author == author);
                prop_assert!(!(twice && named));
            }
        }
        let evidence: Vec<_> = one.evidence().collect();
        prop_assert!(evidence.iter().all(|evidence| evidence.holds(RUN)));
        prop_assert_eq!(evidence, two.evidence().collect::<Vec<_>>());
    }

    #[test]
    fn evidence_alone_leads_to_the_same_cuts(one in set(), other in set()) {
        // The accused headers never arrive, only the proof does.
        let mut told = ledger(&one);
        for evidence in ledger(&other).evidence() {
            told.accuse(evidence.clone());
        }
        let joined = union(&told, &ledger(&other));
        prop_assert_eq!(joined, union(&ledger(&one), &ledger(&other)));
    }

    #[test]
    fn prune_keeps_the_rest(order in set(), fragment in 0..FRAGMENTS, through in 0..ROUNDS + 2) {
        let before = ledger(&order);
        let mut after = before.clone();
        let fragment = FragmentId(fragment);
        let pruned = after.prune(fragment, through);
        prop_assert_eq!(pruned.len() + after.len(), before.len());
        for header in pruned.iter().map(Admitted::header) {
            prop_assert!(header.fragment == fragment && header.round <= through);
        }
        for round in rounds() {
            let gone = round.fragment == fragment && round.number <= through;
            let expected: Vec<_> = before.round(round).filter(|_| !gone).collect();
            prop_assert_eq!(after.round(round).collect::<Vec<_>>(), expected);
        }
        // What an equivocator signed may go; that it did stays.
        prop_assert!(after.evidence().eq(before.evidence()));
        let newest = after.newest(fragment);
        prop_assert!(newest.is_none_or(|newest| newest > through));
    }
}

#[test]
fn an_insertion_says_what_it_did() {
    let mut ledger = Ledger::default();
    let (one, other) = (&POOL[0], &POOL[1]);
    assert!(contradict(one.header(), other.header()));
    assert_eq!(ledger.insert(one.clone()), Inserted::New);
    assert_eq!(ledger.insert(one.clone()), Inserted::Known);
    assert!(matches!(ledger.insert(other.clone()), Inserted::Equivocation(_)));
    assert!(ledger.equivocated(&one.header().author));
}

/// Every contribution the tests use: signing is slow, so each is signed once.
static POOL: LazyLock<Vec<Admitted>> = LazyLock::new(|| {
    let mut pool = Vec::new();
    for author in 1..=AUTHORS {
        let key = testkit::key(author);
        for round in rounds() {
            for variant in 0..VARIANTS {
                let header = Header {
                    author: key.node(),
                    fragment: round.fragment,
                    round: round.number,
                    base: round.number - 1,
                    // Descending, so that the smaller header is not always the first.
                    tokens: VARIANTS - variant,
                    steps: 8,
                    payload: ContentId([author; 32]),
                    payload_bytes: 64,
                };
                pool.push(testkit::admitted(&key, RUN, header));
            }
        }
    }
    pool
});

fn rounds() -> impl Iterator<Item = RoundId> {
    (0..FRAGMENTS).flat_map(|fragment| {
        (1..=ROUNDS).map(move |number| RoundId { fragment: FragmentId(fragment), number })
    })
}

/// Indices into the pool. Most sets hold one header of an author, some hold several.
fn set() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..POOL.len(), 0..14)
}

/// A set twice, in two orders.
fn shuffled() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    set().prop_flat_map(|set| (Just(set.clone()), Just(set).prop_shuffle()))
}

fn ledger(indices: &[usize]) -> Ledger {
    let mut ledger = Ledger::default();
    for index in indices {
        ledger.insert(POOL[*index].clone());
    }
    ledger
}

fn union(one: &Ledger, other: &Ledger) -> Ledger {
    let mut union = one.clone();
    union.union(other);
    union
}

fn cut_of(ledger: &Ledger, round: RoundId, excluded: NodeId) -> Vec<ContributionId> {
    ledger.cut(round, |author| *author == excluded).into_iter().map(Admitted::id).collect()
}

fn contradict(one: &Header, other: &Header) -> bool {
    one.author == other.author && one.round_id() == other.round_id() && one != other
}

const RUN: RunId = RunId([7; 32]);
const AUTHORS: u8 = 4;
const FRAGMENTS: u16 = 2;
const ROUNDS: u32 = 2;
/// Headers that an author may sign for one slot.
const VARIANTS: u64 = 3;
