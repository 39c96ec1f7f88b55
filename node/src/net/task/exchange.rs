//! What peers are asked now and then: where their peers are, and what time it is.

use std::time::{Duration, Instant};

use atoll_protocol::limits::CONNECTED_PEERS_MAX;
use libp2p::{Multiaddr, PeerId};

use super::super::address::{self, is_worth_dialling};
use super::super::content::fetch::News;
use super::super::event::How;
use super::super::status::Skew;
use super::Task;

impl Task {
    /// Asks peers for their peers and their clocks: who was brought together by the bootstrap, or
    /// by a ticket, need not stay strangers to the rest.
    pub(super) fn ask_peers(&mut self, now: Instant) {
        let up = self.up.borrow().clone();
        for (id, peer) in &mut self.peers {
            let Some(node) = peer.node.filter(|node| up.contains(node)) else { continue };
            if now >= peer.ask_due && self.asks.len() < ASKS_MAX {
                peer.ask_due = now + ASK_INTERVAL;
                let (id, fetcher) = (*id, self.fetcher.clone());
                self.asks.spawn(async move { (id, fetcher.news(node).await) });
            }
        }
    }

    /// A peer answered.
    pub(super) fn told(&mut self, peer: PeerId, news: News) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        match news.skew_ms {
            Some(skew) => known.skew_ms = Some(skew),
            // It said nothing, or its answer was too long on the way.
            None => known.ask_due = Instant::now() + ASK_AGAIN,
        }
        let seen = known.best().map(|link| link.address.clone());
        let (Some(seen), Some(told)) = (seen, news.peers) else { return };
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

    /// How far our clock is from the median of those of peers: a few wrong ones do not move it.
    pub(super) fn skew(&self) -> Option<Skew> {
        let mut all: Vec<i64> = self.peers.values().filter_map(|peer| peer.skew_ms).collect();
        all.sort_unstable();
        let ms = i64::midpoint(*all.get(all.len().saturating_sub(1) / 2)?, all[all.len() / 2]);
        Some(Skew { ms, peers: all.len() })
    }
}

/// Peers that are asked for their peers at once.
const ASKS_MAX: usize = 4;
const ASK_INTERVAL: Duration = Duration::from_secs(300);
/// How long to leave a peer alone that did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(20);
