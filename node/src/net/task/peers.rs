//! Who is connected, and over which connections.

use std::time::{Duration, Instant};

use atoll_protocol::id::NodeId;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};

use super::super::status::Way;

/// A connected peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: Option<NodeId>,
    pub(super) links: Vec<Link>,
    pub(super) kind: Kind,
    /// It takes our gossip.
    pub(super) listens: bool,
    pub(super) since: Instant,
    /// When to ask it for its peers.
    pub(super) ask_due: Instant,
    pub(super) rtt: Option<Duration>,
    /// Milliseconds that its clock is ahead of ours.
    pub(super) skew_ms: Option<i64>,
}

/// What a peer is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has not said.
    Unknown,
    /// A node of this run.
    Ours,
    /// A bootstrap of the configuration.
    Bootstrap,
    /// Something else.
    Stranger,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: ConnectionId,
    pub(super) address: Multiaddr,
    pub(super) way: Way,
    /// We dialled, so it sees us at the port that our router gave us.
    pub(super) dialled: bool,
    /// Where it sees us.
    pub(super) observed: Option<Multiaddr>,
    pub(super) since: Instant,
    pub(super) missed_pings: u32,
}

impl Peer {
    /// Whether it can be spoken to in every way, or should be by now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        self.kind == Kind::Ours && (self.listens || age >= LISTEN_TIME)
    }

    /// The connection that is used, if all goes well.
    pub(super) fn best(&self) -> Option<&Link> {
        self.links.iter().min_by_key(|link| link.rank())
    }

    /// Connections that are no longer needed: relayed ones next to a direct one; and, on one side
    /// of the two so that both keep the same, all but the best direct one.
    pub(super) fn spare(&self, own: PeerId, peer: PeerId, now: Instant) -> Vec<ConnectionId> {
        let settled = |link: &&Link| now.saturating_duration_since(link.since) >= SETTLE_TIME;
        let best = self.links.iter().filter(|link| !link.is_relayed()).filter(settled);
        let Some(best) = best.min_by_key(|link| link.rank()) else { return Vec::new() };
        self.links
            .iter()
            .filter(settled)
            .filter(|link| link.id != best.id && (link.is_relayed() || own < peer))
            .map(|link| link.id)
            .collect()
    }
}

impl Link {
    pub(super) fn is_relayed(&self) -> bool {
        self.way == Way::Relayed
    }

    /// Direct before relayed, QUIC before TCP, old before new.
    fn rank(&self) -> (bool, bool, Instant) {
        let quic = self.address.iter().any(|part| part == Protocol::QuicV1);
        (self.is_relayed(), !quic, self.since)
    }
}

/// A node that takes no gossip after this long never will, but may have contents.
const LISTEN_TIME: Duration = Duration::from_secs(3);
/// Others may still be using a new connection to find out something.
const SETTLE_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direct_connection_is_enough() {
        let now = Instant::now();
        let link = |id, address: &str, way| Link {
            id: ConnectionId::new_unchecked(id),
            address: address.parse().unwrap(),
            way,
            dialled: true,
            observed: None,
            since: now,
            missed_pings: 0,
        };
        let tcp = "/ip4/203.0.113.5/tcp/1";
        let links = vec![
            link(1, tcp, Way::Relayed),
            link(2, tcp, Way::Direct),
            link(3, "/ip4/203.0.113.5/udp/1/quic-v1", Way::HolePunched),
        ];
        let peer = Peer {
            node: None,
            links,
            kind: Kind::Ours,
            listens: false,
            since: now,
            ask_due: now,
            rtt: None,
            skew_ms: None,
        };
        let (mut low, mut high) = (PeerId::random(), PeerId::random());
        if high < low {
            std::mem::swap(&mut low, &mut high);
        }
        assert!(peer.spare(low, high, now).is_empty());
        let later = now + SETTLE_TIME;
        let [one, two] = [1, 2].map(ConnectionId::new_unchecked);
        assert_eq!(peer.spare(low, high, later), [one, two]);
        assert_eq!(peer.spare(high, low, later), [one]);
        assert_eq!(peer.best().unwrap().id, ConnectionId::new_unchecked(3));
    }
}
