//! The task that drives the swarm: commands in, events out, timers between.

mod connections;
mod discovery;
mod exchange;
mod listening;
mod messages;
mod outbox;
mod peers;
mod reachability;
mod sending;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::limits::CONNECTED_PEERS_MAX;
use futures::StreamExt as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::swarm::SwarmEvent;
use libp2p::{PeerId, Swarm, swarm};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use self::discovery::Discovery;
use self::listening::Listener;
use self::outbox::Outbox;
use self::peers::{Kind, Peer};
use self::sending::Sending;
use super::NetConfig;
use super::address;
use super::allowance::Allowance;
use super::behaviour::{Behaviour, BehaviourEvent, Protocols};
use super::book::{Book, Word};
use super::content::fetch::{Fetcher, News};
use super::content::serve::Server;
use super::error::NetError;
use super::event::{NetEvent, Notice};
use super::gossip::Receipts;
use super::identity::peer_of;
use super::inbox::{Command, Inbox, Order};
use super::penalty::{BLOCK_TIME, ENOUGH, Penalties};
use super::relay::Relay;
use super::status::{NetStatus, PeerStatus};
use super::traffic::Traffic;

/// The swarm of a node with this key.
pub(super) fn swarm(
    key: &Keypair,
    transport: Boxed<(PeerId, StreamMuxerBox)>,
    behaviour: Behaviour,
) -> Swarm<Behaviour> {
    let config = swarm::Config::with_tokio_executor()
        // Connections are closed when there is a reason to, not because nobody spoke.
        .with_idle_connection_timeout(IDLE_TIME)
        // What is asked travels with the name of the protocol, not a round trip later.
        .with_substream_upgrade_protocol_override(Version::V1Lazy)
        .with_smart_dial();
    Swarm::new(transport, behaviour, key.public().to_peer_id(), config)
}

/// What a task is made of.
pub(super) struct Parts {
    pub(super) swarm: Swarm<Behaviour>,
    pub(super) protocols: Protocols,
    pub(super) inbox: Arc<Inbox>,
    pub(super) events: mpsc::Sender<NetEvent>,
    pub(super) notices: mpsc::Receiver<Notice>,
    pub(super) up: watch::Sender<BTreeSet<NodeId>>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) server: Arc<Server>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) status: Arc<Mutex<NetStatus>>,
    pub(super) max_upload: Option<u64>,
    pub(super) visits: bool,
}

/// The network's task.
pub(super) struct Task {
    swarm: Swarm<Behaviour>,
    protocols: Protocols,
    inbox: Arc<Inbox>,
    events: mpsc::Sender<NetEvent>,
    outbox: Outbox,
    notices: mpsc::Receiver<Notice>,
    /// Nodes of this run that are connected.
    up: watch::Sender<BTreeSet<NodeId>>,
    fetcher: Arc<Fetcher>,
    server: Arc<Server>,
    fetches: JoinSet<(FetchOutcome, u64)>,
    orders: HashMap<Id, (ContentId, NodeId)>,
    /// Questions for the peers of peers.
    asks: JoinSet<(PeerId, News)>,
    traffic: Arc<Traffic>,
    status: Arc<Mutex<NetStatus>>,
    status_due: Instant,
    listeners: Vec<Listener>,
    book: Book,
    peers: BTreeMap<PeerId, Peer>,
    receipts: Receipts,
    sending: Sending,
    allowance: Allowance,
    relay: Relay,
    penalties: Penalties,
    /// Gossip that nobody was there for yet.
    unsent: VecDeque<Vec<u8>>,
    discovery: Discovery,
}

impl Task {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            swarm,
            protocols,
            inbox,
            events,
            notices,
            up,
            fetcher,
            server,
            traffic,
            status,
            max_upload,
            visits,
        } = parts;
        let now = Instant::now();
        let seed = swarm.local_peer_id().to_bytes();
        let seed = blake3::hash(&seed).as_bytes()[..8].try_into().expect("8 bytes");
        Self {
            discovery: Discovery::new(&protocols, visits, now),
            swarm,
            protocols,
            inbox,
            events,
            outbox: Outbox::default(),
            notices,
            up,
            fetcher,
            server,
            fetches: JoinSet::new(),
            orders: HashMap::new(),
            asks: JoinSet::new(),
            traffic,
            status,
            status_due: now,
            listeners: Vec::new(),
            book: Book::new(u64::from_le_bytes(seed)),
            peers: BTreeMap::new(),
            receipts: Receipts::default(),
            sending: Sending::new(),
            allowance: Allowance::new(max_upload, now),
            relay: Relay::new(now),
            penalties: Penalties::default(),
            unsent: VecDeque::new(),
        }
    }

    /// Listens, and takes note of whom to dial.
    pub(super) fn begin(&mut self, config: &NetConfig) -> Result<(), NetError> {
        let now = Instant::now();
        // Most come from the peer cache, where one that cannot be read does not matter.
        let peers = config.peers.iter().filter_map(|value| address::parse(value).ok());
        let own = *self.swarm.local_peer_id();
        let (before, peers): (Vec<_>, Vec<_>) =
            peers.partition(|address| address::peer_in(address) == Some(own));
        self.listen(config, &before)?;
        for value in &config.external {
            self.discovery.promised();
            self.swarm.add_external_address(address::parse(value)?);
        }
        for value in &config.bootstrap {
            let address = address::parse(value)?;
            let peer = address::peer_in(&address).ok_or(NetError::Unnamed(value.clone()))?;
            self.book.learn(peer, address.clone(), Word::Good, now);
            self.book.fix(&peer, true);
            self.swarm.behaviour_mut().always(&peer);
            self.discovery.meet_at(peer, address, now);
        }
        // The first of a peer is the best, and what is learnt last comes first.
        for address in peers.into_iter().rev() {
            match address::peer_in(&address) {
                Some(peer) => {
                    self.book.learn(peer, address, Word::Good, now);
                    self.book.fix(&peer, false);
                }
                None => self.discovery.try_unnamed(address, now),
            }
        }
        Ok(())
    }

    /// Drives the swarm until the last handle is gone, or the driver; returns whom to tell of it
    /// once nothing is left of it.
    pub(super) async fn run(mut self) -> Option<oneshot::Sender<()>> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let events = self.events.clone();
        loop {
            tokio::select! {
                permit = events.reserve(), if !self.outbox.is_empty() => {
                    let Ok(permit) = permit else { return None };
                    if let Some(event) = self.outbox.pop() {
                        permit.send(event);
                    }
                }
                command = self.inbox.take() => match command {
                    Some(Command::Leave(done)) => {
                        self.leave().await;
                        return Some(done);
                    }
                    Some(command) => self.command(command),
                    None => return None,
                },
                Some(ended) = self.fetches.join_next_with_id(), if !self.fetches.is_empty() => {
                    self.fetched(ended);
                }
                Some(Ok((peer, told))) = self.asks.join_next(), if !self.asks.is_empty() => {
                    self.told(peer, told);
                }
                Some(notice) = self.notices.recv() => self.outbox.tell(notice),
                _ = tick.tick() => self.tick(Instant::now()),
                event = self.swarm.select_next_some() => self.event(event),
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Publish(bytes) => self.publish(bytes),
            Command::Send { to, bytes } => self.send(to, bytes),
            Command::Judge { receipt, verdict } => self.judge(receipt, verdict),
            Command::Penalise { node, points } => self.penalise(node, points),
            Command::Fetch(order) => self.fetch(order),
            Command::Leave(_) => {}
        }
    }

    fn event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(event) => match event {
                BehaviourEvent::Gossip(event) => self.on_gossip(event),
                BehaviourEvent::Messages(event) => self.on_message(event),
                BehaviourEvent::Identify(event) => self.on_identify(event),
                BehaviourEvent::Ping(event) => self.on_ping(event),
                event => self.on_discovery(event),
            },
            event => self.on_connection(event),
        }
    }

    fn tick(&mut self, now: Instant) {
        for peer in self.penalties.released(now) {
            self.swarm.behaviour_mut().unblock(peer);
        }
        self.close_spare(now);
        self.reopen(now);
        let alone = self.up.borrow().is_empty();
        self.book.alone(alone, now);
        self.discover(alone, now);
        self.ask_peers(now);
        let ours = self.peers.values().filter(|peer| peer.kind != Kind::Bootstrap).count();
        for (peer, addresses) in self.book.due(now, CONNECTED_PEERS_MAX.saturating_sub(ours)) {
            self.dial(peer, addresses, now);
        }
        if now >= self.status_due {
            self.status_due = now + STATUS_INTERVAL;
            self.fade(now);
            self.picture(now);
        }
    }

    fn fetch(&mut self, order: Order) {
        if let Some(peer) = peer_of(&order.from).filter(|peer| !self.peers.contains_key(peer)) {
            self.book.hurry(&peer, Instant::now());
        }
        let (fetcher, entry) = (self.fetcher.clone(), (order.content, order.from));
        let task = self.fetches.spawn(async move { fetcher.fetch(order).await });
        self.orders.insert(task.id(), entry);
    }

    fn fetched(&mut self, ended: Result<(Id, (FetchOutcome, u64)), JoinError>) {
        let (id, (outcome, bytes)) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a fetch broke off");
                (error.id(), (FetchOutcome::Unreachable, 0))
            }
        };
        if let Some((content, from)) = self.orders.remove(&id) {
            self.outbox.push(NetEvent::Fetched { content, from, outcome, bytes });
        }
    }

    fn penalise(&mut self, node: NodeId, points: u32) {
        let Some(peer) = peer_of(&node).filter(|_| points > 0) else { return };
        let now = Instant::now();
        let points = self.penalties.add(peer, points, now);
        self.swarm.behaviour_mut().gossip.set_application_score(&peer, -points);
        if points >= ENOUGH && !self.penalties.blocks(&peer) {
            self.outbox.tell(Notice::Blocked { node, time: BLOCK_TIME });
            if let Some(other) = self.penalties.block(peer, now) {
                self.swarm.behaviour_mut().unblock(other);
            }
            self.swarm.behaviour_mut().block(peer);
            self.book.avoid(&peer, now);
        }
    }

    /// Lets points fade in gossip's books as they do in ours.
    fn fade(&mut self, now: Instant) {
        for peer in self.peers.keys() {
            let points = self.penalties.of(peer, now);
            self.swarm.behaviour_mut().gossip.set_application_score(peer, -points);
        }
    }

    /// Renews what the handle shows.
    fn picture(&mut self, now: Instant) {
        let own = *self.swarm.local_peer_id();
        let shown = |address| address::to_peer(address, own).to_string();
        // The next life listens on the same ports, if it can.
        let ports = self.swarm.listeners().filter(|it| !address::is_relayed(it)).map(shown);
        let mut status = NetStatus {
            peer: own.to_string(),
            listening: self.swarm.listeners().map(shown).collect(),
            external: self.swarm.external_addresses().map(shown).collect(),
            cache: self.book.cache().into_iter().chain(ports).collect(),
            ..NetStatus::default()
        };
        self.discovery.show(&mut status);
        status.nat = self.nat();
        status.clock = self.skew();
        for (peer, connected) in &self.peers {
            let (Kind::Ours, Some(node), Some(link)) =
                (connected.kind, connected.node, connected.best())
            else {
                continue;
            };
            status.peers.push(PeerStatus {
                node,
                address: link.address.to_string(),
                way: link.way,
                rtt: connected.rtt,
                rate: self.fetcher.rates.of(&node),
                points: self.penalties.of(peer, now),
            });
        }
        self.server.set_peers(&self.book.near());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Says what is still to be said, then goes.
    async fn leave(&mut self) {
        self.fetches.abort_all();
        self.inbox.close();
        while let Some(command) = self.inbox.take().await {
            self.command(command);
        }
        self.unregister();
        // Whoever only visited has said nothing that anybody waits for.
        if !self.peers.is_empty() && !self.discovery.visits() {
            self.drive(LAST_WORDS_TIME).await;
        }
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            // An error only says that it is gone already.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        self.drive(CLOSE_TIME).await;
    }

    /// Drives the swarm for a while, as long as anybody is connected.
    async fn drive(&mut self, time: Duration) {
        let over = tokio::time::sleep(time);
        tokio::pin!(over);
        while !self.peers.is_empty() {
            tokio::select! {
                () = &mut over => return,
                event = self.swarm.select_next_some() => self.event(event),
            }
        }
    }

    fn count_dropped(&self) {
        self.traffic.dropped_down.fetch_add(1, Ordering::Relaxed);
    }
}

const TICK: Duration = Duration::from_millis(200);
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
const IDLE_TIME: Duration = Duration::from_secs(24 * 3600);
const LAST_WORDS_TIME: Duration = Duration::from_millis(400);
const CLOSE_TIME: Duration = Duration::from_millis(200);
