//! The engine: `(state, now, Input) -> Output`s, and nothing else.

pub mod input;
pub mod output;
pub mod record;
pub mod report;

use crate::crypto::Key;
use crate::frontier::Standing;
use crate::genesis::Genesis;
use crate::id::{ContentId, FragmentId, NodeId, Trail, Version};
use crate::planted::Planted;
use crate::time::Time;

pub use input::{Command, FetchOutcome, Input};
pub use output::Output;
pub use record::{Record, Settled};
pub use report::{CloseReason, Report};

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What the swarm shares.
    pub genesis: Genesis,
    /// This node's identity.
    pub key: Key,
    /// How often this node was started, this time included; never goes back.
    pub incarnation: u64,
    /// Seed of the engine's own choices (whom to ask first). Never changes a result.
    pub seed: u64,
    /// Whether an island trains behind this node.
    pub trains: bool,
    /// What the island's checkpoint holds, one entry for each fragment; empty if there is none.
    pub resumed: Vec<Resumed>,
    /// A deliberate bug.
    pub planted: Planted,
}

/// What an island's checkpoint says about one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The last own payload captured before the checkpoint.
    pub last_capture: Option<ContentId>,
    /// Steps since then.
    pub steps: u32,
    /// Tokens since then, trained for the first time.
    pub fresh: u64,
    /// Tokens since then that had been captured before and came back.
    pub reissued: u64,
}

/// Where every own token of one fragment is. The five add up to `trained`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// All tokens trained.
    pub trained: u64,
    /// In the outer state.
    pub merged: u64,
    /// Captured, not yet in the outer state.
    pub pending: u64,
    /// Trained since the last capture.
    pub fresh: u64,
    /// Captured before, came back, wait for the next capture.
    pub reissued: u64,
    /// Lost for good.
    pub orphaned: u64,
}

/// A fragment's state as other code may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentStatus {
    /// Stable up to here.
    pub base: Version,
    /// The trail at the base.
    pub base_trail: Trail,
    /// Weight merged up to the base.
    pub base_weight: u64,
    /// Rounds closed up to here.
    pub version: Version,
    /// The version of the materialised head.
    pub head: Version,
    /// The trail of the materialised head.
    pub head_trail: Trail,
    /// The digest of the materialised head.
    pub digest: ContentId,
    /// Where own tokens are.
    pub fates: Fates,
    /// The last own payload that was captured, for the island to compare with its checkpoint.
    pub last_capture: Option<ContentId>,
}

/// The pure state machine of one node.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
}

impl Engine {
    /// An engine that goes on from `records` (in the order they were persisted).
    pub fn new(config: EngineConfig, records: Vec<Record>, now: Time) -> Self {
        let _ = (records, now);
        Self { config }
    }

    /// Takes one input. Time never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        let _ = (now, input);
    }

    /// Lets the engine act on the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// The next thing to do, strictly in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        None
    }

    /// When `handle_timeout` must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.config.key.node()
    }

    /// Where one fragment stands.
    pub fn status(&self, fragment: FragmentId) -> Option<FragmentStatus> {
        let _ = fragment;
        None
    }

    /// Whether this node takes part.
    pub fn standing(&self) -> Standing {
        Standing::Joining
    }

    /// Sizes of the bounded structures, with their limits.
    pub fn sizes(&self) -> Vec<(&'static str, usize, usize)> {
        Vec::new()
    }

    /// Whether this node may serve the snapshot with this digest (the donor rule).
    pub fn may_serve(&self, content: &ContentId) -> bool {
        let _ = content;
        false
    }
}
