//! Finding peers, and being found: bootstraps, the hash table, the local network, relays.

mod asking;
pub(super) mod meeting;

use std::time::{Duration, Instant};

use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;
use libp2p::rendezvous::Namespace;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::{Multiaddr, PeerId, identify, kad, mdns, relay, rendezvous, upnp};

use self::asking::Asking;
use self::meeting::Meeting;
use super::super::address::{self, is_global};
use super::super::behaviour::{BehaviourEvent, KAD, Protocols};
use super::super::event::{How, Notice, Reachability};
use super::super::identity::node_of;
use super::super::status::NetStatus;
use super::Task;

/// Whom to ask for peers, and when.
#[derive(Debug)]
pub(super) struct Discovery {
    namespace: Namespace,
    key: kad::RecordKey,
    pub(super) meetings: Vec<Meeting>,
    unnamed: Vec<Unnamed>,
    pub(super) reachability: Reachability,
    /// The configuration says that we are reachable.
    promised: bool,
    /// We go again in a moment.
    visits: bool,
    table: Asking,
    provide_due: Instant,
}

/// An address of the configuration that does not say whom it leads to.
#[derive(Debug)]
struct Unnamed {
    address: Multiaddr,
    due: Instant,
    gap: Duration,
}

impl Discovery {
    pub(super) fn new(protocols: &Protocols, visits: bool, now: Instant) -> Self {
        let topic = protocols.topic.to_string();
        Self {
            key: kad::RecordKey::new(&topic),
            namespace: Namespace::new(topic).expect("64 characters"),
            meetings: Vec::new(),
            unnamed: Vec::new(),
            reachability: Reachability::Unknown,
            promised: false,
            visits,
            table: Asking::new(now),
            provide_due: now,
        }
    }

    /// Uses a bootstrap.
    pub(super) fn meet_at(&mut self, peer: PeerId, address: Multiaddr, now: Instant) {
        let quic = address.iter().any(|part| part == Protocol::QuicV1);
        match self.meetings.iter_mut().find(|meeting| meeting.peer == peer) {
            None => self.meetings.push(Meeting::new(peer, address, now)),
            // Of several addresses, the one that is dialled first.
            Some(meeting) if quic => meeting.address = address,
            Some(_) => {}
        }
    }

    /// Dials an address of which nobody knows whose it is.
    pub(super) fn try_unnamed(&mut self, address: Multiaddr, now: Instant) {
        self.unnamed.push(Unnamed { address, due: now, gap: Duration::from_secs(1) });
    }

    /// Somebody answered at this address; true if that was unknown.
    pub(super) fn named(&mut self, address: &Multiaddr) -> bool {
        let before = self.unnamed.len();
        self.unnamed.retain(|unnamed| {
            // The connection's address may have the peer's name added to it.
            !address.iter().zip(unnamed.address.iter()).all(|(one, other)| one == other)
        });
        self.unnamed.len() < before
    }

    /// The configuration says that we are reachable.
    pub(super) fn promised(&mut self) {
        self.reachability = Reachability::Public;
        self.promised = true;
    }

    /// Whether we go again in a moment.
    pub(super) fn visits(&self) -> bool {
        self.visits
    }

    pub(super) fn is_bootstrap(&self, peer: &PeerId) -> bool {
        self.meetings.iter().any(|meeting| meeting.peer == *peer)
    }

    /// What bootstraps and the hash table should know of us changed.
    pub(super) fn addresses_changed(&mut self, now: Instant) {
        self.provide_due = now;
        for meeting in &mut self.meetings {
            meeting.register_due = now;
        }
    }

    /// A relay accepts connections for us; true if that is news, and not one more address of it.
    pub(super) fn relay_listens(&mut self, listener: ListenerId) -> bool {
        let meeting = self.meetings.iter_mut().find(|it| it.listener == Some(listener));
        meeting.is_none_or(|meeting| !std::mem::replace(&mut meeting.told, true))
    }

    /// A listener is closed; true if it was a relay's.
    pub(super) fn relay_closed(&mut self, listener: ListenerId, now: Instant) -> bool {
        let meeting = self.meetings.iter_mut().find(|it| it.listener == Some(listener));
        meeting.is_some_and(|meeting| {
            meeting.relay_closed(now);
            true
        })
    }

    /// Adds what is known to the picture.
    pub(super) fn show(&self, status: &mut NetStatus) {
        status.reachability = self.reachability;
        status.bootstraps = self.meetings.iter().map(Meeting::status).collect();
        let relays = self.meetings.iter().filter(|meeting| meeting.reserved);
        status.relays = relays.map(|meeting| meeting.address.to_string()).collect();
    }
}

impl Task {
    /// Asks whoever may know of peers, when it is time.
    pub(super) fn discover(&mut self, alone: bool, now: Instant) {
        self.dial_unnamed(now);
        let visits = self.discovery.visits;
        let reachable = !visits && self.swarm.external_addresses().next().is_some();
        let wants_relay = !visits && self.discovery.reachability != Reachability::Public;
        for meeting in &mut self.discovery.meetings {
            if !meeting.connected {
                continue;
            }
            let namespace = self.discovery.namespace.clone();
            let rendezvous = &mut self.swarm.behaviour_mut().rendezvous;
            if meeting.rendezvous && reachable && now >= meeting.register_due {
                meeting.register_due = now + REGISTER_RETRY;
                if let Err(error) = rendezvous.register(namespace.clone(), meeting.peer, None) {
                    tracing::debug!(%error, "not registered");
                }
            }
            if meeting.rendezvous && meeting.discover.is_due(alone, now) {
                rendezvous.discover(Some(namespace), None, Some(DISCOVER_MAX), meeting.peer);
            }
            if meeting.relay
                && wants_relay
                && meeting.listener.is_none()
                && now >= meeting.relay_due
            {
                match self.swarm.listen_on(meeting.circuit()) {
                    Ok(listener) => meeting.listener = Some(listener),
                    Err(error) => {
                        tracing::debug!(%error, "no reservation");
                        meeting.relay_closed(now);
                    }
                }
            }
        }
        self.ask_table(alone, now);
    }

    /// A bootstrap said what it can do.
    pub(super) fn bootstrap_said(
        &mut self,
        peer: PeerId,
        info: &identify::Info,
        seen: &Multiaddr,
        now: Instant,
    ) {
        let Some(meeting) = self.discovery.meetings.iter_mut().find(|it| it.peer == peer) else {
            return;
        };
        let news = !meeting.connected;
        meeting.found(&info.protocols, now);
        self.book.answered(&peer);
        if news {
            // We may be somewhere else than when we were last seen.
            let known = self.swarm.external_addresses().any(|it| *it == info.observed_addr);
            if !known && !self.discovery.promised {
                self.discovery.reachability = Reachability::Unknown;
            }
            self.outbox.tell(Notice::BootstrapFound(meeting.address.to_string()));
            if info.protocols.contains(&KAD) {
                self.discovery.table = Asking::new(now);
                self.discovery.provide_due = now;
                self.swarm.behaviour_mut().kad.add_address(&peer, seen.clone());
            }
        }
    }

    pub(super) fn bootstrap_gone(&mut self, peer: &PeerId, now: Instant) {
        let meetings = &mut self.discovery.meetings;
        let meeting = meetings.iter_mut().find(|it| it.peer == *peer && it.connected);
        if let Some(meeting) = meeting {
            meeting.lost(now);
            self.outbox.tell(Notice::BootstrapLost(meeting.address.to_string()));
        }
    }

    /// Bootstraps need not send others to us any more.
    pub(super) fn unregister(&mut self) {
        for meeting in self.discovery.meetings.iter().filter(|it| it.connected && it.rendezvous) {
            let namespace = self.discovery.namespace.clone();
            self.swarm.behaviour_mut().rendezvous.unregister(namespace, meeting.peer);
        }
    }

    pub(super) fn on_discovery(&mut self, event: BehaviourEvent) {
        let now = Instant::now();
        match event {
            BehaviourEvent::Rendezvous(event) => self.on_rendezvous(event, now),
            BehaviourEvent::Kad(event) => self.on_table(event, now),
            BehaviourEvent::Mdns(mdns::Event::Discovered(found)) => {
                for (peer, address) in found {
                    self.learn(peer, address, How::Mdns, now);
                }
            }
            BehaviourEvent::Autonat(event) => self.on_dial_back(event, now),
            BehaviourEvent::Upnp(event) => {
                if let upnp::Event::NewExternalAddr { external_addr, .. } = event
                    && is_global(&external_addr)
                {
                    self.reachability(Reachability::Public, now);
                }
            }
            BehaviourEvent::Relay(relay::client::Event::ReservationReqAccepted {
                relay_peer_id,
                renewal: false,
                ..
            }) => {
                let meetings = &mut self.discovery.meetings;
                if let Some(meeting) = meetings.iter_mut().find(|it| it.peer == relay_peer_id) {
                    meeting.reserved();
                }
            }
            BehaviourEvent::Dcutr(event) => self.on_hole_punch(event),
            _ => {}
        }
    }

    fn on_rendezvous(&mut self, event: rendezvous::client::Event, now: Instant) {
        use rendezvous::client::Event;
        match event {
            Event::Discovered { registrations, .. } => {
                for registration in registrations {
                    let peer = registration.record.peer_id();
                    for address in registration.record.addresses() {
                        self.learn(peer, address.clone(), How::Rendezvous, now);
                    }
                }
            }
            Event::Registered { rendezvous_node, ttl, .. } => {
                let mut meetings = self.discovery.meetings.iter_mut();
                if let Some(meeting) = meetings.find(|it| it.peer == rendezvous_node) {
                    meeting.register_due = now + Duration::from_secs(ttl.min(DAY) / 2);
                }
            }
            Event::DiscoverFailed { error, .. } => tracing::debug!(?error, "no word of peers"),
            Event::RegisterFailed { error, .. } => tracing::debug!(?error, "not registered"),
            Event::Expired { .. } => {}
        }
    }

    fn ask_table(&mut self, alone: bool, now: Instant) {
        let kad = &mut self.swarm.behaviour_mut().kad;
        if kad.kbuckets().next().is_none() {
            return;
        }
        if !self.discovery.visits && now >= self.discovery.provide_due {
            self.discovery.provide_due = now + PROVIDE_INTERVAL;
            if let Err(error) = kad.start_providing(self.discovery.key.clone()) {
                tracing::debug!(%error, "not in the hash table");
            }
        }
        if self.discovery.table.is_due(alone, now) {
            kad.get_providers(self.discovery.key.clone());
        }
    }

    fn on_table(&mut self, event: kad::Event, now: Instant) {
        let kad::Event::OutboundQueryProgressed { result, .. } = event else { return };
        let kad::QueryResult::GetProviders(Ok(kad::GetProvidersOk::FoundProviders {
            providers,
            ..
        })) = result
        else {
            return;
        };
        let own = *self.swarm.local_peer_id();
        let mut providers: Vec<PeerId> = providers.into_iter().collect();
        providers.sort_unstable();
        for peer in providers.into_iter().take(PROVIDERS_MAX) {
            if self.book.knows(&peer) {
                self.book.hurry(&peer, now);
                continue;
            }
            if peer == own || self.penalties.blocks(&peer) {
                continue;
            }
            if let Some(node) = node_of(&peer) {
                self.outbox.tell(Notice::Discovered { node, how: How::Kad });
            }
            // The table knows where; once connected, we do, too.
            let options = DialOpts::peer_id(peer);
            let options = options.condition(PeerCondition::DisconnectedAndNotDialing).build();
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "in the hash table, but not to be dialled");
            }
        }
    }

    fn dial_unnamed(&mut self, now: Instant) {
        for unnamed in &mut self.discovery.unnamed {
            if now < unnamed.due {
                continue;
            }
            unnamed.due = now + unnamed.gap;
            unnamed.gap = (unnamed.gap * 2).min(Duration::from_secs(60));
            let options = DialOpts::unknown_peer_id().address(unnamed.address.clone()).build();
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(address = %unnamed.address, %error, "cannot be dialled");
            }
        }
    }
}

/// The address at which a relay is asked to accept connections for us.
fn circuit(relay: &Multiaddr, peer: PeerId) -> Multiaddr {
    address::to_peer(relay, peer).with(Protocol::P2pCircuit)
}

/// Seconds; a bootstrap that promises more is asked again all the same.
const DAY: u64 = 86_400;
const REGISTER_RETRY: Duration = Duration::from_secs(30);
const PROVIDE_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// Peers a bootstrap is asked for.
const DISCOVER_MAX: u64 = 64;
/// Peers of one answer of the hash table that are dialled.
const PROVIDERS_MAX: usize = 32;
