//! A peer that gives the right outline, and then other bytes or hardly any.

use std::time::Duration;

use atoll_protocol::crypto::Outline;
use futures::StreamExt as _;
use futures::io::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::swarm::{self, NetworkBehaviour, SwarmEvent};
use libp2p::{Stream, StreamProtocol, Swarm, Transport as _, identify, quic};

use crate::support::RUN;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct Liar {
    identify: identify::Behaviour,
    streams: libp2p_stream::Behaviour,
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vice {
    /// It sends other bytes.
    Lies,
    /// It sends a few bytes now and then, just enough not to be given up.
    Trickles,
}

/// Starts a liar; returns its address.
pub(crate) async fn start(secret: u8, content: Vec<u8>, vice: Vice) -> String {
    let key = atoll_protocol::crypto::Key::from_secret([secret; 32]).keypair();
    let peer = key.public().to_peer_id();
    let transport = quic::tokio::Transport::new(quic::Config::new(&key))
        .map(|(peer, muxer), _| (peer, libp2p::core::muxing::StreamMuxerBox::new(muxer)))
        .boxed();
    let streams = libp2p_stream::Behaviour::new();
    let mut control = streams.new_control();
    let name = |what: &str| {
        StreamProtocol::try_from_owned(format!("/atoll/{}/{what}", &RUN.to_hex()[..16])).unwrap()
    };
    let mut messages = control.accept(name("message/1")).unwrap();
    let mut contents = control.accept(name("content/2")).unwrap();
    let identify = identify::Behaviour::new(identify::Config::new("/atoll/1".into(), key.public()));
    let config =
        swarm::Config::with_tokio_executor().with_idle_connection_timeout(Duration::from_secs(600));
    let mut swarm = Swarm::new(transport, Liar { identify, streams }, peer, config);
    swarm.listen_on("/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()).unwrap();
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address;
        }
    };
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = swarm.select_next_some() => {}
                _ = messages.next() => {}
                Some((_, stream)) = contents.next() => {
                    let content = content.clone();
                    // The fetching side ends the stream whenever it likes.
                    tokio::spawn(async move { lie(stream, content, vice).await.ok() });
                }
            }
        }
    });
    format!("{address}/p2p/{peer}")
}

async fn lie(mut stream: Stream, mut content: Vec<u8>, vice: Vice) -> std::io::Result<()> {
    let outline = Outline::of(&content);
    for byte in content.iter_mut().skip(1000).step_by(100_000).filter(|_| vice == Vice::Lies) {
        *byte ^= 1;
    }
    loop {
        let mut request = [0; 41];
        stream.read_exact(&mut request).await?;
        let answer = match request[0] {
            1 => outline.to_bytes(),
            6 => content.clone(),
            _ => {
                let number =
                    |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
                let (first, count) = (number(33), number(37));
                let (start, end) =
                    (outline.range(first).start, outline.range(first + count - 1).end);
                content[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()].to_vec()
            }
        };
        stream.write_all(&[1]).await?;
        stream.write_all(&(answer.len() as u64).to_le_bytes()).await?;
        match vice {
            Vice::Trickles if request[0] != 1 => {
                for drop in answer.chunks(3000) {
                    stream.write_all(drop).await?;
                    stream.flush().await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            _ => stream.write_all(&answer).await?,
        }
        stream.flush().await?;
    }
}
