//! The address book: who is known, where, and when to dial whom again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atoll_protocol::limits::{ADDRESSES_PER_PEER_MAX, CONNECTED_PEERS_MAX, KNOWN_PEERS_MAX};
use atoll_protocol::rng::Rng;
use libp2p::{Multiaddr, PeerId};

use super::address::{is_name, is_relayed, to_peer};

/// Addresses of peers, and the back-off of each.
#[derive(Debug)]
pub(super) struct Book {
    entries: BTreeMap<PeerId, Entry>,
    rng: Rng,
    /// No node of this run is up.
    alone: bool,
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
    /// Not wanted until then, whatever is heard of it.
    Avoided(Instant),
    Dialling,
    /// Since then.
    Connected(Instant),
}

/// How good the word is that a peer has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// From the peer itself, from the configuration, or from whom it registered with.
    Good,
    /// Another peer said so.
    Hearsay,
}

impl Book {
    /// An empty book; `seed` spreads the attempts of different nodes.
    pub(super) fn new(seed: u64) -> Self {
        Self { entries: BTreeMap::new(), rng: Rng::new(seed), alone: true }
    }

    /// Takes note of an address; true if the peer was not known. Whoever is heard of is alive, so
    /// it is dialled soon.
    pub(super) fn learn(
        &mut self,
        peer: PeerId,
        address: Multiaddr,
        word: Word,
        now: Instant,
    ) -> bool {
        let address = to_peer(&address, peer);
        if let Some(entry) = self.entries.get_mut(&peer) {
            entry.learn(address, word);
            self.hurry(&peer, now);
            return false;
        }
        if self.entries.len() >= KNOWN_PEERS_MAX && !self.forget_one() {
            return false;
        }
        let entry = Entry {
            addresses: vec![address],
            fixed: false,
            bootstrap: false,
            hearsay: word == Word::Hearsay,
            ours: false,
            state: State::Due(now),
            attempts: 0,
        };
        self.entries.insert(peer, entry);
        true
    }

    /// Takes note of all the addresses that a peer says it has. Others are forgotten, but for
    /// names, which outlive addresses, and for the one that `works`.
    pub(super) fn replace(
        &mut self,
        peer: &PeerId,
        addresses: &[Multiaddr],
        works: Option<&Multiaddr>,
    ) {
        // A bootstrap is where the configuration says.
        let Some(entry) = self.entries.get_mut(peer).filter(|it| !it.bootstrap) else { return };
        let names = std::mem::take(&mut entry.addresses).into_iter().filter(is_name);
        let told = works.into_iter().cloned().chain(names).chain(addresses.iter().cloned());
        for address in told.map(|address| to_peer(&address, *peer)) {
            if !entry.addresses.contains(&address) {
                entry.addresses.push(address);
            }
        }
        entry.addresses.truncate(ADDRESSES_PER_PEER_MAX);
    }

    /// Never forgets this peer.
    pub(super) fn fix(&mut self, peer: &PeerId, bootstrap: bool) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.fixed = true;
            entry.bootstrap |= bootstrap;
        }
    }

    /// A connection is up; `dialled` is where it was reached.
    pub(super) fn connected(&mut self, peer: &PeerId, dialled: Option<&Multiaddr>, now: Instant) {
        let Some(entry) = self.entries.get_mut(peer) else { return };
        if !matches!(entry.state, State::Connected(_)) {
            entry.state = State::Connected(now);
        }
        if let Some(address) = dialled.map(|address| to_peer(address, *peer)) {
            entry.addresses.retain(|known| *known != address);
            entry.make_room();
            entry.addresses.insert(0, address);
        }
    }

    /// The peer said what it is, and that is what it was taken for.
    pub(super) fn answered(&mut self, peer: &PeerId) {
        if let Some(entry) = self.entries.get_mut(peer) {
            // Not none: it may be one of those who hang up at once, again and again.
            entry.attempts = entry.attempts.min(1);
        }
    }

    /// The peer speaks the protocols of this run.
    pub(super) fn ours(&mut self, peer: &PeerId) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.ours = true;
            entry.hearsay = false;
        }
    }

    /// The last connection is gone: dial again, at once if it had lasted.
    pub(super) fn disconnected(&mut self, peer: &PeerId, now: Instant) {
        let Some(entry) = self.entries.get_mut(peer) else { return };
        if let State::Connected(since) = entry.state {
            if now.saturating_duration_since(since) >= LASTING_TIME {
                entry.attempts = 0;
            }
            let wait = match entry.attempts {
                0 => Duration::ZERO,
                _ => entry.back_off(&mut self.rng),
            };
            entry.state = State::Due(now + wait);
            entry.attempts = entry.attempts.saturating_add(1);
        }
    }

    /// An attempt failed; returns how many in a row did.
    pub(super) fn failed(&mut self, peer: &PeerId, now: Instant) -> u32 {
        let Some(entry) = self.entries.get_mut(peer) else { return 0 };
        if entry.state != State::Dialling {
            return 0;
        }
        entry.state = State::Due(now + entry.back_off(&mut self.rng));
        entry.attempts = entry.attempts.saturating_add(1);
        let attempts = entry.attempts;
        let most = if entry.hearsay { HEARSAY_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        // If nobody answers, that may well be our own fault.
        let kept = entry.fixed || self.alone && entry.ours;
        if attempts > most && !kept {
            self.entries.remove(peer);
        }
        attempts
    }

    /// Somebody wants this peer, or heard of it: dial it at the next occasion.
    pub(super) fn hurry(&mut self, peer: &PeerId, now: Instant) {
        if let Some(Entry { state: State::Due(due), .. }) = self.entries.get_mut(peer) {
            *due = (*due).min(now + BACK_OFF_MIN);
        }
    }

    /// Whether any node of this run is up. While none is, those that may lead to one are not left
    /// alone for long.
    pub(super) fn alone(&mut self, alone: bool, now: Instant) {
        self.alone = alone;
        for entry in self.entries.values_mut().filter(|it| alone && (it.fixed || it.ours)) {
            if let State::Due(due) = &mut entry.state {
                *due = (*due).min(now + BACK_OFF_ALONE);
            }
        }
    }

    /// The peer is none of ours, or not wanted: leave it alone for a long time.
    pub(super) fn avoid(&mut self, peer: &PeerId, now: Instant) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.ours = false;
            entry.state = State::Avoided(now + AVOID_TIME);
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
                State::Due(at) | State::Avoided(at) if at <= now => Some((at, *peer)),
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

    /// What the next start should try: addresses of nodes of this run, also of those that were
    /// not met in this life.
    pub(super) fn cache(&self) -> Vec<String> {
        let fixed =
            |entry: &Entry| entry.fixed && !entry.bootstrap && entry.attempts < ATTEMPTS_MAX;
        let mut known: Vec<(&PeerId, &Entry)> =
            self.entries.iter().filter(|(_, entry)| entry.ours || fixed(entry)).collect();
        known.sort_by_key(|(_, entry)| (!entry.is_connected(), !entry.ours));
        known.truncate(CACHED_PEERS_MAX);
        // In an order that changes only when they do.
        known.sort_by_key(|(peer, _)| **peer);
        let addresses = known.into_iter().flat_map(|(_, entry)| {
            // A relay's reservation does not outlive a restart, unless there is nothing else.
            let direct = entry.addresses.iter().any(|address| !is_relayed(address));
            entry.addresses.iter().filter(move |address| !direct || !is_relayed(address)).take(4)
        });
        addresses.map(ToString::to_string).collect()
    }

    /// Where the connected nodes of this run are, for others of the run.
    pub(super) fn near(&self) -> Vec<String> {
        let near = self.entries.values().filter(|entry| entry.ours && entry.is_connected());
        near.flat_map(|entry| entry.addresses.iter().take(2)).map(ToString::to_string).collect()
    }

    /// Makes room for a newcomer: whoever failed most goes, and those that people chose last.
    fn forget_one(&mut self) -> bool {
        let idle = |entry: &&Entry| {
            !entry.bootstrap && matches!(entry.state, State::Due(_) | State::Avoided(_))
        };
        let worst = self
            .entries
            .iter()
            .filter(|(_, entry)| idle(entry))
            .max_by_key(|(_, entry)| (!entry.fixed, !entry.ours, entry.attempts))
            .map(|(peer, _)| *peer);
        worst.is_some_and(|peer| self.entries.remove(&peer).is_some())
    }
}

impl Entry {
    /// News come first, but for the address that works; what others say comes last.
    fn learn(&mut self, address: Multiaddr, word: Word) {
        if self.addresses.contains(&address) {
            return;
        }
        self.make_room();
        let place = match word {
            Word::Good => usize::from(self.is_connected()).min(self.addresses.len()),
            Word::Hearsay => self.addresses.len(),
        };
        self.addresses.insert(place, address);
    }

    /// Forgets what was learnt first, names last of all.
    fn make_room(&mut self) {
        while self.addresses.len() >= ADDRESSES_PER_PEER_MAX {
            let oldest = self.addresses.iter().rposition(|address| !is_name(address));
            self.addresses.remove(oldest.unwrap_or(self.addresses.len() - 1));
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected(_))
    }

    /// Doubling from the second attempt on, with a quarter of jitter to both sides.
    fn back_off(&self, rng: &mut Rng) -> Duration {
        let most = if self.bootstrap { BACK_OFF_BOOTSTRAP } else { BACK_OFF_MAX };
        let doublings = self.attempts.saturating_sub(1).min(6);
        let whole = BACK_OFF_MIN.saturating_mul(1 << doublings).min(most);
        let percent = u32::try_from(rng.range(75, 125)).unwrap_or(100);
        whole * percent / 100
    }
}

const BACK_OFF_MIN: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// Newcomers need it, and it has been made for being dialled.
const BACK_OFF_BOOTSTRAP: Duration = Duration::from_secs(15);
/// The same while nobody is up.
const BACK_OFF_ALONE: Duration = Duration::from_secs(5);
/// A connection that was up for so long was not refused.
const LASTING_TIME: Duration = Duration::from_secs(5);
/// How long a peer is left alone that has nothing for us.
const AVOID_TIME: Duration = Duration::from_secs(3600);
/// Peers that are dialled at once.
const DIALS_MAX: usize = 16;
/// Failures in a row after which a peer that nobody configured is forgotten: about a day.
const ATTEMPTS_MAX: u32 = 1500;
/// The same for a peer that only another peer spoke of.
const HEARSAY_ATTEMPTS_MAX: u32 = 6;
/// Peers that the next start is told of.
const CACHED_PEERS_MAX: usize = 2 * CONNECTED_PEERS_MAX;

#[cfg(test)]
mod tests;
