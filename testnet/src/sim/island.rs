//! An island: a toy learner and, for each fragment, local = outer + pending + fresh.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::{Record, Resumed};
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::island::Account;
use atoll_protocol::planted::Bug;

use super::disk::Disk;
use super::node::Known;
use super::shadow::{Payloads, Shadow};
use super::shared::Shared;
use crate::toy::{LEARNING_RATE, Learner, LearnerCheckpoint};

/// A training island.
#[derive(Debug)]
pub(super) struct Island {
    learner: Learner,
    /// The whole model, tensors in name order.
    params: Vec<f32>,
    parts: Vec<Part>,
    /// Own payloads.
    captures: BTreeMap<ContentId, Rc<[u8]>>,
    /// The captures of this life, by fragment, in order.
    made: Vec<Vec<ContentId>>,
    /// What is to be done at the next step boundary, in order.
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
    learner: LearnerCheckpoint,
    params: Vec<f32>,
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

impl Island {
    /// An island at the beginning of `shard`.
    pub(super) fn new(shared: &Shared, shard: u64) -> Self {
        let mut params = vec![0.0; shared.parameters()];
        let mut parts = Vec::new();
        for state in &shared.initial {
            shared.scatter(state.fragment(), state.params(), &mut params);
            parts.push(Part {
                account: Account::new(state.params()),
                shadow: Shadow::new(state.params().len()),
                last_capture: None,
                steps: 0,
                fresh: 0,
            });
        }
        let learner = Learner::new(&shared.task, shard);
        let made = vec![Vec::new(); parts.len()];
        let captures = BTreeMap::new();
        Self { learner, params, parts, captures, made, errands: VecDeque::new() }
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
    ) {
        self.recall_captures(disk, own);
        if let Some(checkpoint) = disk.checkpoint() {
            self.learner.restore(checkpoint.learner.clone());
            self.params.clone_from(&checkpoint.params);
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
            shared.scatter(fragment, &local, &mut self.params);
            let captures = &self.captures;
            part.shadow.restart(shared, &issued(fragment), |payload| {
                captures.get(payload).map(|bytes| &**bytes)
            });
        }
    }

    /// One step of training. Returns its tokens.
    pub(super) fn step(&mut self, shared: &Shared) -> u64 {
        let before = self.params.clone();
        let tokens = self.learner.step(&shared.task, &mut self.params, LEARNING_RATE);
        for fragment in shared.ids() {
            let part = &mut self.parts[fragment.index()];
            part.steps += 1;
            part.fresh += tokens;
            let (from, to) =
                (shared.gather(fragment, &before), shared.gather(fragment, &self.params));
            part.shadow.moved(&from, &to);
        }
        tokens
    }

    /// Encodes what is fresh. None if training has left the finite numbers.
    pub(super) fn capture(&mut self, shared: &Shared, fragment: FragmentId) -> Option<Rc<[u8]>> {
        let local = shared.gather(fragment, &self.params);
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
        let part = &mut self.parts[adoption.fragment.index()];
        let mut local = shared.gather(adoption.fragment, &self.params);
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
        shared.scatter(adoption.fragment, &local, &mut self.params);
        Ok(())
    }

    /// The content of these own payloads is gone: should they ever leave the outer state, nobody
    /// can bring them back.
    pub(super) fn forget(&mut self, fragment: FragmentId, payloads: &[ContentId]) {
        self.parts[fragment.index()].shadow.forget(payloads);
    }

    /// How far local is from outer + what the shadow says is not merged.
    pub(super) fn conservation(&self, shared: &Shared, fragment: FragmentId) -> Option<f64> {
        let part = self.parts.get(fragment.index())?;
        let local = shared.gather(fragment, &self.params);
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
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            learner: self.learner.checkpoint(),
            params: self.params.clone(),
            parts: self.parts.clone(),
        }
    }

    /// Steps taken since the beginning of the shard.
    pub(super) fn steps(&self) -> u64 {
        self.learner.steps()
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
