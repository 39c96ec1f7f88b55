//! The network: gossip, direct messages and contents between the nodes of one run.
//!
//! The only module that names libp2p. A task of its own drives the swarm; the driver talks to it
//! through [`NetHandle`] and listens to [`NetEvent`]s. Nothing a peer or a link does is fatal.

mod address;
mod allowance;
mod behaviour;
mod book;
mod content;
mod contents;
mod error;
mod event;
mod gossip;
mod handle;
mod identity;
mod inbox;
mod message;
mod nat;
mod observed;
mod penalty;
mod relay;
mod status;
mod task;
mod traffic;
mod transport;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use atoll_protocol::crypto::Key;
use atoll_protocol::id::RunId;
use atoll_protocol::limits::MESSAGES_WAITING_MAX;
use tokio::sync::{mpsc, watch};

pub use self::contents::{Contents, Incoming, Stored};
pub use self::error::NetError;
pub use self::event::{How, NetEvent, Notice, Reachability};
pub use self::handle::NetHandle;
pub use self::nat::{Nat, NatStatus};
pub use self::status::{BootstrapStatus, NetStatus, PeerStatus, Skew, Way};
pub use self::traffic::Counters;

use self::behaviour::{Behaviour, Protocols, Toggles};
use self::content::bucket::Bucket;
use self::content::fetch::Fetcher;
use self::content::rates::Rates;
use self::content::serve::Server;
use self::handle::Shared;
use self::inbox::Inbox;
use self::task::Task;
use self::traffic::{Direction, Traffic};

/// How a node takes part in the network.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Who it is.
    pub key: Key,
    /// Which run it takes part in.
    pub run: RunId,
    /// The run's genesis, to be given to whoever asks; empty if it is still to be fetched.
    pub genesis: Arc<[u8]>,
    /// Where to listen, like `/ip4/0.0.0.0/udp/4001/quic-v1`.
    pub listen: Vec<String>,
    /// Addresses at which the outside is known to reach us.
    pub external: Vec<String>,
    /// Bootstraps; each address ends in `/p2p/<id>`.
    pub bootstrap: Vec<String>,
    /// Peers to try: the peer cache, and what a ticket names. Addresses of our own among them are
    /// those that we listened on before.
    pub peers: Vec<String>,
    /// Whether it comes for a moment only: nobody is told where it is, so that nobody looks for it
    /// when it has gone.
    pub visits: bool,
    /// Whether to look for peers on the local network.
    pub mdns: bool,
    /// Whether to ask the router for a port.
    pub upnp: bool,
    /// Cap on what is sent, in bytes per second on the wire: contents make room for the rest.
    pub max_upload: Option<u64>,
    /// Cap on what is received, in bytes per second on the wire: contents make room for the rest.
    pub max_download: Option<u64>,
    /// Contents sent at the same time.
    pub upload_slots: usize,
    /// This machine's clock, which is compared with those of peers.
    pub clock: fn() -> SystemTime,
}

/// Starts the network on the current tokio runtime.
pub fn start(
    config: NetConfig,
    contents: Arc<dyn Contents>,
) -> Result<(NetHandle, mpsc::Receiver<NetEvent>), NetError> {
    let key = config.key.keypair();
    let protocols = Protocols::of(config.run);
    let traffic = Arc::new(Traffic::default());
    let (transport, relay) = transport::build(&key, &traffic)?;
    let toggles = Toggles { mdns: config.mdns, upnp: config.upnp };
    let behaviour = Behaviour::new(&key, &protocols, relay, toggles)?;
    let mut control = behaviour.streams.new_control();
    let incoming = control
        .accept(protocols.content.clone())
        .map_err(|error| NetError::Setup { part: "contents", reason: error.to_string() })?;
    let (notice_sender, notices) = mpsc::channel(NOTICES_MAX);
    let (up, peers) = watch::channel(BTreeSet::new());
    let server = Arc::new(Server::new(
        contents.clone(),
        config.genesis.clone(),
        config.clock,
        config.upload_slots,
        Bucket::new(config.max_upload, Direction::Up, traffic.clone()),
        traffic.clone(),
        notice_sender.clone(),
    ));
    let fetcher = Arc::new(Fetcher {
        contents,
        clock: config.clock,
        control,
        protocol: protocols.content.clone(),
        download: Bucket::new(config.max_download, Direction::Down, traffic.clone()),
        rates: Rates::default(),
        places: Fetcher::places(),
        traffic: traffic.clone(),
        peers: peers.clone(),
        notices: notice_sender,
    });
    let status = Arc::new(Mutex::new(NetStatus::default()));
    let inbox = Arc::new(Inbox::default());
    let (event_sender, events) = mpsc::channel(MESSAGES_WAITING_MAX);
    let swarm = task::swarm(&key, transport, behaviour);
    let mut task = Task::new(task::Parts {
        swarm,
        protocols,
        inbox: inbox.clone(),
        events: event_sender,
        notices,
        up,
        fetcher: fetcher.clone(),
        server: server.clone(),
        traffic: traffic.clone(),
        status: status.clone(),
        max_upload: config.max_upload,
        visits: config.visits,
    });
    task.begin(&config)?;
    let serving = tokio::spawn(server.clone().run(incoming));
    tokio::spawn(async move {
        let left = task.run().await;
        serving.abort();
        // Whoever asked may have stopped waiting.
        left.map(|left| left.send(()));
    });
    Ok((NetHandle::new(Shared { inbox, traffic, status, server, fetcher, peers }), events))
}

/// Notices that wait to be passed on.
const NOTICES_MAX: usize = 64;
