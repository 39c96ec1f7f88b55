//! A driver, from what the disk holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_protocol::crypto::Key;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, NodeId};
use tokio::sync::mpsc;

use super::clearing::Clearing;
use super::clock::Clock;
use super::contents::{Serving, Shelf};
use super::errands::{Errands, OwnPayloads};
use super::health::Health;
use super::revival::{Revival, Revived};
use super::saving::Saving;
use super::view::Training;
use super::{Driver, Inlets};
use crate::island::host::{Accounts, Checkpoint, Effort, Host};
use crate::island::{Island, IslandError};
use crate::net::{self, NetConfig, NetError};
use crate::observe::{Observer, Request};
use crate::store::{Store, StoreError};

/// What a node is started with.
pub struct Plan {
    /// Who it is.
    pub key: Key,
    /// Whose ticket it came with, unless it made the run.
    pub sponsor: Option<NodeId>,
    /// Where everything is.
    pub store: Store,
    /// How it meets others.
    pub net: NetConfig,
    /// What trains, if anything does; its parameters are the run's initial ones.
    pub island: Option<Box<dyn Island>>,
    /// How much of the machine's time it takes.
    pub effort: Effort,
    /// How readily it leaves the processor to others, from 0 to 19.
    pub nice: i32,
    /// The shortest time between two measurements of the held-out loss, if it is measured.
    pub evaluate_every: Option<Duration>,
    /// Who watches.
    pub observer: Observer,
    /// What somebody on this machine wants of it.
    pub requests: mpsc::Receiver<Request>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error("{0}\nhint: {hint}", hint = .0.hint().unwrap_or("see the message"))]
    Store(#[from] StoreError),
    /// The network.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The island.
    #[error(transparent)]
    Island(#[from] IslandError),
    /// The island's thread.
    #[error("no thread for the island: {0}")]
    Thread(std::io::Error),
}

impl Driver {
    /// Starts a node's tasks on the current runtime; [`Driver::run`] is the loop. Whatever is
    /// sent to what is returned beside it makes the node leave.
    pub fn start(plan: Plan) -> Result<(Self, mpsc::Sender<()>), StartError> {
        let genesis = Arc::new(plan.store.genesis().clone());
        let clock = Clock::start();
        let Plan { ref key, ref observer, sponsor, .. } = plan;
        let revival = Revival { key, genesis: &genesis, observer, sponsor };
        let checkpoint = revival.checkpoint(&plan.store);
        let resumed = checkpoint.as_ref().map(|(_, it)| it.resumed()).unwrap_or_default();
        let Revived { store, engine, parts, incarnation } =
            revival.engine(plan.store, resumed, plan.island.is_some(), clock.now())?;
        let kept = kept(&genesis, checkpoint.as_ref().map(|(_, it)| it));
        store.sweep(&kept)?;
        let (told_in, told) = mpsc::channel(TOLD_MAX);
        let (done, done_out) = mpsc::channel(DONE_MAX);
        let (leave_in, leave) = mpsc::channel(1);
        let mut training = Training::new(plan.evaluate_every, &engine.node());
        let errands = match plan.island {
            None => None,
            Some(mut island) => {
                let restored = revival.accounts(island.as_mut(), &store, &engine, checkpoint);
                training.begins(restored.is_some());
                let begun = || Accounts::new(island.as_mut(), &genesis);
                let accounts = restored.map_or_else(begun, Ok)?;
                let host = Host::start(&genesis, island, accounts, plan.effort, plan.nice, told_in);
                Some(Errands::new(host.map_err(StartError::Thread)?, parts.len()))
            }
        };
        let own = OwnPayloads::new(parts.len());
        let serving = Arc::new(Serving::default());
        let shelf = Shelf { store: store.clone(), serving: serving.clone() };
        let (net, events) = net::start(plan.net, Arc::new(shelf))?;
        let tick = tokio::time::interval(TICK);
        let driver = Self {
            genesis,
            engine,
            clock,
            store,
            net,
            observer: plan.observer,
            outputs: VecDeque::new(),
            write: None,
            parts,
            serving,
            errands,
            saving: Saving::new(),
            training,
            rechecks: BTreeMap::new(),
            rechecking: BTreeSet::new(),
            rechecked: Instant::now(),
            own,
            health: Health::new(),
            clearing: Clearing::new(kept),
            quiet: false,
            clock_told: false,
            leaving: None,
            ending: None,
            started: Instant::now(),
            incarnation,
            peers_kept: Instant::now(),
            done,
            inlets: Inlets {
                leave,
                requests: plan.requests,
                told,
                done: done_out,
                net: events,
                tick,
            },
        };
        driver.tell_tokens_trained();
        Ok((driver, leave_in))
    }
}

/// Contents that no record names and that are needed all the same.
fn kept(genesis: &Genesis, checkpoint: Option<&Checkpoint>) -> BTreeSet<ContentId> {
    let captured = checkpoint.into_iter().flat_map(Checkpoint::captured);
    captured.chain(genesis.data.tokenizer_content).collect()
}

const TICK: Duration = Duration::from_millis(250);
const TOLD_MAX: usize = 256;
const DONE_MAX: usize = 1024;
