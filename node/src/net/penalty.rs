//! Points against peers: they fade, and too many mean silence for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atoll_protocol::limits::KNOWN_PEERS_MAX;
use libp2p::PeerId;

/// Who has how many points, and who is blocked.
#[derive(Debug, Default)]
pub(super) struct Penalties {
    points: BTreeMap<PeerId, Points>,
    blocked: BTreeMap<PeerId, Instant>,
}

#[derive(Debug)]
struct Points {
    count: f64,
    at: Instant,
}

impl Points {
    fn now(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        self.count * (-age / FADE.as_secs_f64()).exp2()
    }
}

impl Penalties {
    /// Adds points; returns how many the peer has now.
    pub(super) fn add(&mut self, peer: PeerId, points: u32, now: Instant) -> f64 {
        let count = self.of(&peer, now) + f64::from(points);
        self.points.insert(peer, Points { count, at: now });
        if self.points.len() > KNOWN_PEERS_MAX {
            let least = self
                .points
                .iter()
                .min_by(|(_, one), (_, other)| one.now(now).total_cmp(&other.now(now)));
            if let Some(least) = least.map(|(peer, _)| *peer) {
                self.points.remove(&least);
            }
        }
        count
    }

    /// Points a peer has now.
    pub(super) fn of(&self, peer: &PeerId, now: Instant) -> f64 {
        self.points.get(peer).map_or(0.0, |points| points.now(now))
    }

    /// Blocks a peer; returns those for whom there is no more room.
    pub(super) fn block(&mut self, peer: PeerId, now: Instant) -> Option<PeerId> {
        self.blocked.insert(peer, now + BLOCK_TIME);
        if self.blocked.len() <= KNOWN_PEERS_MAX {
            return None;
        }
        let first = self.blocked.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer)?;
        self.blocked.remove(&first);
        Some(first)
    }

    /// Those whose time is over; they have one half of what it takes left.
    pub(super) fn released(&mut self, now: Instant) -> Vec<PeerId> {
        let over: Vec<PeerId> = self
            .blocked
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(peer, _)| *peer)
            .collect();
        for peer in &over {
            self.blocked.remove(peer);
            self.points.insert(*peer, Points { count: ENOUGH / 2.0, at: now });
        }
        over
    }

    /// Whether a peer is blocked.
    pub(super) fn blocks(&self, peer: &PeerId) -> bool {
        self.blocked.contains_key(peer)
    }
}

/// Points at which a peer is blocked: a hundred, less what fades while they come together.
pub(super) const ENOUGH: f64 = 80.0;
/// For how long.
pub(super) const BLOCK_TIME: Duration = Duration::from_secs(3600);
/// Time in which points become half as many.
const FADE: Duration = Duration::from_secs(900);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_fade_and_blocks_end() {
        let (mut penalties, now, peer) = (Penalties::default(), Instant::now(), PeerId::random());
        assert!(penalties.add(peer, 60, now) < ENOUGH);
        assert!((penalties.of(&peer, now + FADE) - 30.0).abs() < 1e-6);
        assert!(penalties.add(peer, 60, now) >= ENOUGH);
        assert_eq!(penalties.block(peer, now), None);
        assert!(penalties.blocks(&peer));
        assert!(penalties.released(now + BLOCK_TIME / 2).is_empty());
        assert_eq!(penalties.released(now + BLOCK_TIME), [peer]);
        assert!(!penalties.blocks(&peer));
        assert!(penalties.of(&peer, now + BLOCK_TIME) < ENOUGH);
    }

    #[test]
    fn a_hundred_points_are_enough_though_they_fade() {
        let (mut penalties, now, peer) = (Penalties::default(), Instant::now(), PeerId::random());
        assert!(penalties.add(peer, 50, now) < ENOUGH);
        assert!(penalties.add(peer, 50, now + Duration::from_secs(2)) >= ENOUGH);
    }
}
