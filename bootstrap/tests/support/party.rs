//! A bootstrap server and the peers that meet at it, all on loopback, on ports the system chose.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]
#![allow(dead_code, reason = "not every test uses all of it")]

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use atoll_bootstrap::config;
use atoll_bootstrap::server::Server;
use atoll_protocol::wire::version::{IDENTIFY_PROTOCOL, KAD_PROTOCOL};
use futures::StreamExt as _;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, autonat, identify, kad, noise, relay,
    rendezvous, tcp, yamux,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct Host {
    pub(crate) peer: PeerId,
    pub(crate) tcp: Multiaddr,
    pub(crate) quic: Multiaddr,
    pub(crate) http: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Host {
    /// Starts a server with its key in `folder`.
    pub(crate) async fn start(folder: &Path, options: &[&str]) -> Self {
        let key = folder.join("bootstrap.key");
        let arguments = ["bootstrap", "--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]
            .into_iter()
            .chain(["--listen", "/ip4/127.0.0.1/udp/0/quic-v1", "--key", key.to_str().unwrap()])
            .chain(options.iter().copied());
        let settings = config::settings(arguments.map(Into::into).collect()).unwrap();
        let server = Server::start(settings).await.unwrap();
        let (peer, http) = (server.peer_id, server.http);
        let (stop, stopped) = oneshot::channel();
        let (tell, mut told) = mpsc::channel(16);
        let stopped = async { stopped.await.unwrap_or_default() };
        // Nobody may be listening any more when it finds one more address.
        let task = tokio::spawn(server.run(stopped, move |address| drop(tell.try_send(address))));
        let (mut tcp, mut quic) = (None, None);
        while tcp.is_none() || quic.is_none() {
            let address = told.recv().await.unwrap();
            // What `--external` says is told, too, and cannot be dialled from here.
            match address.iter().collect::<Vec<_>>()[..] {
                [Protocol::Ip4(_), Protocol::Tcp(_), ..] => tcp = Some(address),
                [Protocol::Ip4(_), Protocol::Udp(_), ..] => quic = Some(address),
                _ => {}
            }
        }
        Self { peer, tcp: tcp.unwrap(), quic: quic.unwrap(), http, stop, task }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        soon(self.task).await.unwrap();
    }

    /// The body of a page; its status line is checked.
    pub(crate) async fn page(&self, path: &'static str) -> String {
        let http = self.http;
        tokio::task::spawn_blocking(move || fetch(http, path)).await.unwrap()
    }

    /// Waits until the metrics say all of `lines`: a guest may hear of what the server did
    /// before the server has counted it.
    pub(crate) async fn counts(&self, lines: &[&str]) {
        let mut metrics = String::new();
        for _ in 0..200 {
            metrics = self.page("/metrics").await;
            if lines.iter().all(|line| metrics.contains(&format!("{line}\n"))) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("never {lines:?}, but\n{metrics}");
    }
}

/// A page of an HTTP server.
pub(crate) fn fetch(address: SocketAddr, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    text
}

/// What a node speaks, as far as it concerns a bootstrap server.
#[derive(NetworkBehaviour)]
pub(crate) struct Speech {
    pub(crate) identify: identify::Behaviour,
    pub(crate) rendezvous: rendezvous::client::Behaviour,
    pub(crate) kad: kad::Behaviour<kad::store::MemoryStore>,
    pub(crate) relay: relay::client::Behaviour,
    pub(crate) autonat: autonat::v2::client::Behaviour,
    pub(crate) stream: libp2p_stream::Behaviour,
}

type Errand = Box<dyn FnOnce(&mut Swarm<Speech>) + Send>;

/// A node that lives in a task of its own.
pub(crate) struct Guest {
    pub(crate) peer: PeerId,
    pub(crate) streams: libp2p_stream::Control,
    errands: mpsc::Sender<Errand>,
    events: mpsc::Receiver<SwarmEvent<SpeechEvent>>,
}

impl Guest {
    /// A node that listens on TCP and QUIC.
    pub(crate) async fn new() -> Self {
        let mut swarm = SwarmBuilder::with_new_identity()
            .with_tokio()
            .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
            .unwrap()
            .with_quic()
            .with_relay_client(noise::Config::new, yamux::Config::default)
            .unwrap()
            .with_behaviour(|key, relay| {
                let peer = key.public().to_peer_id();
                let routing = kad::Config::new(StreamProtocol::new(KAD_PROTOCOL));
                let store = kad::store::MemoryStore::new(peer);
                let mut kad = kad::Behaviour::with_config(peer, store, routing);
                kad.set_mode(Some(kad::Mode::Server));
                let identity = identify::Config::new(IDENTIFY_PROTOCOL.into(), key.public());
                Speech {
                    identify: identify::Behaviour::new(identity),
                    rendezvous: rendezvous::client::Behaviour::new(key.clone()),
                    kad,
                    relay,
                    autonat: autonat::v2::client::Behaviour::default(),
                    stream: libp2p_stream::Behaviour::new(),
                }
            })
            .unwrap()
            .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(Duration::from_secs(600)))
            .build();
        swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse().unwrap()).unwrap();
        swarm.listen_on("/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()).unwrap();
        let (peer, streams) = (*swarm.local_peer_id(), swarm.behaviour().stream.new_control());
        let (errands, orders) = mpsc::channel(64);
        let (happened, events) = mpsc::channel(64 * 1024);
        tokio::spawn(live(swarm, orders, happened));
        let mut guest = Self { peer, streams, errands, events };
        for _ in 0..2 {
            guest.listens().await;
        }
        guest
    }

    /// Does something with the swarm.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut Swarm<Speech>) -> T + Send + 'static,
    ) -> T {
        let (reply, answer) = oneshot::channel();
        let errand = move |swarm: &mut Swarm<Speech>| drop(reply.send(errand(swarm)));
        self.errands.send(Box::new(errand)).await.unwrap();
        answer.await.unwrap()
    }

    /// Waits for an event that `matches`.
    pub(crate) async fn wait<T>(
        &mut self,
        mut matches: impl FnMut(SwarmEvent<SpeechEvent>) -> Option<T>,
    ) -> T {
        let mut seen = Vec::new();
        let found = async {
            loop {
                let event = self.events.recv().await.unwrap();
                seen.push(format!("{event:?}"));
                if let Some(found) = matches(event) {
                    return found;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("nothing like that happened, only {seen:#?}"),
        }
    }

    pub(crate) async fn listens(&mut self) -> Multiaddr {
        self.wait(|event| match event {
            SwarmEvent::NewListenAddr { address, .. } => Some(address),
            _ => None,
        })
        .await
    }

    /// Connects and waits until both know each other.
    pub(crate) async fn meet(&mut self, address: &Multiaddr) {
        let address = address.clone();
        self.ask(move |swarm| swarm.dial(address).unwrap()).await;
        self.wait(|event| match event {
            SwarmEvent::Behaviour(SpeechEvent::Identify(identify::Event::Received { .. })) => {
                Some(())
            }
            SwarmEvent::OutgoingConnectionError { error, .. } => panic!("{error}"),
            _ => None,
        })
        .await;
    }

    /// Asks the relay to keep a way to this node open.
    pub(crate) async fn reserve(&mut self, host: &Host) {
        let circuit = host.tcp.clone().with(Protocol::P2pCircuit);
        self.ask(move |swarm| swarm.listen_on(circuit).unwrap()).await;
        self.wait(|event| match event {
            SwarmEvent::Behaviour(SpeechEvent::Relay(
                relay::client::Event::ReservationReqAccepted { .. },
            )) => Some(()),
            SwarmEvent::ListenerClosed { reason, .. } => panic!("{reason:?}"),
            _ => None,
        })
        .await;
    }

    /// Connects to another node through the relay; the error if that failed.
    pub(crate) async fn dial_through(&mut self, host: &Host, other: &Self) -> Result<(), String> {
        let peer = other.peer;
        let way = host.tcp.clone().with(Protocol::P2pCircuit).with(Protocol::P2p(peer));
        self.ask(move |swarm| swarm.dial(way).unwrap()).await;
        self.wait(|event| match event {
            // The routing table may have led them to each other directly as well.
            SwarmEvent::ConnectionEstablished { peer_id, endpoint, .. }
                if peer_id == peer && endpoint.is_relayed() =>
            {
                Some(Ok(()))
            }
            SwarmEvent::OutgoingConnectionError { peer_id, error, .. } if peer_id == Some(peer) => {
                Some(Err(format!("{error:?}")))
            }
            _ => None,
        })
        .await
    }

    /// Registers at the server, under the name of a run.
    pub(crate) async fn register(&mut self, host: &Host) -> Result<u64, String> {
        let server = host.peer;
        let name = rendezvous::Namespace::from_static(RUN);
        self.ask(move |swarm| {
            swarm.behaviour_mut().rendezvous.register(name, server, None).unwrap()
        })
        .await;
        self.wait(|event| match event {
            SwarmEvent::Behaviour(SpeechEvent::Rendezvous(event)) => match event {
                rendezvous::client::Event::Registered { ttl, .. } => Some(Ok(ttl)),
                rendezvous::client::Event::RegisterFailed { error, .. } => {
                    Some(Err(format!("{error:?}")))
                }
                _ => None,
            },
            SwarmEvent::ConnectionClosed { peer_id, .. } if peer_id == server => {
                Some(Err("closed".into()))
            }
            _ => None,
        })
        .await
    }

    /// Takes every address it listens on for one that others reach.
    pub(crate) async fn is_reachable(&self) {
        self.ask(|swarm| {
            let addresses: Vec<Multiaddr> = swarm.listeners().cloned().collect();
            addresses.into_iter().for_each(|address| swarm.add_external_address(address));
        })
        .await;
    }
}

async fn live(
    mut swarm: Swarm<Speech>,
    mut errands: mpsc::Receiver<Errand>,
    events: mpsc::Sender<SwarmEvent<SpeechEvent>>,
) {
    loop {
        tokio::select! {
            errand = errands.recv() => match errand {
                Some(errand) => errand(&mut swarm),
                None => return,
            },
            event = swarm.select_next_some() => drop(events.try_send(event)),
        }
    }
}

/// Whatever it is, it does not take long.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this does not take long")
}

pub(crate) const RUN: &str = "the run";
const PATIENCE: Duration = Duration::from_secs(60);
