//! What each node has been told by frontiers, as a checker reads it.

use std::collections::BTreeMap;
use std::rc::Rc;

use atoll_protocol::engine::Input;
use atoll_protocol::frontier::{Frontier, Standing};
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
    peers: BTreeMap<NodeIndex, BTreeMap<NodeId, Peer>>,
}

/// What a node knows of a peer.
#[derive(Clone, Debug)]
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
    versions: BTreeMap<FragmentId, Version>,
}

impl Peer {
    /// The newest version it told of; none if it never spoke of the fragment.
    pub(super) fn version(&self, fragment: FragmentId) -> Option<Version> {
        self.versions.get(&fragment).copied()
    }
}

impl Heard {
    pub(super) fn new(run: RunId) -> Self {
        Self { run, known: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// Takes in what a node receives, and forgets what a crash makes it forget.
    pub(super) fn observe(&mut self, world: &dyn World, event: &Event<'_>) {
        match event {
            Event::Crashed(node) | Event::Started(node) => {
                self.peers.remove(node);
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
    ) -> Vec<(NodeId, Peer)> {
        let Some(peers) = self.peers.get(&node) else { return Vec::new() };
        let own = world.node_id(node);
        let honest: Vec<NodeId> = (0..world.nodes())
            .filter(|&other| world.is_honest(other))
            .map(|other| world.node_id(other))
            .collect();
        peers
            .iter()
            .filter(|(id, peer)| {
                **id != own
                    && peer.takes_part
                    && !peer.gone
                    && world.now().since(peer.at) <= within
                    && honest.contains(id)
            })
            .map(|(id, peer)| (*id, peer.clone()))
            .collect()
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
        let Some(peers) = self.peers.get(&node) else { return 0 };
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
        let order = (frontier.incarnation, frontier.sequence);
        let peers = self.peers.entry(node).or_default();
        let peer = peers.entry(frontier.node).or_insert_with(|| Peer {
            at: world.now(),
            since: world.now(),
            gone: false,
            order: (0, 0),
            takes_part: false,
            versions: BTreeMap::new(),
        });
        if order <= peer.order {
            return;
        }
        if order.0 > peer.order.0 {
            peer.versions.clear();
        }
        peer.order = order;
        peer.at = world.now();
        peer.gone = false;
        let takes_part = frontier.trains && frontier.standing == Standing::CaughtUp;
        if takes_part && !peer.takes_part {
            peer.since = world.now();
        }
        peer.takes_part = takes_part;
        for (offset, entry) in (0u16..).zip(&frontier.entries) {
            let fragment = FragmentId(frontier.first.0.saturating_add(offset));
            // While it folds a late contribution a node speaks of its base only; what it had
            // closed before it still has.
            let version = peer.versions.entry(fragment).or_default();
            *version = entry.version.max(*version);
        }
    }

    fn goodbye(&mut self, node: NodeIndex, bytes: &[u8]) {
        let Ok(Message::Goodbye(goodbye)) = Message::decode(bytes) else { return };
        let order = (goodbye.body.incarnation, goodbye.body.sequence);
        let peer = self.peers.get_mut(&node).and_then(|peers| peers.get_mut(&goodbye.body.node));
        // A frontier that was sent before the goodbye may arrive after it.
        if let Some(peer) = peer.filter(|peer| order > peer.order) {
            peer.order = order;
            peer.gone = true;
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
