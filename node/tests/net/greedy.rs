//! A peer that asks for a lot at once and takes none of it.

use std::time::Duration;

use atoll_protocol::id::ContentId;
use futures::StreamExt as _;
use futures::io::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{self, SwarmEvent};
use libp2p::{Multiaddr, Stream, StreamProtocol, Swarm, Transport as _, quic};

use crate::support::RUN;

/// Asks for the beginning of `content` over so many streams, and waits for an answer to each.
pub(crate) async fn start(secret: u8, whom: &str, content: ContentId, count: usize) -> Vec<Stream> {
    let key = atoll_protocol::crypto::Key::from_secret([secret; 32]).keypair();
    let mut settings = quic::Config::new(&key);
    // Little comes before it is read, and it never is.
    settings.max_stream_data = 32 * 1024;
    let transport = quic::tokio::Transport::new(settings)
        .map(|(peer, muxer), _| (peer, libp2p::core::muxing::StreamMuxerBox::new(muxer)))
        .boxed();
    let behaviour = libp2p_stream::Behaviour::new();
    let mut control = behaviour.new_control();
    let config =
        swarm::Config::with_tokio_executor().with_idle_connection_timeout(Duration::from_secs(600));
    let mut swarm = Swarm::new(transport, behaviour, key.public().to_peer_id(), config);
    let address: Multiaddr = whom.parse().unwrap();
    let Some(Protocol::P2p(peer)) = address.iter().last() else { panic!("{address} is nobody's") };
    swarm.dial(address).unwrap();
    while !matches!(swarm.select_next_some().await, SwarmEvent::ConnectionEstablished { .. }) {}
    tokio::spawn(async move { while swarm.next().await.is_some() {} });
    let name = format!("/atoll/{}/content/2", &RUN.to_hex()[..16]);
    let name = StreamProtocol::try_from_owned(name).unwrap();
    let mut request = [0; 41];
    request[0] = 2;
    request[1..33].copy_from_slice(&content.0);
    request[37] = 16;
    let mut streams = Vec::new();
    for _ in 0..100 * count {
        if streams.len() == count {
            break;
        }
        let mut stream = control.open_stream(peer, name.clone()).await.unwrap();
        // Whoever knocks while another is let in is turned away, and knocks again.
        if stream.write_all(&request).await.is_ok() && stream.flush().await.is_ok() {
            streams.push(stream);
        }
    }
    let mut answered = Vec::new();
    for mut stream in streams {
        if stream.read_exact(&mut [0; 9]).await.is_ok() {
            answered.push(stream);
        }
    }
    assert!(answered.len() > count / 2, "{} of {count} were let in", answered.len());
    answered
}
