//! An island: something that learns and, for each fragment, local = outer + pending + fresh.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use atoll_node::island::{self, IslandError};
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::{Record, Resumed};
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::island::Account;
use atoll_protocol::planted::Bug;
use tempfile::TempDir;

use super::disk::Disk;
use super::node::Known;
use super::shadow::{Payloads, Shadow};
use super::shared::Shared;

/// A training island.
pub(super) struct Island {
    /// Looking at its parameters may mean fetching them, so it takes the island itself.
    pupil: RefCell<Box<dyn island::Island>>,
    steps: u64,
    parts: Vec<Part>,
    /// Own payloads.
    captures: BTreeMap<ContentId, Rc<[u8]>>,
    /// The captures of this life, by fragment, in order.
    made: Vec<Vec<ContentId>>,
    /// What is to be done after the piece of a step in work, in order.
    pub(super) errands: VecDeque<Errand>,
}

/// Something an engine asked for.
#[derive(Debug)]
pub(super) enum Errand {
    /// Capture a fragment.
    Capture(FragmentId),
    /// Adopt an outer version.
    Adopt(Box<Adoption>),
}

/// An outer version to adopt, with all that it takes.
#[derive(Debug)]
pub(super) struct Adoption {
    pub(super) fragment: FragmentId,
    pub(super) version: Version,
    pub(super) pending: Vec<Rc<[u8]>>,
    pub(super) reissued: Vec<Rc<[u8]>>,
    pub(super) known: Known,
}

/// Everything an island needs to go on after a restart.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// What the learner wrote.
    saved: Rc<TempDir>,
    steps: u64,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    account: Account,
    shadow: Shadow,
    last_capture: Option<ContentId>,
    steps: u32,
    fresh: u64,
}

impl fmt::Debug for Island {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Island").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl Island {
    /// The island with this number in the run of `seed`, at the beginning.
    pub(super) fn new(shared: &Shared, seed: u64, number: u64) -> Result<Self, IslandError> {
        let mut parts = Vec::new();
        for state in &shared.initial {
            parts.push(Part {
                account: Account::new(state.params()),
                shadow: Shadow::new(state.params().len()),
                last_capture: None,
                steps: 0,
                fresh: 0,
            });
        }
        let pupil = RefCell::new(shared.lesson.island(seed, number)?);
        let made = vec![Vec::new(); parts.len()];
        let (captures, errands) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { pupil, steps: 0, parts, captures, made, errands })
    }

    /// Goes back to what the disk holds. `last_capture` is what the engine remembers of each
    /// fragment: if a capture came after the checkpoint, it contains what was fresh then.
    pub(super) fn restore(
        &mut self,
        shared: &Shared,
        disk: &Disk,
        own: NodeId,
        last_capture: impl Fn(FragmentId) -> Option<ContentId>,
        issued: impl Fn(FragmentId) -> Payloads,
    ) -> Result<(), IslandError> {
        self.recall_captures(disk, own);
        if let Some(checkpoint) = disk.checkpoint() {
            self.pupil.get_mut().restore(checkpoint.saved.path())?;
            self.steps = checkpoint.steps;
            self.parts.clone_from(&checkpoint.parts);
        }
        for fragment in shared.ids() {
            let part = &mut self.parts[fragment.index()];
            let known = last_capture(fragment);
            if part.last_capture == known {
                continue;
            }
            (part.last_capture, part.steps, part.fresh) = (known, 0, 0);
            let held = part.account.outer().iter().zip(part.account.pending());
            let local: Vec<f32> = held.map(|(outer, pending)| outer + pending).collect();
            self.pupil.get_mut().change(fragment, &mut |part| part.copy_from_slice(&local))?;
            let captures = &self.captures;
            part.shadow.restart(shared, &issued(fragment), |payload| {
                captures.get(payload).map(|bytes| &**bytes)
            });
        }
        Ok(())
    }

    /// A piece of a step that is not its last.
    pub(super) fn piece(&mut self, shared: &Shared, trained: u64) -> Result<(), IslandError> {
        let done = self.pupil.get_mut().advance(shared.lesson.rate(trained), &|| true)?;
        assert!(done.is_none(), "a step has fewer pieces than its lesson says");
        Ok(())
    }

    /// The last piece of a step, or all of it, at the rate for a swarm that has trained so many
    /// tokens. Returns its own tokens.
    pub(super) fn step(&mut self, shared: &Shared, trained: u64) -> Result<u64, IslandError> {
        let before: Result<Vec<_>, _> = shared.ids().map(|it| self.local(it)).collect();
        let before = before?;
        let tokens = self.pupil.get_mut().step(shared.lesson.rate(trained))?.tokens;
        self.steps += 1;
        for (fragment, from) in shared.ids().zip(&before) {
            let to = self.local(fragment)?;
            let part = &mut self.parts[fragment.index()];
            part.steps += 1;
            part.fresh += tokens;
            part.shadow.moved(from, &to);
        }
        Ok(tokens)
    }

    /// A fragment's parameters as they are now.
    fn local(&self, fragment: FragmentId) -> Result<Vec<f32>, IslandError> {
        let mut local = Vec::new();
        self.pupil.borrow_mut().read(fragment, &mut |part| local.extend_from_slice(part))?;
        Ok(local)
    }

    /// Encodes what is fresh. None if training has left the finite numbers.
    pub(super) fn capture(&mut self, shared: &Shared, fragment: FragmentId) -> Option<Rc<[u8]>> {
        let local = self.local(fragment).ok()?;
        let part = &mut self.parts[fragment.index()];
        let codec = shared.genesis.codec;
        let bytes: Rc<[u8]> =
            part.account.capture(&local, codec, shared.pool.as_ref()).ok()?.into();
        let payload = content_id(&bytes);
        (part.last_capture, part.steps, part.fresh) = (Some(payload), 0, 0);
        part.shadow.captured(shared, payload, &bytes);
        self.captures.insert(payload, bytes.clone());
        self.made[fragment.index()].push(payload);
        Some(bytes)
    }

    /// Moves to an outer version and takes the local progress along.
    pub(super) fn adopt(&mut self, shared: &Shared, adoption: &Adoption) -> Result<(), String> {
        let local = self.local(adoption.fragment);
        let mut local = local.map_err(|error| error.to_string())?;
        let part = &mut self.parts[adoption.fragment.index()];
        let mut pending: Vec<&[u8]> = adoption.pending.iter().map(|bytes| &**bytes).collect();
        let mut reissued: Vec<&[u8]> = adoption.reissued.iter().map(|bytes| &**bytes).collect();
        // Captures that the engine had not heard of when it spoke are pending all the same.
        let unheard = self.made[adoption.fragment.index()].iter().skip(adoption.known.captures);
        let unheard = unheard.filter_map(|id| self.captures.get(id));
        pending.extend(unheard.map(|bytes| &**bytes));
        if shared.planted.is(Bug::DoubleCountOnAdopt) {
            let held = part.account.captured().iter().filter_map(|id| self.captures.get(id));
            let held = held.map(|bytes| &**bytes);
            let kept: Vec<&[u8]> = held
                .filter(|bytes| !pending.contains(bytes) && !reissued.contains(bytes))
                .collect();
            pending.extend(kept);
        }
        if shared.planted.is(Bug::LostOnExpiry) {
            reissued.clear();
        }
        let codec = shared.genesis.codec;
        part.account
            .adopt(
                &mut local,
                &adoption.known.head,
                &pending,
                &reissued,
                codec,
                shared.pool.as_ref(),
            )
            .map_err(|error| format!("own payload of {}: {error}", adoption.fragment))?;
        part.shadow.adopted(&adoption.known, &local);
        let pupil = self.pupil.get_mut();
        let changed = pupil.change(adoption.fragment, &mut |part| part.copy_from_slice(&local));
        changed.map_err(|error| error.to_string())
    }

    /// The content of these own payloads is gone: should they ever leave the outer state, nobody
    /// can bring them back.
    pub(super) fn forget(&mut self, fragment: FragmentId, payloads: &[ContentId]) {
        self.parts[fragment.index()].shadow.forget(payloads);
    }

    /// How far local is from outer + what the shadow says is not merged.
    pub(super) fn conservation(&self, fragment: FragmentId) -> Option<f64> {
        let part = self.parts.get(fragment.index())?;
        let local = self.local(fragment).ok()?;
        part.shadow.error(&local, part.account.outer())
    }

    /// What the engine is to be told when it starts from this island's checkpoint.
    pub(super) fn resumed(checkpoint: &Checkpoint) -> Vec<Resumed> {
        let parts = checkpoint.parts.iter();
        parts
            .map(|part| Resumed {
                last_capture: part.last_capture,
                steps: part.steps,
                fresh: part.fresh,
            })
            .collect()
    }

    /// All that must survive.
    pub(super) fn checkpoint(&self) -> Result<Checkpoint, IslandError> {
        let path = std::env::temp_dir();
        let folder = tempfile::tempdir().map_err(|source| IslandError::File { path, source })?;
        self.pupil.borrow_mut().save(folder.path())?;
        let (saved, parts) = (Rc::new(folder), self.parts.clone());
        Ok(Checkpoint { saved, steps: self.steps, parts })
    }

    /// Steps taken since the beginning of the shard.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    fn recall_captures(&mut self, disk: &Disk, own: NodeId) {
        for record in disk.records() {
            if let Record::Contribution(signed) = record
                && signed.body.author == own
                && let Some(bytes) = disk.content(&signed.body.payload)
            {
                self.captures.insert(signed.body.payload, bytes.clone());
            }
        }
    }
}
