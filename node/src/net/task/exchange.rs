//! Peers of peers.

use std::time::{Duration, Instant};

use atoll_protocol::limits::CONNECTED_PEERS_MAX;
use libp2p::{Multiaddr, PeerId};

use super::super::address::{self, is_worth_dialling};
use super::super::event::How;
use super::Task;

impl Task {
    /// Asks peers for their peers: who was brought together by the bootstrap, or by a ticket,
    /// need not stay strangers to the rest.
    pub(super) fn ask_peers(&mut self, now: Instant) {
        let up = self.up.borrow().clone();
        for (id, peer) in &mut self.peers {
            let Some(node) = peer.node.filter(|node| up.contains(node)) else { continue };
            if now >= peer.ask_due && self.asks.len() < ASKS_MAX {
                peer.ask_due = now + ASK_INTERVAL;
                let (id, fetcher) = (*id, self.fetcher.clone());
                self.asks.spawn(async move { (id, fetcher.peers(node).await) });
            }
        }
    }

    /// A peer told where its peers are.
    pub(super) fn told(&mut self, peer: PeerId, told: Option<String>) {
        let link = self.peers.get(&peer).and_then(|peer| peer.best());
        let (Some(seen), Some(told)) = (link.map(|link| link.address.clone()), told) else {
            return;
        };
        let now = Instant::now();
        for line in told.lines().take(2 * CONNECTED_PEERS_MAX) {
            let Ok(address) = line.parse::<Multiaddr>() else { continue };
            if let Some(other) = address::peer_in(&address)
                && is_worth_dialling(&address, &seen)
            {
                self.learn(other, address, How::Peer, now);
            }
        }
    }
}

/// Peers that are asked for their peers at once.
const ASKS_MAX: usize = 4;
const ASK_INTERVAL: Duration = Duration::from_secs(300);
