//! What a fold remembers so that a late contribution is cheap, and how much that is.
//!
//! The newest [`MERGES_KEPT`] merges stay, and anchors: copies of the state at multiples of
//! [`STRIDE`], dense near the head and twice as sparse each time their age doubles, at most
//! [`ANCHORS_MAX`]. A contribution up to [`STRIDE`] rounds late then costs one merge and a pass
//! over remembered merges; one that is `d` rounds late costs about `2 d` merges at worst, however
//! far back the base is.
//!
//! In units of the fragment's parameters that is at most 16 merges (and 8 more while a long
//! re-fold runs), 2 spare ones, 2 x 7 for anchors and spare states and 2 x 2 for base and head: 36
//! ([`COPIES_MAX`]). Where rounds become stable after about three it is base and head (4), three
//! merges and two spare ones, an anchor and a spare state (4): 13 ([`COPIES_CALM`]).
//! Buffers are used again: the page faults of a fresh one cost more than a step.

use std::fmt;

use crate::id::Version;
use crate::outer::state::OuterState;
use crate::pool::Pool;

/// Anchors, and buffers to use again.
#[derive(Default)]
pub(super) struct Memory {
    /// In ascending order of version.
    anchors: Vec<OuterState>,
    spare_merges: Vec<Vec<f32>>,
    spare_states: Vec<OuterState>,
}

impl Memory {
    /// The newest anchor at or before `version`.
    pub(super) fn anchor_before(&self, version: Version) -> Option<&OuterState> {
        self.anchors.iter().rev().find(|anchor| anchor.version() <= version)
    }

    /// Keeps a copy of `head` as an anchor, and of the others only those that still earn their
    /// place.
    pub(super) fn remember(&mut self, head: &OuterState, pool: &dyn Pool) {
        let newest = head.version();
        self.forget_anchors(|version| version >= newest || !keeps(version, newest));
        if self.anchors.len() == ANCHORS_MAX {
            let oldest = self.anchors.remove(0);
            self.recycle_state(oldest);
        }
        let anchor = match self.spare_state() {
            Some(mut state) => {
                state.copy_from(head, pool);
                state
            }
            None => head.clone(),
        };
        self.anchors.push(anchor);
    }

    /// Drops the anchors whose version is one of these.
    pub(super) fn forget_anchors(&mut self, drops: impl Fn(Version) -> bool) {
        while let Some(index) = self.anchors.iter().position(|anchor| drops(anchor.version())) {
            let anchor = self.anchors.remove(index);
            self.recycle_state(anchor);
        }
    }

    /// A buffer for a merge, holding anything.
    pub(super) fn spare_merge(&mut self, elements: usize) -> Vec<f32> {
        self.spare_merges.pop().unwrap_or_else(|| vec![0.0; elements])
    }

    /// Takes a merge's buffer back, if there is one.
    pub(super) fn recycle_merge(&mut self, merged: Option<Vec<f32>>) {
        self.spare_merges.extend(merged);
        self.spare_merges.truncate(SPARE_MERGES_MAX);
    }

    /// A state to copy into, if there is one.
    pub(super) fn spare_state(&mut self) -> Option<OuterState> {
        self.spare_states.pop()
    }

    /// Takes a state's buffer back.
    pub(super) fn recycle_state(&mut self, state: OuterState) {
        if self.anchors.len() + self.spare_states.len() < STATES_MAX {
            self.spare_states.push(state);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("anchors", &self.anchors).finish_non_exhaustive()
    }
}

/// Whether an anchor at `version` is worth its memory when the newest is at `newest`.
fn keeps(version: Version, newest: Version) -> bool {
    let (mut stride, mut age) = (STRIDE, 2 * STRIDE);
    while newest - version > age {
        stride *= 2;
        age *= 2;
    }
    version.is_multiple_of(stride)
}

/// Rounds between anchors near the head.
pub(super) const STRIDE: Version = 8;
/// Merges remembered: two strides, so that a contribution one stride late finds an anchor before
/// its round and all merges after that anchor.
pub(super) const MERGES_KEPT: Version = 2 * STRIDE;
/// Anchors remembered.
const ANCHORS_MAX: usize = 6;
/// Anchors and spare states together: a re-fold replaces anchors, a new base needs one more.
const STATES_MAX: usize = ANCHORS_MAX + 1;
/// Merge buffers kept for later: one is replaced in a round.
const SPARE_MERGES_MAX: usize = 2;
/// Buffers as large as the fragment that a fold has while rounds become stable soon.
pub const COPIES_CALM: u64 = 13;
/// The most it ever has.
pub const COPIES_MAX: u64 = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FragmentId;
    use crate::pool::Inline;

    #[test]
    fn anchors_thin_out_with_age() {
        let mut memory = Memory::default();
        let mut head = OuterState::new(FragmentId(0), &[0.0; 3]);
        for version in (STRIDE..=1024).step_by(STRIDE as usize) {
            head.set_version(version);
            memory.remember(&head, &Inline);
            assert!(memory.anchors.len() <= ANCHORS_MAX);
        }
        let versions: Vec<Version> = memory.anchors.iter().map(OuterState::version).collect();
        assert_eq!(versions, [896, 960, 992, 1008, 1016, 1024]);
        assert_eq!(memory.anchor_before(1015).map(OuterState::version), Some(1008));
    }

    #[test]
    fn one_stride_late_has_an_anchor_within_the_merges_kept() {
        let mut memory = Memory::default();
        let mut head = OuterState::new(FragmentId(0), &[0.0; 3]);
        for version in 1..=200 {
            head.set_version(version);
            if version.is_multiple_of(STRIDE) {
                memory.remember(&head, &Inline);
            }
            if version > 2 * STRIDE {
                // Round `version - STRIDE` changed: the state before it must be reachable.
                let before = version - STRIDE - 1;
                let anchor = memory.anchor_before(before).map_or(0, OuterState::version);
                assert!(version - anchor <= MERGES_KEPT, "{version}: {anchor}");
            }
        }
    }
}
