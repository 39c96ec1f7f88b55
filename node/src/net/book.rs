//! The address book: who is known, where, and when to dial whom again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atoll_protocol::limits::{ADDRESSES_PER_PEER_MAX, KNOWN_PEERS_MAX};
use atoll_protocol::rng::Rng;
use libp2p::{Multiaddr, PeerId};

use super::address::{is_relayed, to_peer};

/// Addresses of peers, and the back-off of each.
#[derive(Debug)]
pub(super) struct Book {
    entries: BTreeMap<PeerId, Entry>,
    rng: Rng,
}

#[derive(Debug)]
struct Entry {
    /// Where it was reached last comes first.
    addresses: Vec<Multiaddr>,
    /// From the configuration: never forgotten.
    fixed: bool,
    /// A bootstrap: dialled whatever the number of peers.
    bootstrap: bool,
    /// Somebody said so, and nobody else: given up soon.
    hearsay: bool,
    /// It was connected and spoke the protocols of this run.
    ours: bool,
    state: State,
    attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Due(Instant),
    Dialling,
    Connected,
}

impl Book {
    /// An empty book; `seed` spreads the attempts of different nodes.
    pub(super) fn new(seed: u64) -> Self {
        Self { entries: BTreeMap::new(), rng: Rng::new(seed) }
    }

    /// Takes note of an address; true if the peer was not known.
    pub(super) fn learn(&mut self, peer: PeerId, address: Multiaddr, now: Instant) -> bool {
        let address = to_peer(&address, peer);
        if let Some(entry) = self.entries.get_mut(&peer) {
            if !entry.addresses.contains(&address) {
                entry.make_room();
                entry.addresses.push(address);
            }
            return false;
        }
        if self.entries.len() >= KNOWN_PEERS_MAX && !self.forget_one() {
            return false;
        }
        let entry = Entry {
            addresses: vec![address],
            fixed: false,
            bootstrap: false,
            hearsay: false,
            ours: false,
            state: State::Due(now),
            attempts: 0,
        };
        self.entries.insert(peer, entry);
        true
    }

    /// A peer that was just learned is given up soon unless it answers.
    pub(super) fn doubt(&mut self, peer: &PeerId) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.hearsay = true;
        }
    }

    /// Never forgets this peer.
    pub(super) fn fix(&mut self, peer: &PeerId, bootstrap: bool) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.fixed = true;
            entry.bootstrap |= bootstrap;
        }
    }

    /// A connection is up; `dialled` is where it was reached.
    pub(super) fn connected(&mut self, peer: &PeerId, dialled: Option<&Multiaddr>) {
        let Some(entry) = self.entries.get_mut(peer) else { return };
        entry.state = State::Connected;
        if let Some(address) = dialled.map(|address| to_peer(address, *peer)) {
            entry.addresses.retain(|known| *known != address);
            entry.make_room();
            entry.addresses.insert(0, address);
        }
    }

    /// The peer speaks the protocols of this run.
    pub(super) fn ours(&mut self, peer: &PeerId) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.ours = true;
            entry.hearsay = false;
            entry.attempts = 0;
        }
    }

    /// The last connection is gone: dial again soon.
    pub(super) fn disconnected(&mut self, peer: &PeerId, now: Instant) {
        let Some(entry) = self.entries.get_mut(peer) else { return };
        entry.state = State::Due(now + back_off(entry.attempts, &mut self.rng));
        entry.attempts = entry.attempts.saturating_add(1);
    }

    /// An attempt failed; returns how many in a row did.
    pub(super) fn failed(&mut self, peer: &PeerId, now: Instant) -> u32 {
        let Some(entry) = self.entries.get_mut(peer) else { return 0 };
        if entry.state == State::Connected {
            return 0;
        }
        entry.state = State::Due(now + back_off(entry.attempts, &mut self.rng));
        entry.attempts = entry.attempts.saturating_add(1);
        let attempts = entry.attempts;
        let most = if entry.hearsay { HEARSAY_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        if attempts > most && !entry.fixed {
            self.entries.remove(peer);
        }
        attempts
    }

    /// Somebody wants this peer: dial it at the next occasion.
    pub(super) fn hurry(&mut self, peer: &PeerId, now: Instant) {
        if let Some(Entry { state: State::Due(due), .. }) = self.entries.get_mut(peer) {
            *due = (*due).min(now + BACK_OFF_MIN);
        }
    }

    /// The peer is none of ours, or not wanted: leave it alone for a long time.
    pub(super) fn avoid(&mut self, peer: &PeerId, now: Instant) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.ours = false;
            entry.state = State::Due(now + AVOID_TIME);
        }
    }

    /// An address leads to somebody else.
    pub(super) fn wrong(&mut self, peer: &PeerId, address: &Multiaddr) {
        let address = to_peer(address, *peer);
        if let Some(entry) = self.entries.get_mut(peer)
            && entry.addresses.len() > 1
        {
            entry.addresses.retain(|known| *known != address);
        }
    }

    /// Whom to dial now, at most `room` peers besides bootstraps, those known longest first.
    pub(super) fn due(&mut self, now: Instant, room: usize) -> Vec<(PeerId, Vec<Multiaddr>)> {
        let dialling = self.entries.values().filter(|entry| entry.state == State::Dialling).count();
        let mut room = room.min(DIALS_MAX).saturating_sub(dialling);
        let mut due: Vec<(Instant, PeerId)> = self
            .entries
            .iter()
            .filter_map(|(peer, entry)| match entry.state {
                State::Due(at) if at <= now => Some((at, *peer)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        let mut dials = Vec::new();
        for (_, peer) in due {
            let Some(entry) = self.entries.get_mut(&peer) else { continue };
            if !entry.bootstrap {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            entry.state = State::Dialling;
            dials.push((peer, entry.addresses.clone()));
        }
        dials
    }

    /// Addresses of a peer, best first.
    pub(super) fn addresses(&self, peer: &PeerId) -> &[Multiaddr] {
        self.entries.get(peer).map_or(&[], |entry| &entry.addresses)
    }

    /// Whether a peer is known.
    pub(super) fn knows(&self, peer: &PeerId) -> bool {
        self.entries.contains_key(peer)
    }

    /// What the next start should try: addresses of nodes of this run.
    pub(super) fn cache(&self) -> Vec<String> {
        let ours = self.entries.values().filter(|entry| entry.ours);
        let addresses = ours.flat_map(|entry| {
            // A relay's reservation does not outlive a restart, unless there is nothing else.
            let direct = entry.addresses.iter().any(|address| !is_relayed(address));
            entry.addresses.iter().filter(move |address| !direct || !is_relayed(address)).take(4)
        });
        addresses.map(ToString::to_string).collect()
    }

    /// Where the connected nodes of this run are, for others of the run.
    pub(super) fn near(&self) -> Vec<String> {
        let near = self.entries.values().filter(|it| it.ours && it.state == State::Connected);
        near.flat_map(|entry| entry.addresses.iter().take(2)).map(ToString::to_string).collect()
    }

    /// Makes room for a newcomer: whoever failed most goes.
    fn forget_one(&mut self) -> bool {
        let idle = |entry: &&Entry| !entry.fixed && matches!(entry.state, State::Due(_));
        let worst = self
            .entries
            .iter()
            .filter(|(_, entry)| idle(entry))
            .max_by_key(|(_, entry)| (!entry.ours, entry.attempts))
            .map(|(peer, _)| *peer);
        worst.is_some_and(|peer| self.entries.remove(&peer).is_some())
    }
}

impl Entry {
    fn make_room(&mut self) {
        self.addresses.truncate(ADDRESSES_PER_PEER_MAX - 1);
    }
}

/// Doubling, with a quarter of jitter to both sides.
fn back_off(attempts: u32, rng: &mut Rng) -> Duration {
    let whole = BACK_OFF_MIN.saturating_mul(1 << attempts.min(6)).min(BACK_OFF_MAX);
    let percent = u32::try_from(rng.range(75, 125)).unwrap_or(100);
    whole * percent / 100
}

const BACK_OFF_MIN: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// How long a peer is left alone that has nothing for us.
const AVOID_TIME: Duration = Duration::from_secs(3600);
/// Peers that are dialled at once.
const DIALS_MAX: usize = 16;
/// Failures in a row after which a peer that nobody configured is forgotten: about a day.
const ATTEMPTS_MAX: u32 = 1500;
/// The same for a peer that only another peer spoke of.
const HEARSAY_ATTEMPTS_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Multiaddr {
        format!("/ip4/203.0.113.5/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn lost_peers_are_dialled_again_ever_more_seldom() {
        let (mut book, mut now, peer) = (Book::new(1), Instant::now(), PeerId::random());
        assert!(book.learn(peer, address(1), now));
        let mut gaps = Vec::new();
        for _ in 0..10 {
            let from = now;
            while book.due(now, 8).is_empty() {
                now += Duration::from_millis(100);
            }
            gaps.push(now - from);
            book.failed(&peer, now);
        }
        assert_eq!(gaps[0], Duration::ZERO);
        assert!(gaps[1] >= Duration::from_millis(700) && gaps[1] <= Duration::from_millis(1400));
        assert!(gaps[9] >= Duration::from_secs(45) && gaps[9] <= Duration::from_secs(76));
        book.hurry(&peer, now);
        assert_eq!(book.due(now + BACK_OFF_MIN, 8).len(), 1);
        book.connected(&peer, None);
        assert!(book.due(now + BACK_OFF_MAX * 2, 8).is_empty());
        book.ours(&peer);
        book.disconnected(&peer, now);
        assert_eq!(book.due(now + BACK_OFF_MIN * 2, 8).len(), 1);
    }

    #[test]
    fn the_book_is_bounded_and_keeps_the_configured() {
        let (mut book, now) = (Book::new(2), Instant::now());
        let fixed = PeerId::random();
        book.learn(fixed, address(1), now);
        book.fix(&fixed, true);
        for _ in 0..KNOWN_PEERS_MAX + 50 {
            book.learn(PeerId::random(), address(2), now);
        }
        for port in 0..100 {
            book.learn(fixed, address(port), now);
        }
        assert_eq!(book.entries.len(), KNOWN_PEERS_MAX);
        assert_eq!(book.addresses(&fixed).len(), ADDRESSES_PER_PEER_MAX);
        assert_eq!(book.due(now, 4).len(), 5);
        assert_eq!(book.due(now, 0).len(), 0);
    }

    #[test]
    fn where_a_peer_was_reached_comes_first() {
        let (mut book, now, peer) = (Book::new(3), Instant::now(), PeerId::random());
        book.learn(peer, address(1), now);
        book.learn(peer, address(2), now);
        book.connected(&peer, Some(&address(2)));
        assert_eq!(book.addresses(&peer)[0], to_peer(&address(2), peer));
        assert!(book.cache().is_empty());
        book.ours(&peer);
        assert_eq!(book.cache().len(), 2);
        book.wrong(&peer, &address(2));
        assert_eq!(book.addresses(&peer), [to_peer(&address(1), peer)]);
    }
}
