//! How bytes travel: QUIC, TCP with noise and yamux, names by DNS, and relays.

use std::sync::Arc;
use std::time::Duration;

use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::{Boxed, upgrade::Version};
use libp2p::identity::Keypair;
use libp2p::{PeerId, dns, noise, quic, relay, tcp, yamux};

use super::error::NetError;
use super::traffic::{Counted, Traffic};

/// A connection to a peer.
type Connection = (PeerId, StreamMuxerBox);

/// The transport of a node with this key, and the behaviour its relayed connections need.
pub(super) fn build(
    key: &Keypair,
    traffic: &Arc<Traffic>,
) -> Result<(Boxed<Connection>, relay::client::Behaviour), NetError> {
    let noise = noise::Config::new(key)
        .map_err(|error| NetError::Setup { part: "noise", reason: error.to_string() })?;
    let named = match dns::tokio::Transport::system(direct(key, &noise, traffic)) {
        Ok(named) => named.boxed(),
        // A machine without resolv.conf still knows addresses.
        Err(_) => direct(key, &noise, traffic).boxed(),
    };
    let (relayed, behaviour) = relay::client::new(key.public().to_peer_id());
    let relayed = relayed
        .upgrade(Version::V1Lazy)
        .authenticate(noise)
        .multiplex(yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    Ok((relayed.or_transport(named).map(|either, _| either.into_inner()).boxed(), behaviour))
}

fn direct(
    key: &Keypair,
    noise: &noise::Config,
    traffic: &Arc<Traffic>,
) -> impl libp2p::core::Transport<
    Output = Connection,
    Error: Send + Sync + 'static,
    Dial: Send + 'static,
    ListenerUpgrade: Send + 'static,
> + Send
+ Unpin
+ 'static {
    let tcp = tcp::tokio::Transport::new(tcp::Config::default())
        .upgrade(Version::V1Lazy)
        .authenticate(noise.clone())
        .multiplex(yamux::Config::default())
        // A machine that is off would be waited for for minutes.
        .timeout(HANDSHAKE_TIME)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let quic = quic::tokio::Transport::new(quic_config(key))
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let traffic = traffic.clone();
    // What a relay carries is counted where it enters this machine, so only here.
    quic.or_transport(tcp).map(move |either, _| {
        let (peer, muxer) = either.into_inner();
        (peer, StreamMuxerBox::new(Counted::new(muxer, traffic.clone())))
    })
}

fn quic_config(key: &Keypair) -> quic::Config {
    let mut config = quic::Config::new(key);
    config.max_stream_data = STREAM_WINDOW;
    config.max_connection_data = CONNECTION_WINDOW;
    config.handshake_timeout = HANDSHAKE_TIME;
    config.max_idle_timeout = 20_000;
    config.keep_alive_interval = Duration::from_secs(8);
    config
}

/// Within this time whoever is there has answered.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Bytes under way in one stream: 100 Mbit/s over a third of a second, and more.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
/// Bytes under way in one connection.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
