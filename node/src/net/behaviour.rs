//! Everything a node speaks, in one behaviour.

use std::time::Duration;

use atoll_protocol::id::RunId;
use atoll_protocol::limits::{CONNECTED_PEERS_MAX, CONNECTIONS_PER_PEER_MAX};
use atoll_protocol::wire::version::{IDENTIFY_PROTOCOL, KAD_PROTOCOL};
use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::gossipsub::{self, IdentTopic};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{
    PeerId, StreamProtocol, autonat, connection_limits, dcutr, identify, kad, mdns,
    memory_connection_limits, ping, relay, rendezvous, upnp,
};

use super::error::NetError;
use super::gossip;
use super::message::{self, Messages};
use super::observed::Observed;

/// What a node speaks with peers of its run, and with the bootstrap.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
pub(super) struct Behaviour {
    // First those that may refuse a connection.
    blocked: allow_block_list::Behaviour<BlockedPeers>,
    limits: connection_limits::Behaviour,
    memory: memory_connection_limits::Behaviour,
    pub(super) gossip: gossipsub::Behaviour,
    pub(super) messages: Messages,
    pub(super) streams: libp2p_stream::Behaviour,
    pub(super) identify: identify::Behaviour,
    pub(super) observed: Observed,
    pub(super) ping: ping::Behaviour,
    pub(super) kad: kad::Behaviour<kad::store::MemoryStore>,
    pub(super) rendezvous: rendezvous::client::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
    pub(super) upnp: Toggle<upnp::tokio::Behaviour>,
    /// Asks only: who tries an address is drawn, and each is tried once. Were nodes to offer it, one
    /// next door might be drawn, whose word says nothing of the outside.
    autonat: autonat::v2::client::Behaviour,
    relay: relay::client::Behaviour,
    dcutr: dcutr::Behaviour,
}

/// Which of the parts that speak without being asked are on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Toggles {
    pub(super) mdns: bool,
    pub(super) upnp: bool,
}

impl Behaviour {
    /// The behaviour of a node with this key in this run.
    pub(super) fn new(
        key: &Keypair,
        protocols: &Protocols,
        relay: relay::client::Behaviour,
        toggles: Toggles,
    ) -> Result<Self, NetError> {
        let peer = key.public().to_peer_id();
        let mdns = match toggles.mdns {
            // A machine without multicast has no mDNS; that is no reason not to train.
            true => mdns::tokio::Behaviour::new(mdns_config(), peer).ok(),
            false => None,
        };
        Ok(Self {
            blocked: allow_block_list::Behaviour::default(),
            limits: connection_limits::Behaviour::new(connection_limits()),
            memory: memory_connection_limits::Behaviour::with_max_percentage(MEMORY_SHARE),
            gossip: gossip::gossip(&protocols.topic)?,
            messages: message::messages(protocols.message.clone()),
            streams: libp2p_stream::Behaviour::new(),
            identify: identify::Behaviour::new(
                identify::Config::new(IDENTIFY_PROTOCOL.to_owned(), key.public())
                    .with_agent_version(AGENT.to_owned())
                    .with_push_listen_addr_updates(true),
            ),
            observed: Observed::default(),
            ping: ping::Behaviour::new(ping::Config::new().with_interval(PING_INTERVAL)),
            kad: kad(peer),
            rendezvous: rendezvous::client::Behaviour::new(key.clone()),
            mdns: mdns.into(),
            upnp: toggles.upnp.then(upnp::tokio::Behaviour::default).into(),
            autonat: autonat::v2::client::Behaviour::default(),
            relay,
            dcutr: dcutr::Behaviour::new(peer),
        })
    }

    /// Closes all connections with a peer and accepts none.
    pub(super) fn block(&mut self, peer: PeerId) {
        self.blocked.block_peer(peer);
    }

    /// Speaks to a peer again.
    pub(super) fn unblock(&mut self, peer: PeerId) {
        self.blocked.unblock_peer(peer);
    }

    /// Connections with this peer are not counted against the limits.
    pub(super) fn always(&mut self, peer: &PeerId) {
        self.limits.bypass_peer_id(peer);
    }
}

/// The names under which a run's nodes speak to each other.
#[derive(Clone, Debug)]
pub(super) struct Protocols {
    pub(super) message: StreamProtocol,
    pub(super) content: StreamProtocol,
    pub(super) topic: IdentTopic,
}

impl Protocols {
    /// The names of a run.
    pub(super) fn of(run: RunId) -> Self {
        let hex = run.to_hex();
        let run = &hex[..16];
        let name = |what: &str, version: u8| {
            let name = format!("/atoll/{run}/{what}/{version}");
            StreamProtocol::try_from_owned(name).expect("it begins with a slash")
        };
        Self {
            message: name("message", 1),
            content: name("content", 2),
            topic: IdentTopic::new(run),
        }
    }
}

fn connection_limits() -> connection_limits::ConnectionLimits {
    let most = u32::try_from(2 * CONNECTED_PEERS_MAX).expect("a small number");
    connection_limits::ConnectionLimits::default()
        .with_max_pending_incoming(Some(most))
        .with_max_pending_outgoing(Some(most))
        .with_max_established_incoming(Some(most))
        .with_max_established(Some(2 * most))
        .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER_MAX))
}

fn kad(peer: PeerId) -> kad::Behaviour<kad::store::MemoryStore> {
    let mut config = kad::Config::new(KAD);
    config.set_query_timeout(Duration::from_secs(30));
    // Peers are looked for when they are needed, and a table without any cannot be refreshed.
    config.set_periodic_bootstrap_interval(None);
    // Only providers are ever stored, and few of them.
    let store = kad::store::MemoryStoreConfig {
        max_records: 0,
        max_provided_keys: 256,
        ..kad::store::MemoryStoreConfig::default()
    };
    let store = kad::store::MemoryStore::with_config(peer, store);
    kad::Behaviour::with_config(peer, store, config)
}

fn mdns_config() -> mdns::Config {
    mdns::Config { query_interval: Duration::from_secs(60), ..mdns::Config::default() }
}

/// The hash table's protocol, shared by all runs because the bootstrap is.
pub(super) const KAD: StreamProtocol = StreamProtocol::new(KAD_PROTOCOL);
const AGENT: &str = concat!("atoll/", env!("CARGO_PKG_VERSION"));
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Share of the machine's memory past which no connection is accepted.
const MEMORY_SHARE: f64 = 0.95;
