//! A world made of plain values, for tests of checkers.

use std::collections::BTreeMap;

use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, Signed};
use atoll_protocol::engine::{Fates, FragmentStatus, Output, Record};
use atoll_protocol::frontier::{Frontier, FrontierEntry, Standing};
use atoll_protocol::genesis::{Genesis, Init, RosterPolicy, TensorKind, TensorSpec};
use atoll_protocol::id::{ContentId, FragmentId, NodeId, RunId, Short, Trail, Version};
use atoll_protocol::message::Message;
use atoll_protocol::time::Time;

use super::lineage::root_trail;
use super::{NodeIndex, World};

/// A world whose answers a test sets.
#[derive(Debug)]
pub(super) struct FakeWorld {
    pub(super) now: Time,
    pub(super) up: Vec<bool>,
    pub(super) honest: Vec<bool>,
    pub(super) keys: Vec<Key>,
    pub(super) standings: Vec<Standing>,
    pub(super) genesis: Genesis,
    pub(super) statuses: BTreeMap<(NodeIndex, FragmentId), FragmentStatus>,
    pub(super) sizes: Vec<(&'static str, usize, usize)>,
    pub(super) error: Option<f64>,
    pub(super) good: Option<bool>,
    pub(super) loss: Option<f64>,
    pub(super) central: Option<f64>,
}

/// The run of every fake world.
pub(super) const RUN: RunId = RunId([9; 32]);

impl FakeWorld {
    pub(super) fn new(nodes: u8) -> Self {
        let count = usize::from(nodes);
        Self {
            now: Time(0),
            up: vec![true; count],
            honest: vec![true; count],
            keys: (1..=nodes).map(|n| Key::from_secret([n; 32])).collect(),
            standings: vec![Standing::CaughtUp; count],
            genesis: genesis(),
            statuses: BTreeMap::new(),
            sizes: Vec::new(),
            error: None,
            good: None,
            loss: None,
            central: None,
        }
    }

    pub(super) fn set(&mut self, node: NodeIndex, fragment: FragmentId, status: FragmentStatus) {
        self.statuses.insert((node, fragment), status);
    }

    /// A contribution of `node` to round `round` of fragment 0, signed for `run`.
    pub(super) fn signed(
        &self,
        node: NodeIndex,
        round: Version,
        tokens: u64,
        run: RunId,
    ) -> Signed<Header> {
        let key = &self.keys[node];
        let header = Header {
            author: key.node(),
            fragment: FragmentId(0),
            round,
            base: round - 1,
            tokens,
            steps: 8,
            payload: ContentId([u8::try_from(node).unwrap() + 1; 32]),
            payload_bytes: 100,
        };
        key.sign(run, header)
    }

    /// That contribution, being persisted.
    pub(super) fn persist(&self, node: NodeIndex, round: Version, tokens: u64) -> Output {
        Output::Persist(Record::Contribution(self.signed(node, round, tokens, RUN)))
    }

    /// A frontier of `node` that is at `version` of fragment 0.
    pub(super) fn frontier(&self, node: NodeIndex, sequence: u64, version: Version) -> Vec<u8> {
        self.frontier_of(node, sequence, version, 100)
    }

    /// The same of a node whose steps take so long.
    pub(super) fn frontier_of(
        &self,
        node: NodeIndex,
        sequence: u64,
        version: Version,
        step_ms: u32,
    ) -> Vec<u8> {
        let key = &self.keys[node];
        let short = Short([0; 8]);
        let entry = FrontierEntry {
            base: 0,
            version,
            base_trail: short,
            mark_trail: short,
            trail: short,
            digest: short,
        };
        let frontier = Frontier {
            node: key.node(),
            incarnation: 1,
            sequence,
            standing: Standing::CaughtUp,
            trains: true,
            step_ms,
            roster: short,
            first: FragmentId(0),
            entries: vec![entry],
        };
        Message::Frontier(key.sign(RUN, frontier)).encode()
    }
}

impl World for FakeWorld {
    fn now(&self) -> Time {
        self.now
    }

    fn nodes(&self) -> usize {
        self.keys.len()
    }

    fn node_id(&self, node: NodeIndex) -> NodeId {
        self.keys[node].node()
    }

    fn is_up(&self, node: NodeIndex) -> bool {
        self.up[node]
    }

    fn is_honest(&self, node: NodeIndex) -> bool {
        self.honest[node]
    }

    fn status(&self, node: NodeIndex, fragment: FragmentId) -> Option<FragmentStatus> {
        self.statuses.get(&(node, fragment)).copied()
    }

    fn standing(&self, node: NodeIndex) -> Option<Standing> {
        self.up[node].then(|| self.standings[node])
    }

    fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    fn sizes(&self, _node: NodeIndex) -> Vec<(&'static str, usize, usize)> {
        self.sizes.clone()
    }

    fn conservation(&self, _node: NodeIndex, _fragment: FragmentId) -> Option<f64> {
        self.error
    }

    fn is_good(&self, _: NodeIndex, _: ContentId, _: FragmentId) -> Option<bool> {
        self.good
    }

    fn loss(&self, _node: NodeIndex) -> Option<f64> {
        self.loss
    }

    fn first_loss(&self) -> Option<f64> {
        Some(4.0)
    }

    fn central_loss(&self) -> Option<f64> {
        self.central
    }
}

/// A status with nothing stable and a head of this version, trail and digest.
pub(super) fn status(fragment: FragmentId, head: Version, trail: u8, digest: u8) -> FragmentStatus {
    FragmentStatus {
        base: 0,
        base_trail: root_trail(fragment),
        base_weight: 0,
        base_digest: ContentId([0; 32]),
        version: head,
        head,
        head_trail: Trail([trail; 32]),
        digest: ContentId([digest; 32]),
        fates: Fates::default(),
        steps: 0,
        last_capture: None,
    }
}

fn genesis() -> Genesis {
    let tensor = TensorSpec::new("w", &[4], TensorKind::Vector, Init::Zeros);
    let mut genesis = Genesis::custom("fake", vec![tensor]);
    genesis.fragments = 1;
    genesis.rounds.steps = 8;
    genesis.rounds.steps_min = 2;
    genesis.rounds.quorum_min = 2;
    genesis.rounds.quorum_percent = 50;
    genesis.rounds.grace_ms_min = 100;
    genesis.rounds.grace_ms_max = 2000;
    genesis.rounds.alive_ms = 8000;
    genesis.rounds.forget_ms = 60_000;
    genesis.merge.weight_cap = 4;
    genesis.roster = RosterPolicy::Open;
    genesis
}
