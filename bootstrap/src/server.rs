//! The event loop: what happens on the network, and what follows from it.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use std::{fmt::Display, io, pin::pin};

use atoll_protocol::wire::version::KAD_PROTOCOL;
use futures::StreamExt as _;
use libp2p::multiaddr::{Multiaddr, Protocol};
use libp2p::swarm::{ConnectionId, ListenError, Swarm, SwarmEvent};
use libp2p::{PeerId, identify, rendezvous};
use tokio::task::JoinHandle;

use crate::behaviour::{self, Behaviour, BehaviourEvent};
use crate::cli::Settings;
use crate::config::{self, StartError};
use crate::observe::Metrics;
use crate::policy::{self, Asked};

/// A server that has its ports. Peers are answered while [`Server::run`] is polled.
#[expect(missing_debug_implementations, reason = "a swarm has none")]
pub struct Server {
    /// Who this server is; the same after every restart.
    pub peer_id: PeerId,
    /// Where /metrics and /healthz answer.
    pub http: SocketAddr,
    answers: JoinHandle<io::Result<()>>,
    swarm: Swarm<Behaviour>,
    settings: Settings,
    metrics: Metrics,
    asked: Asked,
    /// Incoming connections, whose they are and where they come from.
    guests: BTreeMap<ConnectionId, (PeerId, IpAddr)>,
}

impl Server {
    /// Reads or makes the key and takes the ports. Needs a tokio runtime around it.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let mut swarm = behaviour::swarm(config::identity(&settings)?, &settings);
        for address in &settings.listen {
            let at = (policy::ip_of(address), address.iter().nth(1));
            // Asks for the port alone: the TCP transport would share it with its like.
            if let (Some(ip), Some(Protocol::Tcp(port))) = at
                && let Err(error) = TcpListener::bind((ip, port))
                && error.kind() == io::ErrorKind::AddrInUse
            {
                return Err(cannot_listen(address, error));
            }
        }
        for address in &settings.listen {
            match swarm.listen_on(address.clone()) {
                // Not every machine speaks IPv6, and the default must do on all.
                Err(error) if policy::ip_of(address) == Some(Ipv6Addr::UNSPECIFIED.into()) => {
                    tracing::warn!(%address, %error, "not listening");
                }
                listener => drop(listener.map_err(|error| cannot_listen(address, error))?),
            }
        }
        settings.external.iter().for_each(|address| swarm.add_external_address(address.clone()));
        let metrics = Metrics::default();
        let http = tokio::net::TcpListener::bind(settings.http).await;
        let listener = http.map_err(|error| cannot_listen(settings.http, error))?;
        let (http, peer_id) = (listener.local_addr()?, *swarm.local_peer_id());
        let answers = tokio::spawn(axum::serve(listener, metrics.router()).into_future());
        let (asked, guests) = Default::default();
        Ok(Self { peer_id, http, answers, swarm, settings, metrics, asked, guests })
    }

    /// Serves until `stop` is done, then lets every peer know by closing its connections.
    ///
    /// `tell` hears every address, complete with `/p2p/`, once it is known.
    pub async fn run(mut self, stop: impl Future<Output = ()>, mut tell: impl FnMut(Multiaddr)) {
        let peer = self.peer_id;
        let mut tell = |address: &Multiaddr| tell(address.clone().with(Protocol::P2p(peer)));
        self.settings.external.iter().for_each(&mut tell);
        let mut stop = pin!(stop);
        while let Some(event) = self.swarm.by_ref().take_until(stop.as_mut()).next().await {
            if let SwarmEvent::NewListenAddr { address, .. } = &event {
                tell(address);
            }
            self.on_swarm_event(event);
            let connections = self.swarm.network_info().connection_counters().num_established();
            self.metrics.connections.set(connections.into());
            self.metrics.listeners.set(self.swarm.listeners().count().try_into().unwrap_or(1));
        }
        self.answers.abort();
        let peers: Vec<PeerId> = self.swarm.connected_peers().copied().collect();
        tracing::info!(peers = peers.len(), "leaving");
        peers.into_iter().for_each(|peer| self.swarm.disconnect_peer_id(peer).unwrap_or_default());
        let closed = async {
            while self.swarm.network_info().num_peers() > 0 {
                self.swarm.select_next_some().await;
            }
        };
        // Those who do not answer in time find out by themselves.
        let _ = tokio::time::timeout(Duration::from_millis(500), closed).await;
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::NewListenAddr { address, .. } => {
                // Whoever listens on loopback by name wants to be found there.
                let named = |listen: &Multiaddr| listen.iter().next() == address.iter().next();
                let by_name = self.settings.listen.iter().any(named);
                if policy::dialable(&address, by_name, self.settings.announce_private) {
                    self.swarm.add_external_address(address);
                }
            }
            SwarmEvent::ExpiredListenAddr { address: old, .. } => {
                self.swarm.remove_external_address(&old)
            }
            SwarmEvent::ListenerClosed { addresses, reason, .. } => {
                tracing::warn!(?addresses, ?reason, "a listener closed");
                addresses.iter().for_each(|address| self.swarm.remove_external_address(address));
            }
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. }
                if endpoint.is_listener() =>
            {
                self.on_guest(peer_id, connection_id, endpoint.get_remote_address());
            }
            SwarmEvent::ConnectionClosed { connection_id, .. } => {
                self.guests.remove(&connection_id);
            }
            SwarmEvent::IncomingConnectionError { error: ListenError::Denied { .. }, .. } => {
                self.metrics.refused.inc();
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(event)) => self.on_identify(event),
            SwarmEvent::Behaviour(BehaviourEvent::Rendezvous(event)) => self.on_rendezvous(&event),
            SwarmEvent::Behaviour(BehaviourEvent::Relay(event)) => self.metrics.relay(&event),
            SwarmEvent::Behaviour(BehaviourEvent::Autonat(event)) => {
                // It makes us dial, which is the dearest thing one can ask.
                self.charge(event.client, ("dial_back", event.result.is_ok()), 8);
            }
            _ => {}
        }
    }

    fn on_guest(&mut self, peer: PeerId, connection: ConnectionId, address: &Multiaddr) {
        let network = policy::network_of(address);
        self.guests.insert(connection, (peer, network));
        let there = self.guests.values().filter(|(_, from)| *from == network).count();
        let crowded = there > self.settings.max_connections.div_ceil(4) as usize;
        if crowded || !self.asked.add(network, 1, Instant::now()) {
            self.metrics.refused.inc();
            self.swarm.close_connection(connection);
        }
    }

    fn on_identify(&mut self, event: identify::Event) {
        if let identify::Event::Received { peer_id, mut info, .. } = event
            && let Some(network) = self.charge(peer_id, ("identify", true), 1)
            && info.protocols.iter().any(|protocol| protocol.as_ref() == KAD_PROTOCOL)
        {
            let kad = &mut self.swarm.behaviour_mut().kad;
            // What it said before is forgotten, or its list could grow for ever.
            kad.remove_peer(&peer_id);
            let (local, private) = (network.is_loopback(), self.settings.announce_private);
            info.listen_addrs.retain(|address| policy::dialable(address, local, private));
            for address in info.listen_addrs.into_iter().take(policy::ADDRESSES_PER_PEER_MAX) {
                kad.add_address(&peer_id, address);
            }
        }
    }

    fn on_rendezvous(&mut self, event: &rendezvous::server::Event) {
        use rendezvous::server::Event;
        let (peer, what, cost) = match event {
            Event::PeerRegistered { peer, registration } => {
                self.metrics.registered(registration);
                // It stays, so it pays for its size.
                let bytes: usize = registration.record.addresses().iter().map(Multiaddr::len).sum();
                (peer, ("register", true), 1 + bytes / 64)
            }
            Event::DiscoverServed { enquirer, registrations } => {
                (enquirer, ("discover", true), 1 + registrations.len() / 16)
            }
            Event::PeerNotRegistered { peer, .. } => (peer, ("register", false), 1),
            Event::DiscoverNotServed { enquirer, .. } => (enquirer, ("discover", false), 1),
            Event::PeerUnregistered { .. } | Event::RegistrationExpired(_) => return,
        };
        self.charge(*peer, what, cost);
    }

    /// Puts what a request costs on the account of the network it came from, which is returned;
    /// or cuts the peer off, if that was too much.
    fn charge(&mut self, peer: PeerId, what: (&'static str, bool), cost: usize) -> Option<IpAddr> {
        self.metrics.request(what.0, what.1);
        let (_, network) = *self.guests.values().find(|(guest, _)| *guest == peer)?;
        if self.asked.add(network, cost, Instant::now()) {
            return Some(network);
        }
        tracing::warn!(%peer, %network, "asks too much, cut off");
        self.metrics.cut_off.inc();
        self.swarm.disconnect_peer_id(peer).ok()?;
        None
    }
}

fn cannot_listen(address: impl Display, error: impl Display) -> StartError {
    let hint = "is another server running here? --listen and --http choose other ports";
    StartError(format!("cannot listen on {address}: {error}"), hint)
}
