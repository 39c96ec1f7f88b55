//! The engine, the folds and the island's accounts, from what the disk holds.

use std::path::PathBuf;

use atoll_protocol::crypto::Key;
use atoll_protocol::engine::{Engine, EngineConfig, Record, Resumed};
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::outer::{Budget, OuterState};
use atoll_protocol::planted::Planted;
use atoll_protocol::pool::Inline;
use atoll_protocol::time::Time;

use super::part::Part;
use crate::island::Island;
use crate::island::host::{Accounts, Checkpoint};
use crate::observe::{Event, Observer};
use crate::store::{Store, StoreError};

/// What everything is revived with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revival<'a> {
    pub(super) key: &'a Key,
    pub(super) genesis: &'a Genesis,
    pub(super) observer: &'a Observer,
    pub(super) sponsor: Option<NodeId>,
}

/// What goes on from the disk.
#[derive(Debug)]
pub(super) struct Revived {
    pub(super) store: Store,
    pub(super) engine: Engine,
    pub(super) parts: Vec<Part>,
    pub(super) incarnation: u64,
}

impl Revival<'_> {
    /// The island's checkpoint, if there is one that can be read.
    pub(super) fn checkpoint(&self, store: &Store) -> Option<(PathBuf, Checkpoint)> {
        let folder = store.checkpoint()?;
        match Checkpoint::read(&folder, self.genesis) {
            Ok(checkpoint) => Some((folder, checkpoint)),
            Err(error) => {
                self.recovered(format!("{error}; the island begins with the outer state"));
                None
            }
        }
    }

    /// The engine, and the folds that its records speak of. If a base that they speak of is
    /// gone, they are put aside, and the swarm gives everything back.
    pub(super) fn engine(
        &self,
        store: Store,
        resumed: Vec<Resumed>,
        trains: bool,
        now: Time,
    ) -> Result<Revived, StoreError> {
        let initial = initial(self.genesis);
        let digests: Vec<ContentId> = initial.iter().map(|(_, digest)| *digest).collect();
        let mut store = store;
        loop {
            let incarnation = store.begin()?;
            let records = store.records()?;
            let empty = records.is_empty();
            let config = EngineConfig {
                genesis: self.genesis.clone(),
                initial: digests.clone(),
                key: self.key.clone(),
                incarnation,
                seed: incarnation ^ seed(&self.key.node()),
                trains,
                founds: store.is_founder() && incarnation == 1,
                sponsor: self.sponsor,
                resumed: resumed.clone(),
                lost: store.missing()?,
                signed: unrecorded(&store, &records, &self.key.node(), initial.len()),
                planted: Planted::default(),
            };
            let engine = Engine::new(config, records, now);
            match self.parts(&engine, &store, &initial) {
                Ok(parts) => {
                    self.started(incarnation, !empty);
                    return Ok(Revived { store, engine, parts, incarnation });
                }
                Err(reason) if !empty => {
                    let (folder, budget) = (store.folder().to_owned(), store.budget());
                    drop(store);
                    let kept = Store::start_over(&folder)?;
                    let kept = kept.map(|path| path.display().to_string()).unwrap_or_default();
                    self.recovered(format!(
                        "{reason}; the records are kept as {kept}, and the swarm is asked for \
                         its state"
                    ));
                    store = Store::open(&folder)?;
                    store.set_budget(budget);
                }
                Err(reason) => unreachable!("without records every base is initial: {reason}"),
            }
        }
    }

    fn parts(
        &self,
        engine: &Engine,
        store: &Store,
        initial: &[(OuterState, ContentId)],
    ) -> Result<Vec<Part>, String> {
        let map = self.genesis.fragment_map();
        let budget = Budget::of_run(map.elements() as u64);
        let mut parts = Vec::new();
        for (fragment, (first, first_digest)) in map.fragments().iter().zip(initial) {
            let status = engine.status(fragment.id);
            let digest = status.map_or(*first_digest, |status| status.base_digest);
            let state = if digest == *first_digest {
                first.clone()
            } else {
                let bytes = store.base(&digest).map_err(|error| error.to_string())?;
                let bytes = bytes.ok_or_else(|| format!("outer state {digest} is gone"))?;
                OuterState::from_bytes(&bytes, fragment).map_err(|error| error.to_string())?
            };
            parts.push(Part::new(fragment.clone(), self.genesis, state, digest, budget));
        }
        Ok(parts)
    }

    /// The accounts of an island that goes on from its checkpoint, and the island with them.
    pub(super) fn accounts(
        &self,
        island: &mut dyn Island,
        store: &Store,
        engine: &Engine,
        checkpoint: Option<(PathBuf, Checkpoint)>,
    ) -> Option<Accounts> {
        let (folder, checkpoint) = checkpoint?;
        let last_capture = |fragment| engine.status(fragment).and_then(|it| it.last_capture);
        let payload = |id: &ContentId| store.content(id).ok().flatten();
        let restored = island
            .restore(&folder)
            .and_then(|()| checkpoint.accounts(island, self.genesis, last_capture, payload));
        match restored {
            Ok(accounts) => {
                self.recovered("the island goes on from its checkpoint".to_owned());
                Some(accounts)
            }
            Err(error) => {
                self.recovered(format!("{error}; the island begins with the outer state"));
                None
            }
        }
    }

    fn started(&self, incarnation: u64, resumed: bool) {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let node = self.key.node();
        self.observer.event(Event::Started { program, node, incarnation, resumed });
    }

    fn recovered(&self, what: String) {
        self.observer.event(Event::Recovered { what });
    }
}

/// The outer states that the run begins with, and their digests.
fn initial(genesis: &Genesis) -> Vec<(OuterState, ContentId)> {
    let map = genesis.fragment_map();
    let states = map.fragments().iter().map(|fragment| {
        let state = OuterState::new(fragment.id, &genesis.initial(fragment));
        let digest = state.digest(&Inline);
        (state, digest)
    });
    states.collect()
}

/// For each fragment, the last round this node signed for if no record knows of it.
fn unrecorded(store: &Store, records: &[Record], own: &NodeId, fragments: usize) -> Vec<Version> {
    let mut recorded = vec![0; fragments];
    for record in records {
        if let Record::Contribution(signed) = record
            && signed.body.author == *own
            && let Some(newest) = recorded.get_mut(signed.body.fragment.index())
        {
            *newest = signed.body.round.max(*newest);
        }
    }
    let floors = (0..).map(FragmentId).zip(recorded).map(|(fragment, newest)| {
        let floor = store.signed_floor(fragment);
        if floor > newest { floor } else { 0 }
    });
    floors.collect()
}

/// Whom to ask first differs from node to node and from start to start.
fn seed(node: &NodeId) -> u64 {
    let (bytes, _) = node.0.split_first_chunk().expect("an id has 32 bytes");
    u64::from_le_bytes(*bytes)
}
