//! What the server speaks, and over what.

use atoll_protocol::wire::version::{IDENTIFY_PROTOCOL, KAD_PROTOCOL};
use libp2p::identity::Keypair;
use libp2p::swarm::{NetworkBehaviour, StreamProtocol, Swarm};
use libp2p::{
    SwarmBuilder, autonat, connection_limits, identify, kad, memory_connection_limits, noise, ping,
    relay, rendezvous, tcp, yamux,
};

use crate::cli::Settings;
use crate::policy;

/// Those that refuse come first: what they refuse costs the others nothing.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    connections: connection_limits::Behaviour,
    memory: memory_connection_limits::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    pub(crate) kad: kad::Behaviour<kad::store::MemoryStore>,
    rendezvous: rendezvous::server::Behaviour,
    relay: relay::Behaviour,
    autonat: autonat::v2::server::Behaviour,
}

fn behaviour(key: &Keypair, settings: &Settings) -> Behaviour {
    let peer = key.public().to_peer_id();
    // Without the private key: a record of our addresses would be something signed.
    let identify = identify::Config::new(IDENTIFY_PROTOCOL.into(), key.public())
        .with_agent_version(concat!("atoll-bootstrap/", env!("CARGO_PKG_VERSION")).into())
        // A dial-back must reach the address in question, not another one we know.
        .with_cache_size(0)
        // What nodes may know is among the external addresses.
        .with_hide_listen_addrs(true);
    let mut routing = kad::Config::new(StreamProtocol::new(KAD_PROTOCOL));
    // It tells who is where; records and providers are taken from nobody.
    routing.set_record_filtering(kad::StoreInserts::FilterBoth);
    routing.set_periodic_bootstrap_interval(None);
    let mut kad = kad::Behaviour::with_config(peer, kad::store::MemoryStore::new(peer), routing);
    kad.set_mode(Some(kad::Mode::Server));
    Behaviour {
        connections: connection_limits::Behaviour::new(policy::connections(settings)),
        memory: memory_connection_limits::Behaviour::with_max_bytes(policy::MEMORY_BYTES_MAX),
        identify: identify::Behaviour::new(identify),
        ping: ping::Behaviour::default(),
        kad,
        rendezvous: rendezvous::server::Behaviour::new(policy::rendezvous()),
        relay: relay::Behaviour::new(peer, policy::relay(settings)),
        autonat: autonat::v2::server::Behaviour::default(),
    }
}

/// A swarm that does not listen yet. Needs a tokio runtime around it.
pub(crate) fn swarm(key: Keypair, settings: &Settings) -> Swarm<Behaviour> {
    SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
        .expect("an ed25519 key signs the session keys")
        .with_quic()
        .with_behaviour(|key| behaviour(key, settings))
        .expect("making the behaviour cannot fail")
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(policy::IDLE))
        .build()
}
