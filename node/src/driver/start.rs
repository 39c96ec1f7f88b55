//! A driver, from what the disk holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_protocol::crypto::Key;
use atoll_protocol::engine::{Engine, EngineConfig};
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::ContentId;
use atoll_protocol::outer::OuterState;
use atoll_protocol::planted::Planted;
use atoll_protocol::pool::Inline;
use tokio::sync::mpsc;

use super::clock::Clock;
use super::contents::{Serving, Shelf};
use super::errands::Errands;
use super::part::Part;
use super::saving::Saving;
use super::view::Training;
use super::{Driver, Inlets, Request};
use crate::island::host::{Accounts, Checkpoint, Effort, Host};
use crate::island::{Island, IslandError};
use crate::net::{self, NetConfig, NetError};
use crate::observe::{Event, Observer};
use crate::store::{Store, StoreError};

/// What a node is started with.
pub struct Plan {
    /// Who it is.
    pub key: Key,
    /// Where everything is.
    pub store: Store,
    /// How it meets others.
    pub net: NetConfig,
    /// What trains, if anything does; its parameters are the run's initial ones.
    pub island: Option<Box<dyn Island>>,
    /// How much of the machine's time it takes.
    pub effort: Effort,
    /// The shortest time between two measurements of the held-out loss.
    pub evaluate_every: Duration,
    /// Who watches.
    pub observer: Observer,
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error("{0}\nhint: {hint}", hint = .0.hint())]
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
    /// Starts a node's tasks on the current runtime; [`Driver::run`] is the loop.
    pub fn start(plan: Plan) -> Result<(Self, mpsc::Sender<Request>), StartError> {
        let Plan { key, store, net, island, effort, evaluate_every, observer } = plan;
        let genesis = Arc::new(store.genesis().clone());
        let clock = Clock::start();
        let checkpoint = read_checkpoint(&store, &genesis, &observer);
        let initial = initial(&genesis);
        let (engine, parts) = revive(&key, &store, &genesis, &initial, checkpoint.as_ref(), island.is_some(), &clock, &observer)?;
        let (told_in, told) = mpsc::channel(TOLD_MAX);
        let (done, done_out) = mpsc::channel(DONE_MAX);
        let (requests_in, requests) = mpsc::channel(REQUESTS_MAX);
        let mut training = Training::new(evaluate_every);
        let errands = match island {
            None => None,
            Some(island) => {
                let (island, accounts, resumed) = resume(island, &genesis, &store, &engine, checkpoint, &observer)?;
                training.resumed = resumed;
                let host = Host::start(&genesis, island, accounts, effort, told_in).map_err(StartError::Thread)?;
                Some(Errands::new(host, parts.len()))
            }
        };
        let serving = Arc::new(Serving::default());
        let shelf = Shelf { store: store.clone(), serving: serving.clone() };
        let (net, events) = net::start(net, Arc::new(shelf))?;
        let tick = tokio::time::interval(TICK);
        let driver = Self {
            genesis,
            engine,
            clock,
            store,
            net,
            observer,
            outputs: VecDeque::new(),
            write: None,
            parts,
            serving,
            errands,
            saving: Saving::new(),
            training,
            rechecks: BTreeMap::new(),
            rechecked: Instant::now(),
            own: BTreeMap::new(),
            quiet: false,
            leaving: None,
            ending: None,
            started: Instant::now(),
            incarnation,
            peers_kept: Instant::now(),
            done,
            inlets: Inlets { requests, told, done: done_out, net: events, tick },
        };
        driver.tell_swarm_tokens();
        Ok((driver, requests_in))
    }
}

/// The outer states that the run begins with, and their digests.
fn initial(genesis: &Genesis) -> Vec<(OuterState, ContentId)> {
    let map = genesis.fragment_map();
    let state = |fragment| {
        let state = OuterState::new(fragment_id(fragment), &genesis.initial(fragment));
        let digest = state.digest(&Inline);
        (state, digest)
    };
    map.fragments().iter().map(state).collect()
}

fn fragment_id(fragment: &atoll_protocol::fragment::Fragment) -> atoll_protocol::id::FragmentId {
    fragment.id
}

fn read_checkpoint(store: &Store, genesis: &Genesis, observer: &Observer) -> Option<(std::path::PathBuf, Checkpoint)> {
    let folder = store.checkpoint()?;
    match Checkpoint::read(&folder, genesis) {
        Ok(checkpoint) => Some((folder, checkpoint)),
        Err(error) => {
            observer.event(Event::warning(format!("{error}; the island begins with the outer state")));
            None
        }
    }
}

/// The engine and the folds that its records speak of. If a base that they speak of is gone, the
/// records are put aside and the swarm gives everything back.
#[expect(clippy::too_many_arguments, reason = "what a node is made of, once")]
fn revive(
    key: &Key,
    store: &Store,
    genesis: &Genesis,
    initial: &[(OuterState, ContentId)],
    checkpoint: Option<&(std::path::PathBuf, Checkpoint)>,
    trains: bool,
    clock: &Clock,
    observer: &Observer,
) -> Result<(Engine, Vec<Part>), StartError> {
    let config = |lost, incarnation| EngineConfig {
        genesis: genesis.clone(),
        initial: initial.iter().map(|(_, digest)| *digest).collect(),
        key: key.clone(),
        incarnation,
        seed: incarnation ^ u64::from_le_bytes(key.node().0[..8].try_into().expect("eight bytes")),
        trains,
        resumed: checkpoint.map(|(_, it)| it.resumed()).unwrap_or_default(),
        lost,
        signed: (0..initial.len()).map(|index| store.signed_floor(atoll_protocol::id::FragmentId(u16::try_from(index).expect("a fragment's id is 16 bits")))).collect(),
        planted: Planted::default(),
    };
    let incarnation = store.begin()?;
    let engine = Engine::new(config(store.missing()?, incarnation), store.records()?, clock.now());
    match parts(&engine, store, genesis, initial) {
        Ok(parts) => Ok((engine, parts)),
        Err(error) => {
            observer.event(Event::warning(format!(
                "{error}; the records are put aside and the swarm is asked for its state"
            )));
            store.put_records_aside()?;
            let engine = Engine::new(config(store.missing()?, incarnation), Vec::new(), clock.now());
            let parts = parts_from(initial, genesis);
            Ok((engine, parts))
        }
    }
}

fn parts(
    engine: &Engine,
    store: &Store,
    genesis: &Genesis,
    initial: &[(OuterState, ContentId)],
) -> Result<Vec<Part>, StoreError> {
    let map = genesis.fragment_map();
    let part = |(fragment, (first, first_digest)): (&atoll_protocol::fragment::Fragment, &(OuterState, ContentId))| {
        let digest = engine.status(fragment.id).map_or(*first_digest, |status| status.base_digest);
        if digest == *first_digest {
            return Ok(Part::new(fragment.clone(), genesis, first.clone(), digest));
        }
        let bytes = store.base(&digest)?.ok_or_else(|| StoreError::missing(digest))?;
        let state = OuterState::from_bytes(&bytes, fragment).map_err(|_| StoreError::missing(digest))?;
        Ok(Part::new(fragment.clone(), genesis, state, digest))
    };
    map.fragments().iter().zip(initial).map(part).collect()
}

fn parts_from(initial: &[(OuterState, ContentId)], genesis: &Genesis) -> Vec<Part> {
    let map = genesis.fragment_map();
    let fragments = map.fragments().iter().zip(initial);
    fragments.map(|(it, (state, digest))| Part::new(it.clone(), genesis, state.clone(), *digest)).collect()
}

/// The island with its accounts, as the checkpoint has them if it can be used.
fn resume(
    mut island: Box<dyn Island>,
    genesis: &Genesis,
    store: &Store,
    engine: &Engine,
    checkpoint: Option<(std::path::PathBuf, Checkpoint)>,
    observer: &Observer,
) -> Result<(Box<dyn Island>, Accounts, bool), StartError> {
    if let Some((folder, checkpoint)) = checkpoint {
        let last_capture = |fragment| engine.status(fragment).and_then(|it| it.last_capture);
        let payload = |id: &ContentId| store.content(id).ok().flatten();
        let restored = island.restore(&folder).and_then(|()| {
            checkpoint.accounts(island.as_mut(), genesis, last_capture, payload)
        });
        match restored {
            Ok(accounts) => {
                observer.event(Event::note("the island goes on from its checkpoint".to_owned()));
                return Ok((island, accounts, true));
            }
            Err(error) => {
                let text = format!("{error}; the island begins with the outer state");
                observer.event(Event::warning(text));
            }
        }
    }
    let accounts = Accounts::new(island.as_mut(), genesis)?;
    Ok((island, accounts, false))
}

const TICK: Duration = Duration::from_millis(250);
const TOLD_MAX: usize = 256;
const DONE_MAX: usize = 1024;
const REQUESTS_MAX: usize = 64;
