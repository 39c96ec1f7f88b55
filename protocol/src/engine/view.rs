//! What people may see of an engine. Nothing here changes anything.

use serde::Serialize;

use crate::contribution::Header;
use crate::engine::Engine;
use crate::frontier::{FrontierEntry, Standing};
use crate::id::{ContentId, FragmentId, NodeId, RoundId, Version};
use crate::time::Span;

/// A peer, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerView {
    /// Who.
    pub node: NodeId,
    /// Whether messages can be sent to it now.
    pub connected: bool,
    /// Whether its last frontier is recent enough to count for quorum.
    pub alive: bool,
    /// Whether an island trains behind it.
    pub trains: bool,
    /// Whether it takes part.
    pub standing: Standing,
    /// Milliseconds of one step of its island.
    pub step_ms: u64,
    /// Where it said it stands, by fragment.
    pub entries: Vec<Option<FrontierEntry>>,
}

/// A round that is not stable yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundView {
    /// Which round.
    pub round: RoundId,
    /// Whether it closed here.
    pub closed: bool,
    /// The contributions admitted so far, by author.
    pub contributions: Vec<Header>,
}

impl Engine {
    /// Everyone this node has heard of or is connected to.
    pub fn peer_views(&self) -> Vec<PeerView> {
        let window = Span(self.config.genesis.rounds.alive_ms);
        let alive: Vec<NodeId> =
            self.peers.within(window, self.now).map(|(node, _)| *node).collect();
        let view = |(node, peer): (&NodeId, &crate::peers::Peer)| PeerView {
            node: *node,
            connected: peer.connected,
            alive: alive.contains(node),
            trains: peer.trains,
            standing: peer.standing,
            step_ms: peer.step.0,
            entries: self.fragment_ids().map(|fragment| peer.entry(fragment).copied()).collect(),
        };
        self.peers.iter().map(view).collect()
    }

    /// The rounds of a fragment that are not stable.
    pub fn round_views(&self, fragment: FragmentId) -> Vec<RoundView> {
        let Some(course) = self.courses.get(fragment.index()) else { return Vec::new() };
        let newest = self.ledger.newest(fragment).unwrap_or(0).max(course.version);
        (course.chain.base() + 1..=newest)
            .map(|number| {
                let round = RoundId { fragment, number };
                let contributions = self.ledger.round(round).map(|it| *it.header()).collect();
                RoundView { round, closed: number <= course.version, contributions }
            })
            .collect()
    }

    /// Authors that signed twice for one slot.
    pub fn equivocators(&self) -> Vec<NodeId> {
        self.ledger.evidence().map(|evidence| evidence.author()).collect()
    }

    /// The newest version that any live peer has of a fragment.
    pub fn newest_heard(&self, fragment: FragmentId) -> Version {
        let window = Span(self.config.genesis.rounds.alive_ms);
        let peers = self.peers.within(window, self.now);
        peers
            .filter_map(|(_, peer)| peer.entry(fragment))
            .map(|entry| entry.version)
            .max()
            .unwrap_or(0)
    }

    /// Who should have a content that is being fetched.
    pub fn holders(&self, content: &ContentId) -> Vec<NodeId> {
        self.fetcher.holders(content)
    }

    fn fragment_ids(&self) -> impl Iterator<Item = FragmentId> {
        self.courses.iter().map(|course| course.fragment)
    }
}
