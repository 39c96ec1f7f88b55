//! Connections: who comes and goes, whom to dial, which connections to keep.

use std::error::Error;
use std::time::{Duration, Instant};

use atoll_protocol::limits::ADDRESSES_PER_PEER_MAX;
use libp2p::core::ConnectedPoint;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError, SwarmEvent};
use libp2p::{Multiaddr, PeerId, identify, ping};

use super::super::address::{is_relayed, is_worth_dialling, udp_of};
use super::super::behaviour::{BehaviourEvent, KAD};
use super::super::book::Word;
use super::super::event::{How, NetEvent, Notice};
use super::super::identity::node_of;
use super::super::status::Way;
use super::Task;
use super::peers::{Kind, Link, Peer};

impl Task {
    pub(super) fn on_connection(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let now = Instant::now();
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.connected(peer_id, connection_id, &endpoint, now);
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, num_established, .. } => {
                self.closed(peer_id, connection_id, num_established == 0, now);
            }
            SwarmEvent::OutgoingConnectionError { peer_id, error, .. } => {
                self.dial_failed(peer_id, &error, now);
            }
            event => self.on_listening(event, now),
        }
    }

    pub(super) fn dial(&mut self, peer: PeerId, addresses: Vec<Multiaddr>, now: Instant) {
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            // The hash table may know more.
            .extend_addresses_through_behaviour()
            .build();
        if let Err(error) = self.swarm.dial(options) {
            self.dial_failed(Some(peer), &error, now);
        }
    }

    pub(super) fn on_identify(&mut self, event: identify::Event) {
        let identify::Event::Received { connection_id, peer_id, info } = event else { return };
        let now = Instant::now();
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let link = peer.links.iter_mut().find(|link| link.id == connection_id);
        let Some(link) = link else { return };
        let seen = link.address.clone();
        link.observed = Some(info.observed_addr.clone());
        if link.dialled && !link.is_relayed() && udp_of(&info.observed_addr).is_some() {
            self.swarm.behaviour_mut().observed.at(info.observed_addr.clone(), now);
        }
        let first = peer.kind == Kind::Unknown;
        let ours = peer.node.is_some() && info.protocols.contains(&self.protocols.message);
        peer.kind = match ours {
            true => Kind::Ours,
            false if self.discovery.is_bootstrap(&peer_id) => Kind::Bootstrap,
            false => Kind::Stranger,
        };
        let kind = peer.kind;
        if self.discovery.is_bootstrap(&peer_id) {
            self.bootstrap_said(peer_id, &info, &seen, now);
        }
        if kind != Kind::Stranger {
            self.learn_own(peer_id, &info, &seen, now);
        }
        if ours {
            self.book.connected(&peer_id, None, now);
            self.book.answered(&peer_id);
            self.book.ours(&peer_id);
            if first {
                self.rescore(peer_id, now);
            }
            self.raise(peer_id, now);
        }
    }

    /// Tells the driver of a peer, once it can be spoken to.
    pub(super) fn raise(&mut self, peer: PeerId, now: Instant) {
        let peer = self.peers.get(&peer).filter(|peer| peer.is_ready(now));
        let Some(node) = peer.and_then(|peer| peer.node) else { return };
        if self.up.send_if_modified(|up| up.insert(node)) {
            self.outbox.push(NetEvent::PeerUp(node));
        }
    }

    pub(super) fn on_ping(&mut self, event: ping::Event) {
        let Some(peer) = self.peers.get_mut(&event.peer) else { return };
        let Some(link) = peer.links.iter_mut().find(|link| link.id == event.connection) else {
            return;
        };
        match event.result {
            Ok(rtt) => {
                link.missed_pings = 0;
                peer.rtt = Some(rtt);
            }
            Err(ping::Failure::Unsupported) => {}
            Err(_) => {
                link.missed_pings += 1;
                if link.missed_pings >= MISSED_PINGS_MAX {
                    self.swarm.close_connection(event.connection);
                }
            }
        }
    }

    /// Closes connections that are no longer needed, and those to peers that have nothing for us.
    pub(super) fn close_spare(&mut self, now: Instant) {
        let own = *self.swarm.local_peer_id();
        let mut spare = Vec::new();
        let mut strangers = Vec::new();
        for (id, peer) in &self.peers {
            let age = now.saturating_duration_since(peer.since);
            match peer.kind {
                Kind::Stranger if age > STRANGER_TIME => strangers.push(*id),
                Kind::Unknown if age > SILENT_TIME => strangers.push(*id),
                _ => spare.extend(peer.spare(own, *id, now)),
            }
        }
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.raise(peer, now);
        }
        for connection in spare {
            self.swarm.close_connection(connection);
        }
        for peer in strangers {
            self.book.avoid(&peer, now);
            // An error only says that it is gone already.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
    }

    /// Takes note of an address; tells people of a peer they have not heard of.
    pub(super) fn learn(&mut self, peer: PeerId, address: Multiaddr, how: How, now: Instant) {
        if peer == *self.swarm.local_peer_id() || self.penalties.blocks(&peer) {
            return;
        }
        let word = if how == How::Peer { Word::Hearsay } else { Word::Good };
        if self.book.learn(peer, address, word, now)
            && let Some(node) = node_of(&peer)
        {
            self.outbox.tell(Notice::Discovered { node, how });
        }
    }

    fn connected(
        &mut self,
        id: PeerId,
        connection: ConnectionId,
        endpoint: &ConnectedPoint,
        now: Instant,
    ) {
        let address = endpoint.get_remote_address().clone();
        let relayed = endpoint.is_relayed();
        tracing::debug!(peer = %id, %address, dialled = endpoint.is_dialer(), "connected");
        let known = self.peers.get(&id);
        // Of the connections that both dial to come off the relay, one is told to be the one, and
        // maybe only at one end. Any may be kept.
        let punched = known.is_some_and(|it| it.links.iter().any(|it| it.way != Way::Direct));
        let link = Link {
            id: connection,
            address: address.clone(),
            way: match (relayed, punched) {
                (true, _) => Way::Relayed,
                (false, true) => Way::HolePunched,
                (false, false) => Way::Direct,
            },
            dialled: endpoint.is_dialer(),
            observed: None,
            since: now,
            missed_pings: 0,
        };
        let peer = self.peers.entry(id).or_insert_with(|| Peer {
            node: node_of(&id),
            links: Vec::new(),
            kind: Kind::Unknown,
            listens: false,
            since: now,
            // Others may be about to connect to it, too.
            ask_due: now + ASK_DELAY,
            rtt: None,
            skew_ms: None,
        });
        peer.links.push(link);
        if endpoint.is_dialer() {
            if self.discovery.named(&address) {
                self.learn(id, address.clone(), How::Configured, now);
                self.book.fix(&id, false);
            }
            self.book.connected(&id, (!relayed).then_some(&address), now);
        } else {
            self.book.connected(&id, None, now);
        }
        self.count_connections();
    }

    fn closed(&mut self, id: PeerId, connection: ConnectionId, last: bool, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.links.retain(|link| link.id != connection);
        }
        if last {
            let stranger = self.peers.get(&id).is_some_and(|peer| peer.kind == Kind::Stranger);
            if stranger || self.penalties.blocks(&id) {
                self.book.avoid(&id, now);
            } else {
                self.book.disconnected(&id, now);
            }
            if let Some(node) = self.peers.remove(&id).and_then(|peer| peer.node)
                && self.up.send_if_modified(|up| up.remove(&node))
            {
                self.outbox.push(NetEvent::PeerDown(node));
            }
            self.bootstrap_gone(&id, now);
        }
        self.count_connections();
    }

    fn dial_failed(&mut self, peer: Option<PeerId>, error: &DialError, now: Instant) {
        let Some(peer) = peer else {
            tracing::debug!(%error, "an address did not answer");
            return;
        };
        if let DialError::WrongPeerId { address, .. } | DialError::LocalPeerId { address } = error {
            self.book.wrong(&peer, address);
        }
        let attempts = self.book.failed(&peer, now);
        if attempts == 1 || attempts.is_multiple_of(TELL_EVERY) && attempts > 0 {
            let address = self.book.addresses(&peer).first();
            let address = address.map_or_else(|| peer.to_string(), ToString::to_string);
            self.outbox.tell(Notice::Unreachable { address, reason: reason(error) });
        }
    }

    /// Takes note of the addresses a peer says it has, which are all.
    fn learn_own(&mut self, peer: PeerId, info: &identify::Info, seen: &Multiaddr, now: Instant) {
        let all = info.listen_addrs.iter().filter(|it| is_worth_dialling(it, seen));
        let all: Vec<Multiaddr> = all.take(ADDRESSES_PER_PEER_MAX).cloned().collect();
        let Some(first) = all.first() else { return };
        self.learn(peer, first.clone(), How::Inbound, now);
        let links = self.peers.get(&peer).into_iter().flat_map(|peer| &peer.links);
        let mut works = links.filter(|link| link.dialled && !link.is_relayed());
        self.book.replace(&peer, &all, works.next().map(|link| &link.address));
        if info.protocols.contains(&KAD) {
            for address in all.into_iter().filter(|it| !is_relayed(it)) {
                self.swarm.behaviour_mut().kad.add_address(&peer, address);
            }
        }
    }

    /// gossipsub may have forgotten what we hold against a peer that comes back.
    fn rescore(&mut self, peer: PeerId, now: Instant) {
        let points = self.penalties.of(&peer, now);
        self.swarm.behaviour_mut().gossip.set_application_score(&peer, -points);
    }

    fn count_connections(&self) {
        let connections = self.peers.values().map(|peer| peer.links.len()).sum();
        self.traffic.connections.store(connections, std::sync::atomic::Ordering::Relaxed);
    }
}

/// An error with its causes, on one line.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    if let Some(DialError::Transport(tries)) = error.downcast_ref::<DialError>() {
        let tries = tries.iter().map(|(_, error)| root(error));
        let mut tries: Vec<String> = tries.collect();
        tries.sort_unstable();
        tries.dedup();
        return tries.join(", ");
    }
    root(error)
}

fn root(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string().trim_end_matches(['.', '\n']).to_lowercase()
}

/// How long after it came a peer is asked for its peers.
const ASK_DELAY: Duration = Duration::from_secs(2);
const MISSED_PINGS_MAX: u32 = 3;
/// A stranger may just be answering a question about others.
const STRANGER_TIME: Duration = Duration::from_secs(15);
const SILENT_TIME: Duration = Duration::from_secs(40);
/// People are told of every so many failures.
const TELL_EVERY: u32 = 20;
