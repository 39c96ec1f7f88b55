//! Any sequence of calls leaves what a plain model of the disk leaves, restarts included.

use std::collections::{BTreeMap, BTreeSet};

use atoll_node::store::{Store, StoreError};
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, FragmentId, Version};
use atoll_protocol::outer::Norms;
use proptest::prelude::*;

use crate::support::{closed, contribution, genesis, key, norms, own, scratch};

#[derive(Clone, Debug)]
enum Call {
    Put(u8),
    Measure(u8),
    Persist(Vec<Fact>),
    Prune { fragment: u16, through: Version, own_through: Version, payloads: Vec<u8> },
    Base { fragment: u16, n: u8 },
    Sweep(Vec<u8>),
    Reopen,
}

#[derive(Clone, Debug)]
enum Fact {
    Contribution { author: u8, fragment: u16, round: Version, payload: u8 },
    Closed { fragment: u16, round: Version },
}

impl Fact {
    fn record(&self) -> Record {
        match *self {
            Self::Contribution { author, fragment, round, payload } => {
                contribution(&key(author), fragment, round, &bytes(payload))
            }
            Self::Closed { fragment, round } => closed(fragment, round),
        }
    }
}

/// The content `n`: few of them, so that calls meet.
fn bytes(n: u8) -> Vec<u8> {
    vec![n; usize::from(n) * 7]
}

fn id(n: u8) -> ContentId {
    content_id(&bytes(n))
}

#[derive(Default)]
struct Disk {
    records: Vec<Record>,
    contents: BTreeSet<u8>,
    /// What the checks measured, and what of it would survive a restart.
    norms: BTreeMap<u8, Norms>,
    durable: BTreeMap<u8, Norms>,
    bases: BTreeMap<u16, Vec<u8>>,
    floors: BTreeMap<u16, Version>,
}

impl Disk {
    fn persist(&mut self, facts: &[Fact]) -> bool {
        let named = facts.iter().filter_map(|fact| match fact {
            Fact::Contribution { payload, .. } => Some(payload),
            Fact::Closed { .. } => None,
        });
        if !named.into_iter().all(|payload| self.contents.contains(payload)) {
            return false;
        }
        for fact in facts {
            if let Fact::Contribution { author: 1, fragment, round, .. } = fact {
                let floor = self.floors.entry(*fragment).or_default();
                *floor = (*floor).max(*round);
            }
            self.records.push(fact.record());
        }
        if !facts.is_empty() {
            self.durable.clone_from(&self.norms);
        }
        true
    }

    fn prune(&mut self, fragment: u16, through: Version, own_through: Version, payloads: &[u8]) {
        self.records.retain(|record| {
            let Some(round) = record.contribution_round() else { return true };
            let ours =
                matches!(record, Record::Contribution(signed) if signed.body.author == own());
            round.fragment.0 != fragment || round.number > if ours { own_through } else { through }
        });
        for payload in payloads {
            self.contents.remove(payload);
            self.norms.remove(payload);
            self.durable.remove(payload);
        }
    }

    fn put_base(&mut self, fragment: u16, n: u8) {
        let bases = self.bases.entry(fragment).or_default();
        bases.retain(|known| *known != n);
        bases.push(n);
        if bases.len() > 2 {
            bases.remove(0);
        }
    }

    fn named(&self) -> BTreeSet<ContentId> {
        let named = self.records.iter().filter_map(|record| match record {
            Record::Contribution(signed) => Some(signed.body.payload),
            _ => None,
        });
        named.collect()
    }

    fn compare(&self, store: &Store) {
        assert_eq!(store.records().unwrap(), self.records);
        let here: BTreeSet<ContentId> = self.contents.iter().map(|n| id(*n)).collect();
        assert_eq!(store.missing().unwrap(), self.named().difference(&here).copied().collect());
        let mut used = 0;
        for n in 0..CONTENTS {
            let found = store.content(&id(n)).unwrap();
            assert_eq!(found, self.contents.contains(&n).then(|| bytes(n)), "content {n}");
            used += found.map_or(0, |found| found.len() as u64);
            assert_eq!(
                store.norms(&id(n), FragmentId(0)).as_ref(),
                self.norms.get(&n),
                "norms {n}"
            );
        }
        assert_eq!(store.usage().contents, used);
        for n in 0..CONTENTS {
            let there = self.bases.values().any(|bases| bases.contains(&n));
            assert_eq!(store.base(&id(n)).unwrap(), there.then(|| bytes(n)), "base {n}");
        }
        for fragment in 0..2 {
            let floor = self.floors.get(&fragment).copied().unwrap_or(0);
            assert_eq!(store.signed_floor(FragmentId(fragment)), floor);
        }
        assert!(store.incidents().is_empty());
    }
}

const CONTENTS: u8 = 8;

fn content() -> impl Strategy<Value = u8> {
    0..CONTENTS
}

fn fact() -> impl Strategy<Value = Fact> {
    let contribution =
        (1u8..4, 0u16..2, 1u32..12, content()).prop_map(|(author, fragment, round, payload)| {
            Fact::Contribution { author, fragment, round, payload }
        });
    let closed = (0u16..2, 1u32..12).prop_map(|(fragment, round)| Fact::Closed { fragment, round });
    prop_oneof![3 => contribution, 1 => closed]
}

fn call() -> impl Strategy<Value = Call> {
    let few = || prop::collection::vec(content(), 0..3);
    prop_oneof![
        6 => content().prop_map(Call::Put),
        2 => content().prop_map(Call::Measure),
        6 => prop::collection::vec(fact(), 0..4).prop_map(Call::Persist),
        2 => (0u16..2, 0u32..12, 0u32..12, few()).prop_map(
            |(fragment, through, own_through, payloads)| Call::Prune {
                fragment, through, own_through, payloads,
            }),
        1 => (0u16..2, content()).prop_map(|(fragment, n)| Call::Base { fragment, n }),
        1 => few().prop_map(Call::Sweep),
        2 => Just(Call::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_calls_leave_what_the_model_has(calls in prop::collection::vec(call(), 1..40)) {
        let folder = scratch();
        let mut store = Store::create(folder.path(), &genesis()).unwrap();
        let mut disk = Disk::default();
        for call in calls {
            match call {
                Call::Put(n) => {
                    prop_assert_eq!(store.put(&bytes(n)).unwrap(), id(n));
                    disk.contents.insert(n);
                }
                Call::Measure(n) => {
                    store.measure(&id(n), FragmentId(0), &norms(n));
                    disk.norms.insert(n, norms(n));
                }
                Call::Persist(facts) => {
                    let records: Vec<Record> = facts.iter().map(Fact::record).collect();
                    match store.persist(own(), &records) {
                        Ok(()) => prop_assert!(disk.persist(&facts)),
                        Err(StoreError::NoPayload { .. }) => prop_assert!(!disk.persist(&facts)),
                        Err(error) => panic!("{error}"),
                    }
                }
                Call::Prune { fragment, through, own_through, payloads } => {
                    let gone: Vec<ContentId> = payloads.iter().map(|n| id(*n)).collect();
                    let part = FragmentId(fragment);
                    store.prune(own(), part, through, own_through, &gone).unwrap();
                    disk.prune(fragment, through, own_through, &payloads);
                }
                Call::Base { fragment, n } => {
                    store.put_base(id(n), &bytes(n), FragmentId(fragment)).unwrap();
                    disk.put_base(fragment, n);
                }
                Call::Sweep(keep) => {
                    store.sweep(&keep.iter().map(|n| id(*n)).collect()).unwrap();
                    let named = disk.named();
                    let kept = |n: &u8| named.contains(&id(*n)) || keep.contains(n);
                    disk.contents.retain(kept);
                    disk.norms.retain(|n, _| kept(n));
                    disk.durable.retain(|n, _| kept(n));
                }
                Call::Reopen => {
                    drop(store);
                    store = Store::open(folder.path()).unwrap();
                    disk.norms.clone_from(&disk.durable);
                }
            }
            disk.compare(&store);
        }
        drop(store);
        disk.norms.clone_from(&disk.durable);
        disk.compare(&Store::open(folder.path()).unwrap());
    }
}
