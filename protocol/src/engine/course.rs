//! The course of one fragment on this node: stable chain, closed rounds, head, own tokens.

use std::collections::BTreeMap;

use crate::chain::{Chain, HistoryEntry};
use crate::contribution::Header;
use crate::crypto::Signed;
use crate::engine::{Fates, Resumed, Settled};
use crate::id::{ContentId, ContributionId, FragmentId, NodeId, Trail, Version};
use crate::limits::TOKENS_MAX;
use crate::time::Time;

/// Everything the engine knows of one fragment.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) fragment: FragmentId,
    /// Stable rounds.
    pub(super) chain: Chain,
    /// Rounds are closed up to here.
    pub(super) version: Version,
    /// Trails at the versions `chain.base() + 1 ..= version`.
    pub(super) trails: Vec<Trail>,
    /// What was materialised last.
    pub(super) head: Head,
    /// The cuts changed since the head was materialised.
    pub(super) dirty: bool,
    /// A payload of the ledger that this node lost; nothing can be folded without it.
    pub(super) lost: Option<Lost>,
    /// What the driver is doing for this fragment; one thing at a time.
    pub(super) job: Option<Job>,
    /// Something happened that may close, open, capture, fold or settle.
    pub(super) awake: bool,
    /// Since when the open round has quorum.
    pub(super) quorate_at: Option<Time>,
    /// When the open round's grace window ends.
    pub(super) closes_at: Option<Time>,
    /// The driver was asked to capture, or the captured payload is being checked.
    pub(super) capture: Option<Capture>,
    /// Closed rounds in a row that held no more contributions than there were stragglers.
    pub(super) thin: u32,
    /// The version the island trains from.
    pub(super) adopted: Version,
    /// Own contributions by round, kept past stability as far as they may be issued again.
    pub(super) own: BTreeMap<Version, Own>,
    /// What our key signed for rounds above the signed floor, whatever became of it since.
    pub(super) signed: BTreeMap<Version, ContributionId>,
    /// The payload captured last, also when its contribution is long forgotten.
    pub(super) last_capture: Option<ContentId>,
    /// Own content that is to be captured again. It stays pending until then: a history that
    /// holds it may still come back.
    pub(super) returns: Vec<Return>,
    /// Own contributions that no history holds and whose content is gone, for the case that a
    /// history that holds them comes back.
    pub(super) orphans: Vec<Own>,
    /// What the island was told to take back, until a new contribution holds it: a crash before
    /// that undoes it.
    pub(super) returning: Vec<Return>,
    /// Own payloads of closed rounds that the head's cuts leave out.
    pub(super) excluded: Vec<ContentId>,
    pub(super) tokens: Tokens,
    /// What peers say their histories are, while they differ from ours.
    pub(super) histories: BTreeMap<NodeId, Chain>,
    /// When to ask for histories again.
    pub(super) ask_at: Time,
    /// Who was asked the last time, and how often each was since it last sent its history.
    pub(super) asked: BTreeMap<NodeId, u32>,
    /// The snapshot that will replace our state.
    pub(super) installing: Option<Installing>,
    /// Since when another state is left because payloads that lead to it are coming.
    pub(super) waits_since: Option<Time>,
}

/// The materialised head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) version: Version,
    pub(super) trail: Trail,
    pub(super) digest: ContentId,
}

/// A payload that this node had and has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) payload: ContentId,
    /// The round that needs it.
    pub(super) round: Version,
}

/// Work the driver does for a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Materialise {
        version: Version,
        trail: Trail,
        /// Own payloads of closed rounds whose cut leaves them out.
        excluded: Vec<ContentId>,
    },
    Stabilise {
        entry: HistoryEntry,
        forced: bool,
    },
    Install,
}

/// A capture under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    Asked { answer: bool },
    Checking { payload: ContentId, payload_bytes: u32, steps: u32, tokens: u64, answer: bool },
}

/// One own contribution.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) id: ContributionId,
    pub(super) signed: Signed<Header>,
    /// Whether the payload is still on disk.
    pub(super) kept: bool,
}

impl Own {
    pub(super) fn tokens(&self) -> u64 {
        self.signed.body.tokens
    }

    pub(super) fn payload(&self) -> ContentId {
        self.signed.body.payload
    }

    pub(super) fn round(&self) -> Version {
        self.signed.body.round
    }
}

/// Own content that no history holds.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub(super) payload: ContentId,
    pub(super) tokens: u64,
    /// The contribution it was, if it was ever signed.
    pub(super) own: Option<Own>,
}

/// A snapshot on its way.
#[derive(Clone, Debug)]
pub(super) struct Installing {
    pub(super) chain: Chain,
    pub(super) stored: bool,
    pub(super) since: Time,
}

/// Counters behind the five fates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    pub(super) trained: u64,
    pub(super) fresh: u64,
    pub(super) reissued: u64,
    pub(super) steps: u32,
    pub(super) settled: Settled,
}

impl Course {
    pub(super) fn new(fragment: FragmentId, chain: Chain) -> Self {
        let head =
            Head { version: chain.base(), trail: chain.base_trail(), digest: chain.base_digest() };
        Self {
            fragment,
            version: chain.base(),
            chain,
            trails: Vec::new(),
            head,
            dirty: false,
            lost: None,
            job: None,
            awake: true,
            quorate_at: None,
            closes_at: None,
            capture: None,
            thin: 0,
            adopted: 0,
            own: BTreeMap::new(),
            signed: BTreeMap::new(),
            last_capture: None,
            returns: Vec::new(),
            orphans: Vec::new(),
            returning: Vec::new(),
            excluded: Vec::new(),
            tokens: Tokens::default(),
            histories: BTreeMap::new(),
            ask_at: Time(0),
            asked: BTreeMap::new(),
            installing: None,
            waits_since: None,
        }
    }

    /// Takes over the counters of the island's checkpoint, if nothing was captured after it.
    pub(super) fn resume(&mut self, resumed: Option<&Resumed>) {
        if let Some(resumed) = resumed.filter(|it| it.last_capture == self.last_capture) {
            self.tokens.fresh = resumed.fresh;
            self.tokens.steps = resumed.steps;
        }
        let fates = self.fates(|_, _| true);
        self.tokens.trained =
            fates.merged + fates.pending + fates.fresh + fates.reissued + fates.orphaned;
    }

    /// Whether this node has ever contributed to the fragment, as far as it remembers.
    pub(super) fn took_part(&self) -> bool {
        let settled = &self.tokens.settled;
        !self.own.is_empty() || settled.merged > 0 || settled.signed_floor > self.chain.root()
    }

    /// The trail at `version`, stable or only closed.
    pub(super) fn trail_at(&self, version: Version) -> Option<Trail> {
        self.chain.trail_with(&self.trails, version)
    }

    /// Trails at the versions above the base that this node can fold: all of them, unless it lost
    /// a payload.
    pub(super) fn foldable(&self) -> &[Trail] {
        let below = |lost: Lost| lost.round.saturating_sub(self.chain.base() + 1) as usize;
        let count = self.lost.map_or(self.trails.len(), below);
        &self.trails[..count.min(self.trails.len())]
    }

    /// Where own tokens are; `in_cut` tells whether a closed round's cut holds a contribution.
    pub(super) fn fates(&self, in_cut: impl Fn(Version, &ContributionId) -> bool) -> Fates {
        let base = self.chain.base();
        let (mut merged, mut pending) = (self.tokens.settled.merged, 0);
        for (round, own) in self.own.range(base + 1..) {
            if *round <= self.version && in_cut(*round, &own.id) {
                merged += own.tokens();
            } else {
                pending += own.tokens();
            }
        }
        if let Some(Capture::Checking { tokens, .. }) = self.capture {
            pending += tokens;
        }
        Fates {
            trained: self.tokens.trained,
            merged,
            pending,
            fresh: self.tokens.fresh,
            reissued: self.tokens.reissued + self.returns.iter().map(|it| it.tokens).sum::<u64>(),
            orphaned: self.tokens.settled.orphaned,
        }
    }

    /// Own payloads that are captured and not in the head.
    pub(super) fn pending(&self) -> Vec<ContentId> {
        let above = self.own.range(self.head.version + 1..).map(|(_, own)| own);
        let above = above.filter(|own| own.kept).map(Own::payload);
        let checking = match self.capture {
            Some(Capture::Checking { payload, .. }) => Some(payload),
            _ => None,
        };
        let returns = self.returns.iter().map(|it| it.payload);
        self.excluded.iter().copied().chain(above).chain(checking).chain(returns).collect()
    }

    /// Whether our key may have signed for a round before.
    pub(super) fn may_have_signed(&self, round: Version) -> bool {
        round <= self.tokens.settled.signed_floor || self.signed.contains_key(&round)
    }

    /// Whether a contribution under our key is none that we signed, as far as we remember.
    pub(super) fn is_foreign(&self, round: Version, id: &ContributionId) -> bool {
        round > self.tokens.settled.signed_floor && self.signed.get(&round) != Some(id)
    }

    /// Forgets own contributions to rounds that the chain no longer speaks of; those are never
    /// signed for again. The signed floor alone is no reason to forget: after a crash it may be
    /// the round that is open.
    pub(super) fn forget_signed(&mut self) {
        let root = self.chain.root();
        let floor = self.tokens.settled.signed_floor.max(root);
        self.tokens.settled.signed_floor = floor;
        self.signed = self.signed.split_off(&(floor + 1));
        self.orphans.retain(|own| own.round() > root);
        self.own = self.own.split_off(&(root + 1));
    }

    /// Counts a step. Tokens beyond all reason are not counted, so that no sum of them overflows.
    pub(super) fn stepped(&mut self, tokens: u64) {
        let tokens = tokens.min(TOKENS_MAX.saturating_sub(self.tokens.trained));
        self.tokens.trained += tokens;
        self.tokens.fresh += tokens;
        self.tokens.steps = self.tokens.steps.saturating_add(1);
    }

    /// Whether a content is own work, or the snapshot that will replace our state.
    pub(super) fn needs(&self, content: &ContentId) -> bool {
        let installing = self.installing.as_ref().map(|it| it.chain.base_digest());
        self.still_needs(content)
            || self.pending().contains(content)
            || self.last_capture == Some(*content)
            || installing == Some(*content)
    }

    /// Whether an own contribution that may return has this payload.
    pub(super) fn still_needs(&self, payload: &ContentId) -> bool {
        self.own.values().any(|own| own.kept && own.payload() == *payload)
            || self.returns.iter().chain(&self.returning).any(|it| it.payload == *payload)
    }

    /// Records of own contributions up to this round may go: no history speaks of these rounds,
    /// and none of them is about to be captured again.
    pub(super) fn own_through(&self) -> Version {
        let waiting = self.returns.iter().chain(&self.returning).filter_map(|it| it.own.as_ref());
        let oldest = waiting.map(Own::round).min().unwrap_or(Version::MAX);
        self.chain.root().min(oldest.saturating_sub(1))
    }

    /// Moves what is to be captured again into fresh; returns the payloads.
    pub(super) fn take_returns(&mut self) -> Vec<ContentId> {
        let returns = std::mem::take(&mut self.returns);
        self.tokens.reissued += returns.iter().map(|it| it.tokens).sum::<u64>();
        let payloads = returns.iter().map(|it| it.payload).collect();
        self.returning.extend(returns);
        payloads
    }
}
