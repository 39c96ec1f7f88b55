//! The driver's end of the network.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_protocol::fault::Verdict;
use atoll_protocol::id::{ContentId, NodeId};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::content::fetch::Fetcher;
use super::content::serve::Server;
use super::error::NetError;
use super::inbox::{Command, Inbox, Order};
use super::status::{NetStatus, PeerStatus};
use super::traffic::{Counters, Traffic};

/// Tells the network what to do. No method waits, except those that say so.
///
/// The network stops when the last handle is gone.
#[derive(Clone)]
pub struct NetHandle {
    shared: Arc<Shared>,
}

/// What a handle and the network's task both see.
pub(super) struct Shared {
    pub(super) inbox: Arc<Inbox>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) status: Arc<Mutex<NetStatus>>,
    pub(super) server: Arc<Server>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) peers: watch::Receiver<BTreeSet<NodeId>>,
}

impl NetHandle {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Gossips to all peers. Lost, and counted, if too much waits.
    pub fn publish(&self, bytes: Vec<u8>) {
        self.message(Command::Publish(bytes));
    }

    /// Sends to one peer. Lost, and counted, if too much waits, or if messages take too much of a
    /// capped line.
    pub fn send(&self, to: NodeId, bytes: Vec<u8>) {
        self.message(Command::Send { to, bytes });
    }

    /// What becomes of a received message.
    pub fn judge(&self, receipt: u64, verdict: Verdict) {
        self.shared.inbox.put(Command::Judge { receipt, verdict });
    }

    /// Points against a peer: 100 are enough to be disconnected and blocked for a while.
    pub fn penalise(&self, node: NodeId, points: u32) {
        self.shared.inbox.put(Command::Penalise { node, points });
    }

    /// Fetches a content of at most `bytes_max` bytes from `from`, and from `others` who may have
    /// it; ends in one [`NetEvent::Fetched`](super::NetEvent::Fetched).
    pub fn fetch(&self, content: ContentId, from: NodeId, others: Vec<NodeId>, bytes_max: u64) {
        self.shared.inbox.put(Command::Fetch(Order { content, from, others, bytes_max }));
    }

    /// Asks peers for the run's genesis, all at once and as they come up, until one gives a `good`
    /// one: the caller knows its hash. Waits.
    pub async fn genesis(
        &self,
        wait: Duration,
        good: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, NetError> {
        let until = Instant::now() + wait;
        let mut peers = self.shared.peers.clone();
        let mut asked = BTreeSet::new();
        let mut answers = FuturesUnordered::new();
        loop {
            let new: Vec<NodeId> = peers.borrow_and_update().difference(&asked).copied().collect();
            asked.extend(&new);
            answers.extend(new.into_iter().map(|node| self.shared.fetcher.genesis(node)));
            tokio::select! {
                Some(answer) = answers.next() => {
                    if let Some(genesis) = answer.filter(|genesis| good(genesis)) {
                        return Ok(genesis);
                    }
                }
                Ok(()) = peers.changed() => {}
                () = sleep_until(until) => {
                    return Err(NetError::NoGenesis { waited: wait, asked: asked.len() });
                }
            }
        }
    }

    /// Serves this genesis from now on: a joiner has it only after it asked.
    pub fn serve_genesis(&self, genesis: Arc<[u8]>) {
        self.shared.server.set_genesis(genesis);
    }

    /// What went over the network since the start.
    pub fn counters(&self) -> Counters {
        self.shared.traffic.counters()
    }

    /// A picture of the network, at most a second old.
    pub fn status(&self) -> NetStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Addresses that the next start should try: of nodes of this run, and its own to listen on.
    pub fn addresses(&self) -> Vec<String> {
        self.status().cache
    }

    /// The nodes of this run we are connected to.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.status().peers
    }

    /// Gives what was published a moment to go out, then closes every connection. Waits, but for
    /// less than a second.
    pub async fn leave(self) {
        let (done, left) = oneshot::channel();
        self.shared.inbox.put(Command::Leave(done));
        // The task is gone already, or answers, or is not worth waiting for.
        let _ = tokio::time::timeout(LEAVE_TIME, left).await;
    }

    fn message(&self, command: Command) {
        if !self.shared.inbox.put_message(command) {
            self.shared.traffic.dropped_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for NetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetHandle").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

const LEAVE_TIME: Duration = Duration::from_millis(900);
