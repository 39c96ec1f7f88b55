//! One simulated node: an engine or a liar, with what its driver keeps.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use atoll_protocol::crypto::Key;
use atoll_protocol::engine::{Engine, Input, Output, beside_a_write};
use atoll_protocol::id::{ContentId, FragmentId, NodeId};
use atoll_protocol::outer::{Fold, OuterState};
use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::byzantine::Actor;
use super::clock::Clock;
use super::disk::Disk;
use super::island::Island;
use super::ownership::Ownership;
use super::packet::{Packet, Seen};
use super::shadow::Payloads;
use super::{IslandPlan, Role};
use crate::check::NodeIndex;

/// A node, running or not.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) plan: IslandPlan,
    pub(super) key: Key,
    pub(super) id: NodeId,
    pub(super) disk: Disk,
    pub(super) rng: Rng,
    /// Counts starts, so that whatever was planned for an earlier life is void.
    pub(super) life: u64,
    /// Whether it said goodbye, and does not come back when everything heals.
    pub(super) left: bool,
    /// Whether it crashes in its next write, and whether that write is torn.
    pub(super) doomed: Option<bool>,
    /// What was known of its own contributions when it stopped, by fragment.
    pub(super) ownerships: Vec<Ownership>,
    /// Speed of its clock in thousandths.
    pub(super) clock_permille: u32,
    pub(super) running: Option<Running>,
}

/// What a node loses when it stops.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) mind: Mind,
    pub(super) clock: Clock,
    /// When the engine's timer is planned for.
    pub(super) timer: Option<Time>,
    /// Inputs that came up while outputs were executed.
    pub(super) inbox: VecDeque<Input>,
    pub(super) tasks: VecDeque<Task>,
    /// Whether a write is under way, for which outputs wait unless they promise nothing.
    pub(super) barrier: bool,
    pub(super) parts: Vec<Part>,
    pub(super) island: Option<Island>,
    /// Whether the island has begun to step in this life.
    pub(super) stepping: bool,
    /// Peers it believes to be connected to, and in which of their lives.
    pub(super) connected: BTreeMap<NodeIndex, u64>,
    /// Points against each peer.
    pub(super) penalties: BTreeMap<NodeId, u32>,
    pub(super) seen: Seen,
    /// Messages that wait for their verdict.
    pub(super) receipts: BTreeMap<u64, (Rc<Packet>, NodeIndex, bool)>,
    pub(super) receipt: u64,
    /// Fetches under way: whom they were asked of, and the most bytes they may bring.
    pub(super) fetches: BTreeMap<u64, (NodeId, u64)>,
    pub(super) fetch: u64,
}

impl Running {
    /// Takes the next output that nothing holds back.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        if !self.barrier {
            return self.tasks.pop_front();
        }
        let place = beside_a_write(self.tasks.iter().map(|task| &task.output))?;
        self.tasks.remove(place)
    }

    /// Tokens that the swarm has trained, averaged over the fragments: those merged and, about, those
    /// under way.
    pub(super) fn tokens_trained(&self) -> u64 {
        let Mind::Engine(engine) = &self.mind else { return 0 };
        let merged = engine.tokens_merged(self.parts.iter().map(|part| part.cut_tokens));
        merged + engine.tokens_under_way()
    }
}

/// What decides.
#[derive(Debug)]
pub(super) enum Mind {
    /// The engine under test.
    Engine(Box<Engine>),
    /// Somebody else.
    Liar(Box<dyn Actor>),
}

/// An output that waits for its turn.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) output: Output,
    /// For `Output::Adopt`: what the engine knew when it said so.
    pub(super) known: Option<Known>,
}

/// What an engine knew of a fragment when it asked for an adoption.
#[derive(Debug)]
pub(super) struct Known {
    /// The head.
    pub(super) head: Rc<[f32]>,
    /// What of ours is in it.
    pub(super) contained: Rc<Payloads>,
    /// Captures of this life it had heard of.
    pub(super) captures: usize,
}

/// One fragment's data plane.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) fold: Fold,
    pub(super) head: Rc<[f32]>,
    pub(super) ownership: Ownership,
    /// Tokens of the rounds between base and head.
    pub(super) cut_tokens: u64,
    /// Captures of this life that the engine has heard of.
    pub(super) captures: usize,
    pub(super) jobs: VecDeque<Job>,
}

/// Work on a fold. One fragment's jobs are done one after another.
#[derive(Debug)]
pub(super) enum Job {
    /// `Output::Materialise`.
    Materialise(Vec<atoll_protocol::outer::Cut>),
    /// `Output::Stabilise`.
    Stabilise(atoll_protocol::id::Version),
    /// `Output::Install`.
    Install(ContentId),
}

impl Node {
    /// A node that has never run.
    pub(super) fn new(plan: IslandPlan, key: Key, rng: Rng) -> Self {
        let id = key.node();
        Self {
            plan,
            key,
            id,
            disk: Disk::default(),
            rng,
            life: 0,
            left: false,
            doomed: None,
            ownerships: Vec::new(),
            clock_permille: 1000,
            running: None,
        }
    }

    /// Its engine, if it runs and has one.
    pub(super) fn engine(&self) -> Option<&Engine> {
        match &self.running.as_ref()?.mind {
            Mind::Engine(engine) => Some(engine),
            Mind::Liar(_) => None,
        }
    }

    /// Whether it follows the protocol.
    pub(super) fn is_honest(&self) -> bool {
        self.plan.role == Role::Honest
    }

    /// Its head of a fragment.
    pub(super) fn head(&self, fragment: FragmentId) -> Option<&OuterState> {
        Some(self.running.as_ref()?.parts.get(fragment.index())?.fold.head())
    }
}

impl Running {
    /// The engine, if it is one.
    pub(super) fn engine_mut(&mut self) -> Option<&mut Engine> {
        match &mut self.mind {
            Mind::Engine(engine) => Some(engine),
            Mind::Liar(_) => None,
        }
    }

    /// Whether so much was held against a peer that it is no longer listened to.
    pub(super) fn bans(&self, peer: &NodeId) -> bool {
        self.penalties.get(peer).is_some_and(|points| *points >= BAN_POINTS)
    }
}

/// Points at which a peer is disconnected.
const BAN_POINTS: u32 = 100;
