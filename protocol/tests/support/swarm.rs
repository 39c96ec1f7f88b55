//! A made-up swarm: contributions to one fragment and their payloads.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use atoll_protocol::codec::{self, Codec};
use atoll_protocol::crypto;
use atoll_protocol::fragment::{Fragment, Piece};
use atoll_protocol::genesis::{Genesis, Merge, MergeRule, Outer, TensorKind};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, Version};
use atoll_protocol::outer::{self, Budget, Cut, CutMember, Fold, Norms, OuterState, Payloads};
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;

/// Payloads in memory, counting how often one is asked for.
#[derive(Default)]
pub(crate) struct Store {
    payloads: BTreeMap<ContentId, (Vec<u8>, Norms)>,
    pub(crate) lookups: Cell<usize>,
}

impl Store {
    pub(crate) fn remove(&mut self, id: &ContentId) -> (Vec<u8>, Norms) {
        self.payloads.remove(id).unwrap()
    }

    pub(crate) fn insert(&mut self, id: ContentId, payload: (Vec<u8>, Norms)) {
        self.payloads.insert(id, payload);
    }
}

impl Payloads for Store {
    fn payload(
        &self,
        id: &ContentId,
        _fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)> {
        self.lookups.set(self.lookups.get() + 1);
        let (bytes, norms) = self.payloads.get(id)?;
        Some((Cow::Borrowed(bytes), Cow::Borrowed(norms)))
    }
}

/// One admitted contribution.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    pub(crate) round: Version,
    pub(crate) member: CutMember,
}

/// A genesis of which the fold reads the outer optimiser, the merge and the codec.
pub(crate) fn genesis(rule: MergeRule) -> Genesis {
    Genesis {
        outer: Outer { learning_rate: 0.7, momentum: 0.6 },
        merge: Merge { rule, weight_cap: 3, clip: 2.0, norm_max: 1e6 },
        codec: Codec::F32,
        ..Genesis::custom("test", Vec::new())
    }
}

/// A fragment with pieces of these kinds and lengths.
pub(crate) fn fragment(pieces: &[(TensorKind, usize)]) -> Fragment {
    let mut elements = 0;
    let pieces = pieces
        .iter()
        .enumerate()
        .map(|(tensor, &(kind, len))| {
            elements += len;
            Piece { tensor, kind, start: elements - len, len }
        })
        .collect();
    Fragment { id: FragmentId(1), pieces, elements }
}

/// Bell-shaped numbers without libm: the sum of a few uniform ones.
pub(crate) fn bell(rng: &mut Rng, len: usize, deviation: f32) -> Vec<f32> {
    let mut draw = || {
        let bits = rng.next_u64();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f32 - 131_070.0) / 37_837.0 * deviation
    };
    (0..len).map(|_| draw()).collect()
}

/// The initial state of a fragment.
pub(crate) fn initial(fragment: &Fragment) -> OuterState {
    OuterState::new(fragment.id, &bell(&mut Rng::new(99), fragment.elements, 0.02))
}

pub(crate) fn fold(fragment: &Fragment, rule: MergeRule) -> Fold {
    fold_within(fragment, rule, Budget::AMPLE)
}

pub(crate) fn fold_within(fragment: &Fragment, rule: MergeRule, budget: Budget) -> Fold {
    Fold::new(fragment.clone(), &genesis(rule), initial(fragment), budget)
}

/// Stores `values` as an admitted contribution of `author` to `round`.
pub(crate) fn contribute(
    store: &mut Store,
    fragment: &Fragment,
    round: Version,
    author: u8,
    tokens: u64,
    values: &[f32],
) -> Contribution {
    let payload = codec::encode(Codec::F32, values, &Inline).unwrap();
    let norms = outer::check(&payload, Codec::F32, fragment, 1e6, &Inline).unwrap();
    contribute_with(store, round, author, tokens, (payload, norms))
}

/// Stores a measured payload as an admitted contribution.
pub(crate) fn contribute_with(
    store: &mut Store,
    round: Version,
    author: u8,
    tokens: u64,
    payload: (Vec<u8>, Norms),
) -> Contribution {
    let id = crypto::content_id(&payload.0);
    store.insert(id, payload);
    let mut name = [author; 32];
    name[..4].copy_from_slice(&round.to_le_bytes());
    let author = NodeId([author; 32]);
    Contribution {
        round,
        member: CutMember { id: ContributionId(name), author, tokens, payload: id },
    }
}

/// Contributions of some of `authors` to each of `rounds`, with a common direction.
pub(crate) fn contributions(
    store: &mut Store,
    fragment: &Fragment,
    seed: u64,
    rounds: Version,
    authors: u8,
) -> Vec<Contribution> {
    let mut rng = Rng::new(seed);
    let common = bell(&mut rng, fragment.elements, 0.01);
    let mut made = Vec::new();
    for round in 1..=rounds {
        for author in 0..authors {
            if rng.ratio(4, 5) {
                let mut values = bell(&mut rng, fragment.elements, 0.01);
                values.iter_mut().zip(&common).for_each(|(value, common)| *value += common);
                let tokens = rng.range(1, 5000);
                made.push(contribute(store, fragment, round, author, tokens, &values));
            }
        }
    }
    made
}

/// The cuts of every round after `base` up to `head`, whatever order the contributions are in.
pub(crate) fn cuts(known: &[Contribution], base: Version, head: Version) -> Vec<Cut> {
    let cut = |round| {
        let of_round = known.iter().filter(|contribution| contribution.round == round);
        let members: BTreeMap<NodeId, CutMember> =
            of_round.map(|known| (known.member.author, known.member.clone())).collect();
        Cut { round, members: members.into_values().collect() }
    };
    (base + 1..=head).map(cut).collect()
}
