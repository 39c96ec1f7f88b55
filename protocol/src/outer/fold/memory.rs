//! What a fold remembers so that a late contribution is cheap, within its budget.
//!
//! Everything is made of one kind of buffer, a copy of the parameters: a merge is one, an anchor
//! is two. While the base is near, merges are all that is needed: a re-fold begins at the base.
//! When it is too far behind for that, there are also anchors: copies of the state at multiples
//! of the stride, dense near the head and twice as sparse each time their age doubles; and the
//! oldest merges go first. With an ample budget a contribution up to a stride late then costs one
//! merge and a pass over remembered merges; one that is `d` rounds late costs about `2 d` merges
//! at worst, however far back the base is. A smaller budget has a shorter stride, fewer anchors
//! and fewer merges.
//!
//! The smallest have no anchors, and keep the merges nearest to the base: a re-fold needs all of
//! them, and the next to be folded into the base needs one.
//!
//! Buffers are used again: the page faults of a fresh one cost more than a step.

use std::fmt;

use crate::id::Version;
use crate::outer::budget::Budget;
use crate::outer::state::{OuterState, copy};
use crate::pool::Pool;

/// Anchors, buffers to use again, and how many buffers there are.
pub(super) struct Memory {
    elements: usize,
    budget: Budget,
    plan: Plan,
    /// Buffers that are anywhere: in anchors, spare, or taken.
    made: usize,
    /// The most there ever were.
    most: usize,
    /// In ascending order of version.
    anchors: Vec<Anchor>,
    spares: Vec<Vec<f32>>,
}

/// The state at one version.
pub(super) struct Anchor {
    version: Version,
    params: Vec<f32>,
    momentum: Vec<f32>,
}

/// How a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rounds between anchors near the head.
    stride: Version,
    /// Anchors at most.
    anchors: usize,
    /// Rounds between base and head from which on there are anchors.
    far: usize,
}

impl Memory {
    pub(super) fn new(elements: usize, budget: Budget) -> Self {
        let plan = Plan::of(budget);
        Self { elements, budget, plan, made: 0, most: 0, anchors: Vec::new(), spares: Vec::new() }
    }

    /// How the budget is spent.
    pub(super) fn plan(&self) -> Plan {
        self.plan
    }

    /// Buffers that are anywhere, and the most there ever were.
    pub(super) fn made(&self) -> (usize, usize) {
        (self.made, self.most)
    }

    /// Buffers in anchors, and spare.
    pub(super) fn held(&self) -> usize {
        2 * self.anchors.len() + self.spares.len()
    }

    /// Buffers that can be taken.
    pub(super) fn room(&self) -> usize {
        self.budget.copies() - self.made + self.spares.len()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self { most: self.most, ..Self::new(self.elements, self.budget) };
    }

    /// A buffer, holding anything, unless the budget is spent.
    pub(super) fn take(&mut self) -> Option<Vec<f32>> {
        self.spares.pop().or_else(|| {
            (self.made < self.budget.copies()).then(|| {
                self.made += 1;
                self.most = self.most.max(self.made);
                vec![0.0; self.elements]
            })
        })
    }

    /// Takes a buffer back.
    pub(super) fn give(&mut self, buffer: Vec<f32>) {
        if self.spares.len() < SPARES_MAX {
            self.spares.push(buffer);
        } else {
            self.made -= 1;
        }
    }

    /// The newest anchor at or before `version`.
    pub(super) fn anchor_before(&self, version: Version) -> Option<&Anchor> {
        self.anchors.iter().rev().find(|anchor| anchor.version <= version)
    }

    /// Of the anchors, keeps those that still earn their place when `newest` becomes one.
    pub(super) fn thin_anchors(&mut self, newest: Version) {
        let plan = self.plan;
        self.forget_anchors(|version| version >= newest || !plan.keeps(version, newest));
        if self.anchors.len() == plan.anchors {
            self.forget_oldest_anchor();
        }
    }

    /// Keeps a copy of `head` as an anchor, if there is room.
    pub(super) fn remember(&mut self, head: &OuterState, pool: &dyn Pool) {
        let Some(mut params) = self.take() else { return };
        let Some(mut momentum) = self.take() else { return self.give(params) };
        copy(&mut params, head.params(), pool);
        copy(&mut momentum, head.momentum(), pool);
        self.anchors.push(Anchor { version: head.version(), params, momentum });
    }

    /// Drops the oldest anchor; false if there is none.
    pub(super) fn forget_oldest_anchor(&mut self) -> bool {
        let oldest = self.anchors.first().map(|anchor| anchor.version);
        self.forget_anchors(|version| Some(version) == oldest);
        oldest.is_some()
    }

    /// Drops the anchors whose version is one of these.
    pub(super) fn forget_anchors(&mut self, drops: impl Fn(Version) -> bool) {
        while let Some(index) = self.anchors.iter().position(|anchor| drops(anchor.version)) {
            let Anchor { params, momentum, .. } = self.anchors.remove(index);
            self.give(params);
            self.give(momentum);
        }
    }
}

impl Anchor {
    /// Makes `state` the remembered one.
    pub(super) fn copy_to(&self, state: &mut OuterState, pool: &dyn Pool) {
        state.set_version(self.version);
        state.copy_from_parts(&self.params, &self.momentum, pool);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<Version> = self.anchors.iter().map(|anchor| anchor.version).collect();
        f.debug_struct("Memory")
            .field("budget", &self.budget)
            .field("made", &self.made)
            .field("anchors", &versions)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// The longest stride for which there is room for merges of two strides, so that a
    /// contribution one stride late finds an anchor before its round and all merges after that
    /// anchor.
    fn of(budget: Budget) -> Self {
        let copies = budget.copies();
        if copies < 2 * ANCHORS_MIN + 1 {
            return Self { stride: Version::MAX, anchors: 0, far: usize::MAX };
        }
        let fits = |stride: &Version| merges_of(*stride) + 2 * ANCHORS_MAX <= copies;
        let stride = STRIDES.into_iter().find(fits).unwrap_or(STRIDE_MIN);
        let anchors = copies.saturating_sub(merges_of(stride)) / 2;
        // A little before merges alone no longer do, so that there are anchors by then.
        let far = copies - 2 * (copies / 8);
        Self { stride, anchors: anchors.clamp(ANCHORS_MIN, ANCHORS_MAX), far }
    }

    /// Whether a base so many rounds behind the head asks for anchors.
    pub(super) fn is_far(&self, rounds: usize) -> bool {
        rounds >= self.far
    }

    /// Where the steps after `from` stop for an anchor.
    pub(super) fn stop_after(&self, from: Version) -> Version {
        (from - from % self.stride).saturating_add(self.stride)
    }

    /// Whether an anchor at `version` is worth its memory when the newest is at `newest`.
    fn keeps(&self, version: Version, newest: Version) -> bool {
        let (mut stride, mut age) = (self.stride, 2 * self.stride);
        while newest - version > age {
            stride *= 2;
            age *= 2;
        }
        version.is_multiple_of(stride)
    }
}

/// Merges of two strides.
const fn merges_of(stride: Version) -> usize {
    2 * stride as usize
}

/// Strides to choose from.
const STRIDES: [Version; 2] = [8, STRIDE_MIN];
/// With two anchors a contribution three rounds late finds one before its round.
const STRIDE_MIN: Version = 4;
/// With one anchor, each contribution that is late would find it too new half of the time.
const ANCHORS_MIN: usize = 2;
/// Anchors at most.
const ANCHORS_MAX: usize = 6;
/// Buffers kept for later: a re-fold replaces a merge and two anchors.
const SPARES_MAX: usize = 5;

const _: () = assert!(merges_of(STRIDES[0]) + 2 * ANCHORS_MAX <= Budget::AMPLE.copies());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FragmentId;
    use crate::pool::Inline;

    fn versions(memory: &Memory) -> Vec<Version> {
        memory.anchors.iter().map(|anchor| anchor.version).collect()
    }

    /// Memory after that many versions, with an anchor wherever one belongs.
    fn remembering(copies: usize, newest: Version, mut see: impl FnMut(Version, &Memory)) {
        let mut memory = Memory::new(3, Budget::of_copies(copies));
        let mut head = OuterState::new(FragmentId(0), &[0.0; 3]);
        for version in 1..=newest {
            head.set_version(version);
            if version.is_multiple_of(memory.plan().stride) {
                memory.thin_anchors(version);
                memory.remember(&head, &Inline);
            }
            assert!(memory.held() <= copies);
            see(version, &memory);
        }
    }

    #[test]
    fn small_budgets_are_for_merges() {
        let plan = |copies| {
            let Plan { stride, anchors, far } = Plan::of(Budget::of_copies(copies));
            (stride, anchors, far)
        };
        assert_eq!(plan(4), (Version::MAX, 0, usize::MAX));
        assert_eq!(plan(5), (4, 2, 5));
        assert_eq!(plan(12), (4, 2, 10));
        assert_eq!(plan(18), (4, 5, 14));
        assert_eq!(plan(27), (4, 6, 21));
        assert_eq!(plan(28), (8, 6, 22));
        assert_eq!(plan(32), (8, 6, 24));
    }

    #[test]
    fn anchors_thin_out_with_age() {
        remembering(32, 1024, |version, memory| {
            if version == 1024 {
                assert_eq!(versions(memory), [896, 960, 992, 1008, 1016, 1024]);
                assert_eq!(memory.anchor_before(1015).map(|anchor| anchor.version), Some(1008));
            }
        });
    }

    #[test]
    fn late_contributions_find_an_anchor_with_room_for_the_merges_after_it() {
        for copies in 12..=32 {
            remembering(copies, 200, |version, memory| {
                let Plan { stride, anchors, .. } = memory.plan();
                let late = if anchors > 2 { stride } else { stride - 1 };
                if version > 2 * stride {
                    // Round `version - late` changed: the state before it must be reachable.
                    let before = version - late - 1;
                    let anchor = memory.anchor_before(before).map_or(0, |anchor| anchor.version);
                    assert!(version - anchor <= 2 * stride, "{copies}: {version}: {anchor}");
                    assert!(2 * anchors + merges_of(stride) <= copies);
                }
            });
        }
    }

    #[test]
    fn no_buffer_is_beyond_the_budget() {
        let mut memory = Memory::new(3, Budget::of_copies(9));
        let mut taken: Vec<_> = std::iter::from_fn(|| memory.take()).collect();
        assert_eq!((taken.len(), memory.made(), memory.room()), (9, (9, 9), 0));
        let head = OuterState::new(FragmentId(0), &[0.0; 3]);
        memory.remember(&head, &Inline);
        assert!(memory.anchors.is_empty(), "no room");
        memory.give(taken.pop().unwrap());
        memory.remember(&head, &Inline);
        assert!(memory.anchors.is_empty(), "room for half of it");
        assert_eq!((memory.held(), memory.room()), (1, 1), "what was taken is back");
        taken.drain(..).for_each(|buffer| memory.give(buffer));
        assert_eq!((memory.held(), memory.made()), (SPARES_MAX, (SPARES_MAX, 9)));
        assert_eq!(memory.room(), 9);
    }
}
