//! The fold of one fragment: a base, the rounds after it, and the head they lead to.
//!
//! A late contribution changes a round that was folded before. The fold then starts again from
//! the nearest state it remembers, merges only the rounds whose cut is new to it, and takes the
//! steps of all later rounds in a few passes. See [`memory`] for what is remembered.

mod memory;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{Codec, PayloadError};
use crate::fragment::Fragment;
use crate::genesis::{Genesis, Merge, Outer};
use crate::id::{ContentId, ContributionId, FragmentId, NodeId, Version};
use crate::outer::budget::Budget;
use crate::outer::fold::memory::Memory;
use crate::outer::merge::{Member, merge_into};
use crate::outer::norm::Norms;
use crate::outer::state::{OuterState, SnapshotError};
use crate::outer::step::steps;
use crate::pool::Pool;

/// One fragment's outer state, from its base to its head.
pub struct Fold {
    fragment: Fragment,
    outer: Outer,
    merge: Merge,
    codec: Codec,
    base: OuterState,
    head: OuterState,
    /// Every round after the base, up to the head.
    rounds: VecDeque<Folded>,
    /// Digests of versions that were the head and have not changed since.
    digests: BTreeMap<Version, ContentId>,
    memory: Memory,
}

/// What a round merges, in canonical order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The version it makes.
    pub round: Version,
    /// Its contributions, by author.
    pub members: Vec<CutMember>,
}

/// One contribution of a cut, as far as the fold needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutMember {
    /// The contribution.
    pub id: ContributionId,
    /// Who made it.
    pub author: NodeId,
    /// The tokens it claims.
    pub tokens: u64,
    /// Its payload.
    pub payload: ContentId,
}

/// Where the fold finds the payloads of admitted contributions.
pub trait Payloads {
    /// A payload's bytes and what [`crate::outer::check`] measured of it for this fragment, whose
    /// pieces are not those of another: borrowed from a store in memory, or owned when it had to
    /// be read. Only asked for rounds that must be merged.
    fn payload(
        &self,
        id: &ContentId,
        fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)>;
}

/// Why a fold could not go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FoldError {
    /// The cuts are not every round after the base in order.
    #[error("a cut for round {found} where round {expected} belongs")]
    Gap {
        /// The round that belongs there.
        expected: Version,
        /// The round that was given.
        found: Version,
    },
    /// A payload is not in the store.
    #[error("payload {payload} of round {round} is missing")]
    Missing {
        /// The round that needs it.
        round: Version,
        /// The payload.
        payload: ContentId,
    },
    /// A payload does not decode, although it was admitted.
    #[error("a payload of round {round}: {error}")]
    Payload {
        /// The round that needs it.
        round: Version,
        /// Why.
        error: PayloadError,
    },
    /// The version is not between base and head.
    #[error("version {version} is not between base {base} and head {head}")]
    Outside {
        /// The version asked for.
        version: Version,
        /// The base's version.
        base: Version,
        /// The head's version.
        head: Version,
    },
}

impl Fold {
    /// A fold that begins at `base`, with no rounds.
    pub fn new(fragment: Fragment, genesis: &Genesis, base: OuterState, budget: Budget) -> Self {
        assert_eq!(base.elements(), fragment.elements, "the base is a state of this fragment");
        Self {
            memory: Memory::new(fragment.elements, budget),
            fragment,
            outer: genesis.outer,
            merge: genesis.merge,
            codec: genesis.codec,
            head: base.clone(),
            base,
            rounds: VecDeque::new(),
            digests: BTreeMap::new(),
        }
    }

    /// The state that no late contribution can change any more.
    pub fn base(&self) -> &OuterState {
        &self.base
    }

    /// The newest version.
    pub fn head(&self) -> &OuterState {
        &self.head
    }

    /// Copies of the parameters that it has beside base and head.
    pub fn copies(&self) -> usize {
        let merges = self.rounds.iter().filter(|round| round.merged.is_some()).count();
        merges + self.memory.held()
    }

    /// The most copies that it ever had, also in the middle of its work.
    pub fn copies_most(&self) -> usize {
        self.memory.made().1
    }

    /// Makes the head the fold of the base and `cuts`, which lists every round after the base in
    /// order, and returns the head's digest.
    ///
    /// A round whose contributions are those of the last time is not merged again while its
    /// merge is remembered, and no round is stepped again before the first changed one.
    ///
    /// On an error the head is the fold of a shorter but true list of rounds; call again when
    /// the cause is gone.
    pub fn refold(
        &mut self,
        cuts: &[Cut],
        payloads: &dyn Payloads,
        pool: &dyn Pool,
    ) -> Result<ContentId, FoldError> {
        let first = self.base.version() + 1;
        for (cut, expected) in cuts.iter().zip(first..) {
            if cut.round != expected {
                return Err(FoldError::Gap { expected, found: cut.round });
            }
        }
        let same = self.rounds.iter().zip(cuts).take_while(|(old, cut)| old.is(cut)).count();
        if same < self.rounds.len() {
            self.rewind(first + version_offset(same) - 1, pool);
        }
        self.plan(same, &cuts[same..]);
        let climbed = self.climb(payloads, pool);
        // After a failure only the rounds that the head contains are true.
        self.truncate();
        debug_assert_eq!(self.copies(), self.memory.made().0, "no buffer is lost");
        climbed?;
        Ok(self.digest(pool))
    }

    /// Makes version `to` the base, forgets what came before it and returns its digest.
    ///
    /// Only some merges are remembered, so the rounds up to `to` may need their payloads once
    /// more: they may be dropped after this call, not before. On an error the base is the newest
    /// version that could be reached; if `to` is the next one, that is the base as it was.
    pub fn advance_base(
        &mut self,
        to: Version,
        payloads: &dyn Payloads,
        pool: &dyn Pool,
    ) -> Result<ContentId, FoldError> {
        let (base, head) = (self.base.version(), self.head.version());
        if to < base || to > head {
            return Err(FoldError::Outside { version: to, base, head });
        }
        self.lift_base(to, pool);
        while self.base.version() < to {
            let from = self.base.version();
            let end = self.merge_rounds(from, to, payloads, pool)?;
            // All merges are there, so nothing can fail once the base has changed.
            let merges = merges(&self.rounds, 0, self.index_after(end));
            steps(&mut self.base, &self.outer, &merges, pool);
            self.forget_stable((end - from) as usize);
        }
        debug_assert_eq!(self.copies(), self.memory.made().0, "no buffer is lost");
        let known = self.digests.get(&to).copied();
        let digest = known.unwrap_or_else(|| self.base.digest(pool));
        self.digests.insert(to, digest);
        Ok(digest)
    }

    /// Begins again at a snapshot from a peer: base and head are that state. On an error nothing
    /// has changed.
    pub fn install(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        OuterState::check(snapshot, &self.fragment)?;
        self.rounds.clear();
        self.digests.clear();
        self.memory.clear();
        self.base.copy_from_bytes(snapshot);
        self.head.copy_from_bytes(snapshot);
        Ok(())
    }

    /// The head's digest, computed at most once for each state.
    fn digest(&mut self, pool: &dyn Pool) -> ContentId {
        let head = &self.head;
        *self.digests.entry(head.version()).or_insert_with(|| head.digest(pool))
    }

    /// Takes the head back to the nearest remembered state at or before `version`, and forgets
    /// the states after `version`, which are about to change.
    fn rewind(&mut self, version: Version, pool: &dyn Pool) {
        self.digests.retain(|known, _| *known <= version);
        self.memory.forget_anchors(|known| known > version);
        match self.memory.anchor_before(version) {
            Some(anchor) => anchor.copy_to(&mut self.head, pool),
            None => self.head.copy_from(&self.base, pool),
        }
    }

    /// Takes the base forward to the nearest remembered state at or before `to`.
    fn lift_base(&mut self, to: Version, pool: &dyn Pool) {
        let from = self.base.version();
        if to == self.head.version() && to > from {
            self.base.copy_from(&self.head, pool);
        } else if let Some(anchor) = self.memory.anchor_before(to) {
            anchor.copy_to(&mut self.base, pool);
        }
        self.forget_stable((self.base.version() - from) as usize);
    }

    /// Forgets the first `count` rounds, which are part of the base now.
    fn forget_stable(&mut self, count: usize) {
        let base = self.base.version();
        self.rounds.drain(..count).filter_map(|it| it.merged).for_each(|it| self.memory.give(it));
        self.digests.retain(|version, _| *version >= base);
        self.memory.forget_anchors(|version| version <= base);
    }

    /// Lists `cuts` as the rounds from index `same` on; a merge stays if its cut does.
    fn plan(&mut self, same: usize, cuts: &[Cut]) {
        let mut old = self.rounds.split_off(same).into_iter();
        for cut in cuts {
            let known = old.next();
            let members = cut.members.clone();
            let merged = match known {
                Some(known) if known.is(cut) => known.merged,
                Some(known) => {
                    known.merged.into_iter().for_each(|buffer| self.memory.give(buffer));
                    None
                }
                None => None,
            };
            self.rounds.push_back(Folded { members, merged });
        }
        old.filter_map(|it| it.merged).for_each(|buffer| self.memory.give(buffer));
    }

    /// Forgets whatever is beyond the head.
    fn truncate(&mut self) {
        let head = self.head.version();
        let done = self.index_after(head);
        self.rounds.drain(done..).filter_map(|it| it.merged).for_each(|it| self.memory.give(it));
        self.digests.retain(|version, _| *version <= head);
        self.memory.forget_anchors(|version| version > head);
    }

    /// Steps the head through the rounds it lacks.
    fn climb(&mut self, payloads: &dyn Payloads, pool: &dyn Pool) -> Result<(), FoldError> {
        let target = self.base.version() + version_offset(self.rounds.len());
        let plan = self.memory.plan();
        while self.head.version() < target {
            let from = self.head.version();
            let stop = plan.stop_after(from);
            let to = self.merge_rounds(from, target.min(stop), payloads, pool)?;
            let merges = merges(&self.rounds, self.index_after(from), self.index_after(to));
            steps(&mut self.head, &self.outer, &merges, pool);
            if to == stop && self.is_far() {
                self.remember_head(pool);
            }
        }
        Ok(())
    }

    /// Makes the head an anchor, in the place of the oldest merges if there is no other.
    fn remember_head(&mut self, pool: &dyn Pool) {
        let version = self.head.version();
        self.memory.thin_anchors(version);
        let before = self.index_after(version);
        let mut merges = self.rounds.iter_mut().take(before).filter_map(|it| it.merged.take());
        while self.memory.room() < 2
            && let Some(buffer) = merges.next()
        {
            self.memory.give(buffer);
        }
        self.memory.remember(&self.head, pool);
    }

    /// Whether the base is so far behind the newest round that re-folds begin at anchors.
    fn is_far(&self) -> bool {
        self.memory.plan().is_far(self.rounds.len())
    }

    /// Merges the rounds after `from`, at least one and up to `to` as far as there is room.
    /// Returns the last that is merged.
    fn merge_rounds(
        &mut self,
        from: Version,
        to: Version,
        payloads: &dyn Payloads,
        pool: &dyn Pool,
    ) -> Result<Version, FoldError> {
        for round in from + 1..=to {
            let index = self.index_after(round) - 1;
            if self.rounds[index].merged.is_some() {
                continue;
            }
            let mut out = match self.memory.take() {
                Some(buffer) => buffer,
                None if round == from + 1 => self.give_up(index),
                None => return Ok(round - 1),
            };
            let members = &self.rounds[index].members;
            if let Err(error) = self.merge_round(round, members, payloads, &mut out, pool) {
                self.memory.give(out);
                return Err(error);
            }
            self.rounds[index].merged = Some(out);
        }
        Ok(to)
    }

    /// A buffer of something that is remembered, to merge the round at `index`, which has the
    /// next step: of a round before it, as those have been stepped, or else of the last.
    fn give_up(&mut self, index: usize) -> Vec<f32> {
        let far = self.is_far();
        if !far && self.memory.forget_oldest_anchor() {
            return self.memory.take().expect("an anchor has two");
        }
        let held = |index: &usize| self.rounds[*index].merged.is_some();
        // Near the head merges are worth most where re-folds begin at anchors, else near the base.
        let before = if far { (0..index).find(held) } else { (0..index).rfind(held) };
        let victim = before.or_else(|| (index + 1..self.rounds.len()).rfind(held));
        let merged = victim.and_then(|victim| self.rounds[victim].merged.take());
        merged.expect("anchors alone do not fill a budget")
    }

    fn merge_round(
        &self,
        round: Version,
        members: &[CutMember],
        payloads: &dyn Payloads,
        out: &mut [f32],
        pool: &dyn Pool,
    ) -> Result<(), FoldError> {
        let mut found = Vec::with_capacity(members.len());
        for member in members {
            let missing = FoldError::Missing { round, payload: member.payload };
            found.push(payloads.payload(&member.payload, self.fragment.id).ok_or(missing)?);
        }
        let members: Vec<Member<'_>> = members
            .iter()
            .zip(&found)
            .map(|(member, (payload, norms))| Member { tokens: member.tokens, payload, norms })
            .collect();
        merge_into(&self.fragment, &self.merge, self.codec, &members, out, pool)
            .map_err(|error| FoldError::Payload { round, error })
    }

    /// How many rounds lead from the base to `version`.
    fn index_after(&self, version: Version) -> usize {
        (version - self.base.version()) as usize
    }
}

impl fmt::Debug for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold")
            .field("base", &self.base)
            .field("head", &self.head)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// A round that is part of the fold.
struct Folded {
    members: Vec<CutMember>,
    /// Its pseudo-gradient, while it is remembered.
    merged: Option<Vec<f32>>,
}

impl Folded {
    /// Whether it is the fold of exactly this cut.
    fn is(&self, cut: &Cut) -> bool {
        let ids = self.members.iter().map(|member| member.id);
        ids.eq(cut.members.iter().map(|member| member.id))
    }
}

/// The merges of rounds `from..to`, counted from the base.
fn merges(rounds: &VecDeque<Folded>, from: usize, to: usize) -> Vec<&[f32]> {
    let merged = |round| -> &[f32] {
        let round: &Folded = round;
        round.merged.as_deref().expect("merged just before")
    };
    rounds.range(from..to).map(merged).collect()
}

fn version_offset(rounds: usize) -> Version {
    Version::try_from(rounds).expect("a horizon has at most 4096 rounds")
}
