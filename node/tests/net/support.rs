//! A node's network in this process, and ways to wait for what it says.

use std::sync::Arc;
use std::time::Duration;

use atoll_node::net::{NetConfig, NetError, NetEvent, NetHandle, Notice, start};
use atoll_protocol::crypto::Key;
use atoll_protocol::fault::Verdict;
use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::id::{ContentId, NodeId, RunId};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::memory::{Memory, Shared};

/// A network with contents in memory.
pub(crate) struct Net {
    pub(crate) node: NodeId,
    pub(crate) handle: NetHandle,
    pub(crate) events: mpsc::Receiver<NetEvent>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) address: String,
}

/// A configuration that listens on loopback only.
pub(crate) fn config(secret: u8, peers: &[&Net]) -> NetConfig {
    NetConfig {
        key: Key::from_secret([secret; 32]),
        run: RUN,
        genesis: Vec::new().into(),
        listen: vec!["/ip4/127.0.0.1/udp/0/quic-v1".into()],
        external: Vec::new(),
        bootstrap: Vec::new(),
        peers: peers.iter().map(|net| net.address.clone()).collect(),
        visits: false,
        mdns: false,
        upnp: false,
        max_upload: None,
        max_download: None,
        upload_slots: 4,
        clock: std::time::SystemTime::now,
    }
}

impl Net {
    /// Starts a network that dials `peers`.
    pub(crate) async fn start(secret: u8, peers: &[&Self]) -> Self {
        Self::with(config(secret, peers), Memory::default()).await
    }

    /// Starts a network and waits until it listens.
    pub(crate) async fn with(config: NetConfig, memory: Memory) -> Self {
        let memory = Arc::new(memory);
        let node = config.key.node();
        let shared = Arc::new(Shared(memory.clone()));
        let started = async {
            loop {
                match start(config.clone(), shared.clone()) {
                    // QUIC keeps a port a little longer than whoever used it.
                    Err(NetError::Listen { .. }) => tokio::time::sleep(MOMENT).await,
                    started => break started.unwrap(),
                }
            }
        };
        let (handle, events) = timeout(PATIENCE, started).await.expect("the port is free again");
        let mut net = Self { node, handle, events, memory, address: String::new() };
        if config.listen.is_empty() {
            return net;
        }
        let listening = net
            .wait(|event| match event {
                NetEvent::Notice(Notice::Listening(address)) => Some(address),
                _ => None,
            })
            .await;
        net.address = format!("{listening}/p2p/{}", net.handle.status().peer);
        net
    }

    /// Waits for an event and drops those before it.
    pub(crate) async fn wait<T>(&mut self, mut wanted: impl FnMut(NetEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the network runs");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("what was waited for happens")
    }

    /// Waits until a peer is connected.
    pub(crate) async fn up(&mut self, peer: NodeId) {
        self.wait(|event| (event == NetEvent::PeerUp(peer)).then_some(())).await;
    }

    /// Waits until so many peers are connected.
    pub(crate) async fn all_up(&mut self, count: usize) {
        let mut up = 0;
        self.wait(|event| {
            up += usize::from(matches!(event, NetEvent::PeerUp(_)));
            (up == count).then_some(())
        })
        .await;
    }

    /// Waits until a peer is gone.
    pub(crate) async fn down(&mut self, peer: NodeId) {
        self.wait(|event| (event == NetEvent::PeerDown(peer)).then_some(())).await;
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> (NodeId, Vec<u8>, u64) {
        self.wait(|event| match event {
            NetEvent::Received { from, bytes, receipt } => Some((from, bytes, receipt)),
            _ => None,
        })
        .await
    }

    /// Fetches a content and waits for the end.
    pub(crate) async fn fetch(&mut self, wanted: ContentId, from: &Self) -> (FetchOutcome, u64) {
        self.fetch_with(wanted, from.node, &[], u64::from(u32::MAX)).await
    }

    /// Fetches a content and waits for the end.
    pub(crate) async fn fetch_with(
        &mut self,
        wanted: ContentId,
        whom: NodeId,
        others: &[NodeId],
        bytes_max: u64,
    ) -> (FetchOutcome, u64) {
        self.handle.fetch(wanted, whom, others.to_vec(), bytes_max);
        self.wait(|event| match event {
            NetEvent::Fetched { content, from, outcome, bytes, .. } => {
                assert_eq!((content, from), (wanted, whom));
                Some((outcome, bytes))
            }
            _ => None,
        })
        .await
    }
}

/// Looks again and again until something is so.
pub(crate) async fn until(mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(MOMENT).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("what was waited for is so");
}

/// Two that know each other only through the one between them, which passes on what they say.
pub(crate) async fn row() -> (Net, Net, Net) {
    let mut middle = Net::start(1, &[]).await;
    let left = Net::start(2, &[&middle]).await;
    let mut right = Net::start(3, &[&middle]).await;
    // Left alone, they would hear of each other and meet.
    left.handle.penalise(right.node, 100);
    right.handle.penalise(left.node, 100);
    middle.all_up(2).await;
    // It passes on to those who have asked for it, and that takes a moment.
    let saying = async {
        for word in 0_u64.. {
            left.handle.publish(word.to_le_bytes().to_vec());
            tokio::time::sleep(MOMENT * 5).await;
        }
    };
    let hearing = async {
        loop {
            tokio::select! {
                (_, _, receipt) = middle.message() => middle.handle.judge(receipt, Verdict::Accept),
                _ = right.message() => break,
            }
        }
    };
    let heard = async {
        tokio::select! {
            () = saying => {}
            () = hearing => {}
        }
    };
    timeout(PATIENCE, heard).await.expect("it passes on");
    left.handle.publish(READY.to_vec());
    loop {
        let (_, message, receipt) = middle.message().await;
        middle.handle.judge(receipt, Verdict::Accept);
        if message == READY {
            break;
        }
    }
    while right.message().await.1 != READY {}
    (left, middle, right)
}

/// The last word before a test begins.
const READY: &[u8] = b"ready";

/// Two networks that are connected.
pub(crate) async fn pair() -> (Net, Net) {
    let mut one = Net::start(1, &[]).await;
    let mut other = Net::start(2, &[&one]).await;
    one.up(other.node).await;
    other.up(one.node).await;
    (one, other)
}

/// Bytes that are no two chunks alike.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

pub(crate) const RUN: RunId = RunId([5; 32]);
const MOMENT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(40);
