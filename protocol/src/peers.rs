//! What this node knows of the others: who is connected, who is alive, where they stand.

use std::collections::BTreeMap;

use crate::frontier::{Frontier, FrontierEntry, Goodbye, STEP_MS_RESTS, Standing};
use crate::id::{FragmentId, NodeId, RoundId, Short, Version};
use crate::limits::{PEER_BURST, PEER_MESSAGES_PER_SECOND, PEERS_MAX};
use crate::time::{Span, Time};

/// Every peer connected or heard of.
#[derive(Debug)]
pub struct Peers {
    peers: BTreeMap<NodeId, Peer>,
    /// The newest version of each fragment that anybody ever spoke of: mostly it tells that no
    /// peer need be asked.
    newest: Vec<Version>,
}

/// One peer.
#[derive(Debug)]
pub struct Peer {
    /// Whether messages can be sent to it now.
    pub connected: bool,
    /// Whether an island trains behind it.
    pub trains: bool,
    /// Whether it takes part.
    pub standing: Standing,
    /// Milliseconds of one step of its island; see [`Peer::rests`].
    pub step: Span,
    /// Digest of what it knows of the roster.
    pub roster: Short,
    /// Its last word was goodbye.
    pub gone: bool,
    /// When its last frontier arrived.
    heard: Option<Time>,
    last: (u64, u64),
    entries: Vec<Option<FrontierEntry>>,
    allowance: Allowance,
}

impl Peer {
    /// Whether its island makes no steps, as it says.
    pub fn rests(&self) -> bool {
        self.step == Span(u64::from(STEP_MS_RESTS))
    }
}

impl Peers {
    /// Nobody, in a run with this many fragments.
    pub fn new(fragments: usize) -> Self {
        Self { peers: BTreeMap::new(), newest: vec![0; fragments] }
    }

    /// Notes that a peer is connected or not.
    pub fn connected(&mut self, node: NodeId, connected: bool, now: Time) {
        if let Some(peer) = self.entry(node, now) {
            peer.connected = connected;
        }
    }

    /// Takes a frontier. False if it is not newer than what is known.
    pub fn heard(&mut self, frontier: &Frontier, now: Time) -> bool {
        let Some(peer) = self.entry(frontier.node, now) else { return false };
        let last = (frontier.incarnation, frontier.sequence);
        if last <= peer.last {
            return false;
        }
        peer.last = last;
        peer.heard = Some(now);
        peer.gone = false;
        peer.trains = frontier.trains;
        peer.standing = frontier.standing;
        peer.step = Span(u64::from(frontier.step_ms));
        peer.roster = frontier.roster;
        let first = frontier.first.index();
        let places = peer.entries.iter_mut().skip(first);
        places.zip(&frontier.entries).for_each(|(place, entry)| *place = Some(*entry));
        let newest = self.newest.iter_mut().skip(first);
        newest.zip(&frontier.entries).for_each(|(it, entry)| *it = entry.version.max(*it));
        true
    }

    /// Takes a goodbye. False if it is not newer than what is known.
    pub fn goodbye(&mut self, goodbye: &Goodbye) -> bool {
        let Some(peer) = self.peers.get_mut(&goodbye.node) else { return false };
        let last = (goodbye.incarnation, goodbye.sequence);
        if last <= peer.last {
            return false;
        }
        peer.last = last;
        peer.gone = true;
        true
    }

    /// Whether `node` may send one more message now.
    pub fn allow(&mut self, node: NodeId, now: Time) -> bool {
        self.entry(node, now).is_some_and(|peer| peer.allowance.take(now))
    }

    /// A peer.
    pub fn peer(&self, node: &NodeId) -> Option<&Peer> {
        self.peers.get(node)
    }

    /// Peers heard of within `window` whose last word was not goodbye.
    pub fn within(&self, window: Span, now: Time) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.peers.iter().filter(move |(_, peer)| {
            !peer.gone && peer.heard.is_some_and(|heard| now.since(heard) <= window)
        })
    }

    /// Whether any of them may have closed `round`.
    pub fn may_have_closed(&self, round: RoundId) -> bool {
        self.newest.get(round.fragment.index()).is_some_and(|newest| *newest >= round.number)
    }

    /// Peers that can be sent to.
    pub fn reachable(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.iter().filter(|(_, peer)| peer.connected).map(|(node, _)| node)
    }

    /// Everyone known.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.peers.iter()
    }

    /// Number of peers known.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    fn entry(&mut self, node: NodeId, now: Time) -> Option<&mut Peer> {
        if !self.peers.contains_key(&node) && self.peers.len() >= PEERS_MAX {
            // Room is made by forgetting who was silent longest; connected peers stay.
            let silent = self
                .peers
                .iter()
                .filter(|(_, peer)| !peer.connected)
                .min_by_key(|(_, peer)| peer.heard)
                .map(|(node, _)| *node)?;
            self.peers.remove(&silent);
        }
        let fragments = self.newest.len();
        Some(self.peers.entry(node).or_insert_with(|| Peer::new(fragments, now)))
    }
}

impl Peer {
    fn new(fragments: usize, now: Time) -> Self {
        Self {
            connected: false,
            trains: false,
            standing: Standing::Joining,
            step: Span(0),
            roster: Short([0; 8]),
            gone: false,
            heard: None,
            last: (0, 0),
            entries: vec![None; fragments],
            allowance: Allowance { tokens: PEER_BURST, refilled: now },
        }
    }

    /// Where it stands with `fragment`, if it said so.
    pub fn entry(&self, fragment: FragmentId) -> Option<&FrontierEntry> {
        self.entries.get(fragment.index())?.as_ref()
    }

    /// Whether it says that it has closed `round`.
    pub fn has_closed(&self, round: RoundId) -> bool {
        self.entry(round.fragment).is_some_and(|entry| entry.version >= round.number)
    }
}

/// A token bucket.
#[derive(Debug)]
struct Allowance {
    tokens: u64,
    refilled: Time,
}

impl Allowance {
    fn take(&mut self, now: Time) -> bool {
        let gained = now.since(self.refilled).0.saturating_mul(PEER_MESSAGES_PER_SECOND) / 1000;
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(gained).min(PEER_BURST);
            self.refilled = now;
        }
        let allowed = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frontier(sequence: u64) -> Frontier {
        Frontier {
            node: NodeId([1; 32]),
            incarnation: 1,
            sequence,
            standing: Standing::CaughtUp,
            trains: true,
            step_ms: 100,
            roster: Short([0; 8]),
            first: FragmentId(0),
            entries: Vec::new(),
        }
    }

    #[test]
    fn an_old_frontier_changes_nothing() {
        let mut peers = Peers::new(1);
        assert!(peers.heard(&frontier(5), Time(0)));
        assert!(!peers.heard(&frontier(5), Time(9000)));
        assert!(!peers.heard(&frontier(4), Time(9000)));
        assert_eq!(peers.within(Span(1000), Time(9000)).count(), 0);
        assert!(peers.heard(&frontier(6), Time(9000)));
        assert_eq!(peers.within(Span(1000), Time(9000)).count(), 1);
    }

    #[test]
    fn a_flood_is_stopped_and_a_pause_is_forgiven() {
        let mut peers = Peers::new(1);
        let node = NodeId([1; 32]);
        let allowed = (0..2 * PEER_BURST).filter(|_| peers.allow(node, Time(0))).count();
        assert_eq!(allowed as u64, PEER_BURST);
        assert!(peers.allow(node, Time(5)));
    }

    #[test]
    fn the_number_of_peers_is_bounded() {
        let mut peers = Peers::new(1);
        for n in 0..u32::try_from(PEERS_MAX).unwrap() + 50 {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&n.to_le_bytes());
            peers.allow(NodeId(id), Time(0));
        }
        assert_eq!(peers.len(), PEERS_MAX);
    }
}
