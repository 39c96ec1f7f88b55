//! What each node has been told by frontiers, as a checker reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use atoll_protocol::engine::{Input, Output, Record};
use atoll_protocol::frontier::{Frontier, STEP_MS_RESTS, Standing};
use atoll_protocol::genesis::RosterPolicy;
use atoll_protocol::id::{FragmentId, NodeId, RoundId, RunId, Version};
use atoll_protocol::message::Message;
use atoll_protocol::time::{Span, Time};

use super::{Event, NodeIndex, World};

/// The newest frontier that each node has of each other.
#[derive(Debug)]
pub(super) struct Heard {
    run: RunId,
    /// Frontiers by their bytes, so that each is decoded and verified once and not on every node.
    known: BTreeMap<Vec<u8>, Option<Rc<Frontier>>>,
    /// By every frontier that arrived.
    all: Peers,
    /// By those of nodes that were on the roster, as far as this node knew then: it takes no note
    /// of others, and their next frontier may be long in coming.
    members: Peers,
    /// Whom each node knows to be invited.
    invited: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// Who follows the protocol: known from the first event on.
    honest: BTreeSet<NodeId>,
}

type Peers = BTreeMap<NodeIndex, BTreeMap<NodeId, Peer>>;

/// What a node knows of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// When it was last heard.
    pub(super) at: Time,
    /// Since when it takes part with an island, as far as this node was told.
    pub(super) since: Time,
    /// Whether it said goodbye after that.
    pub(super) gone: bool,
    order: (u64, u64),
    /// Whether it takes part with an island.
    pub(super) takes_part: bool,
    /// Whether its island makes steps.
    pub(super) steps: bool,
    versions: BTreeMap<FragmentId, Version>,
}

impl Peer {
    fn new(now: Time) -> Self {
        Self {
            at: now,
            since: now,
            gone: false,
            order: (0, 0),
            takes_part: false,
            steps: false,
            versions: BTreeMap::new(),
        }
    }

    fn told(&mut self, frontier: &Frontier, now: Time) {
        let order = (frontier.incarnation, frontier.sequence);
        if order <= self.order {
            return;
        }
        if order.0 > self.order.0 {
            self.versions.clear();
        }
        self.order = order;
        self.at = now;
        self.gone = false;
        let takes_part = frontier.trains && frontier.standing == Standing::CaughtUp;
        if takes_part && !self.takes_part {
            self.since = now;
        }
        self.takes_part = takes_part;
        self.steps = frontier.step_ms != STEP_MS_RESTS;
        for (offset, entry) in (0u16..).zip(&frontier.entries) {
            let fragment = FragmentId(frontier.first.0.saturating_add(offset));
            // While it folds a late contribution a node speaks of its base only; what it had
            // closed before it still has.
            let version = self.versions.entry(fragment).or_default();
            *version = entry.version.max(*version);
        }
    }

    /// The newest version it told of; none if it never spoke of the fragment.
    pub(super) fn version(&self, fragment: FragmentId) -> Option<Version> {
        self.versions.get(&fragment).copied()
    }
}

impl Heard {
    pub(super) fn new(run: RunId) -> Self {
        Self {
            run,
            known: BTreeMap::new(),
            all: Peers::new(),
            members: Peers::new(),
            invited: BTreeMap::new(),
            honest: BTreeSet::new(),
        }
    }

    /// Takes in what a node receives, and forgets what a crash makes it forget.
    pub(super) fn observe(&mut self, world: &dyn World, event: &Event<'_>) {
        if self.honest.is_empty() {
            let honest = (0..world.nodes()).filter(|&node| world.is_honest(node));
            self.honest = honest.map(|node| world.node_id(node)).collect();
        }
        match event {
            Event::Crashed(node) | Event::Started(node) => {
                self.all.remove(node);
                self.members.remove(node);
            }
            Event::Decided(node, Output::Persist(Record::Invite(invite))) => {
                self.invited.entry(*node).or_default().insert(invite.body.node);
            }
            Event::Input(node, Input::Received { bytes, .. }) => match bytes.first() {
                Some(&FRONTIER) => self.frontier(world, *node, bytes),
                Some(&GOODBYE) => self.goodbye(*node, bytes),
                _ => {}
            },
            _ => {}
        }
    }

    /// Honest islands that `node` must believe alive: they spoke to it at most `within` ago.
    pub(super) fn islands(
        &self,
        world: &dyn World,
        node: NodeIndex,
        within: Span,
    ) -> impl Iterator<Item = (&NodeId, &Peer)> {
        let (own, now) = (world.node_id(node), world.now());
        self.members.get(&node).into_iter().flatten().filter(move |(id, peer)| {
            **id != own
                && peer.takes_part
                && !peer.gone
                && now.since(peer.at) <= within
                && self.honest.contains(id)
        })
    }

    /// How many nodes, liars included, may have told `node` within this time that they take part
    /// and have closed a round.
    pub(super) fn closed_by(
        &self,
        world: &dyn World,
        node: NodeIndex,
        round: RoundId,
        within: Span,
    ) -> usize {
        let Some(peers) = self.all.get(&node) else { return 0 };
        let own = world.node_id(node);
        let told = peers.iter().filter(|(id, peer)| {
            **id != own
                && peer.takes_part
                && !peer.gone
                && world.now().since(peer.at) <= within
                && peer.version(round.fragment).is_some_and(|version| version >= round.number)
        });
        told.count()
    }

    fn frontier(&mut self, world: &dyn World, node: NodeIndex, bytes: &[u8]) {
        let run = self.run;
        let known = self.known.entry(bytes.to_vec()).or_insert_with(|| verified(run, bytes));
        let Some(frontier) = known.clone() else { return };
        let now = world.now();
        let told = |peers: &mut Peers| {
            let peers = peers.entry(node).or_default();
            peers.entry(frontier.node).or_insert_with(|| Peer::new(now)).told(&frontier, now);
        };
        told(&mut self.all);
        if self.is_member(world, node, &frontier.node) {
            told(&mut self.members);
        }
    }

    fn is_member(&self, world: &dyn World, node: NodeIndex, other: &NodeId) -> bool {
        match &world.genesis().roster {
            RosterPolicy::Open => true,
            RosterPolicy::Closed { nodes, .. } => nodes.contains(other),
            RosterPolicy::Invite { .. } => {
                self.invited.get(&node).is_some_and(|invited| invited.contains(other))
            }
        }
    }

    fn goodbye(&mut self, node: NodeIndex, bytes: &[u8]) {
        let Ok(Message::Goodbye(goodbye)) = Message::decode(bytes) else { return };
        let order = (goodbye.body.incarnation, goodbye.body.sequence);
        for peers in [&mut self.all, &mut self.members] {
            let peer = peers.get_mut(&node).and_then(|peers| peers.get_mut(&goodbye.body.node));
            // A frontier that was sent before the goodbye may arrive after it.
            if let Some(peer) = peer.filter(|peer| order > peer.order) {
                peer.order = order;
                peer.gone = true;
            }
        }
    }
}

fn verified(run: RunId, bytes: &[u8]) -> Option<Rc<Frontier>> {
    let Ok(Message::Frontier(frontier)) = Message::decode(bytes) else { return None };
    frontier.verify(run).map(|frontier| Rc::new(frontier.body().clone()))
}

/// The first byte of a frontier: its place in `Message`.
const FRONTIER: u8 = 1;
/// The first byte of a goodbye.
const GOODBYE: u8 = 3;
