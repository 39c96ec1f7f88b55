//! What people may see of an engine. Nothing here changes anything.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::contribution::Header;
use crate::engine::Engine;
use crate::engine::course::{Course, Own};
use crate::frontier::{FrontierEntry, Standing};
use crate::id::{ContentId, FragmentId, NodeId, RoundId, Version};
use crate::peers::Peer;
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

    /// Whether the round of a fragment that this node closed last holds a contribution of its own.
    pub fn merged_last(&self, fragment: FragmentId) -> bool {
        let Some(course) = self.courses.get(fragment.index()) else { return false };
        let version = course.version;
        // Of what is stable only those own contributions are left that were merged.
        let is_merged =
            |own: &Own| version <= course.chain.base() || self.in_cut(fragment, version, &own.id);
        course.own.get(&version).is_some_and(is_merged)
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

    /// Tokens that the swarm has merged, averaged over the fragments: `cut_tokens` are those above
    /// the base of each, as its fold has them.
    pub fn tokens_merged(&self, cut_tokens: impl Iterator<Item = u64>) -> u64 {
        let merged = self.courses.iter().zip(cut_tokens);
        let merged: u64 = merged.map(|(course, cut)| course.chain.base_weight() + cut).sum();
        merged / self.courses.len().max(1) as u64
    }

    /// About how many tokens all islands have trained that are not merged yet, averaged over the
    /// fragments: our own, and as many of each live peer as its speed lets expect.
    pub fn tokens_under_way(&self) -> u64 {
        let unmerged = |fragment| {
            let fates = self.status(fragment).map(|status| status.fates).unwrap_or_default();
            fates.pending + fates.fresh + fates.reissued
        };
        let own = self.fragment_ids().map(unmerged).sum::<u64>() / self.courses.len().max(1) as u64;
        let step = self.step.mean().0.max(1);
        let peers = self.live().map(|(_, peer)| {
            // Anybody may say anything of its own speed.
            own.saturating_mul(step) / peer.step.0.max(step.div_ceil(SPEEDUP_MAX))
        });
        own.saturating_add(peers.fold(0, u64::saturating_add))
    }

    /// Who should have a content that is being fetched, or will in a moment: what one node calls
    /// stable its followers do as soon as they have heard of it.
    pub fn holders(&self, content: &ContentId) -> Vec<NodeId> {
        let mut holders = self.fetcher.holders(content);
        let installs = |course: &&Course| {
            let chain = course.installing.as_ref().map(|installing| &installing.chain);
            chain.is_some_and(|chain| chain.base_digest() == *content)
        };
        if let Some(course) = self.courses.iter().find(installs) {
            let version = course.installing.as_ref().map_or(0, |it| it.chain.base());
            let reachable: BTreeSet<&NodeId> = self.peers.reachable().collect();
            let has_closed = |peer: &Peer| {
                peer.entry(course.fragment).is_some_and(|entry| entry.version >= version)
            };
            let more: Vec<NodeId> = self
                .knowing()
                .filter(|(node, peer)| reachable.contains(node) && has_closed(peer))
                .map(|(node, _)| *node)
                .filter(|node| !holders.contains(node))
                .collect();
            holders.extend(more);
        }
        holders
    }

    fn fragment_ids(&self) -> impl Iterator<Item = FragmentId> {
        self.courses.iter().map(|course| course.fragment)
    }
}

/// A peer is believed to be faster than we are by this factor, not by more.
const SPEEDUP_MAX: u64 = 8;
