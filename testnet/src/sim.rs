//! A seeded, virtual-time simulator: real engines, simulated disks, links and islands.
//!
//! Everything is decided by the seed. A run has a safety phase, in which faults happen, then
//! heals, then has a liveness phase, after which the islands stop and the swarm must agree.

pub mod byzantine;
pub mod fault;
pub mod liars;

use std::collections::BTreeMap;

use atoll_protocol::engine::Fates;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, Version};
use atoll_protocol::planted::Planted;
use atoll_protocol::time::Time;

use crate::check::NodeIndex;
use byzantine::{Attack, Cast};
pub use fault::{FaultEvent, PartitionKind};

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of every draw that is not planned here.
    pub seed: u64,
    /// What the swarm shares.
    pub genesis: Genesis,
    /// The nodes.
    pub islands: Vec<IslandPlan>,
    /// The links between them.
    pub links: LinkPlan,
    /// What goes wrong, and when.
    pub faults: Vec<(Time, FaultEvent)>,
    /// When all of it ends.
    pub heal_at: Time,
    /// When the islands stop training.
    pub end_at: Time,
    /// A deliberate bug.
    pub planted: Planted,
    /// Threads that fold; never changes a result.
    pub threads: usize,
    /// Steps between an island's checkpoints.
    pub checkpoint_steps: u32,
    /// Events after which a run counts as one that never ends.
    pub events_max: u64,
    /// Who plays the liars.
    pub cast: Cast,
}

/// One node of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IslandPlan {
    /// Milliseconds of one step.
    pub step_ms: u32,
    /// How much a step's time varies, in percent either way.
    pub jitter_percent: u32,
    /// When it starts for the first time.
    pub starts_at: Time,
    /// Whether an island trains behind it.
    pub trains: bool,
    /// Whether it follows the protocol.
    pub role: Role,
    /// Which key it has; two nodes with one number share one key.
    pub key: usize,
}

/// Whether a node follows the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does.
    Honest,
    /// It does this instead.
    Liar(Attack),
}

/// How links behave while nothing special happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Shortest time a message takes.
    pub latency_ms_min: u64,
    /// Longest time, drawn once for each pair of nodes.
    pub latency_ms_max: u64,
    /// Each message takes up to this much longer, which reorders them.
    pub jitter_ms: u64,
    /// One in this many messages is lost; 0 is none.
    pub loss_one_in: u64,
    /// One in this many messages arrives twice; 0 is none.
    pub duplication_one_in: u64,
    /// Bytes of fetched content that a link carries in a millisecond.
    pub bytes_per_ms: u64,
}

/// What a run showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    /// A hash over every input and output with its time: equal seeds give equal hashes.
    pub trace_hash: [u8; 32],
    /// Where each running honest node ended.
    pub digests: Vec<Ending>,
    /// How often each fault really happened.
    pub fault_counts: BTreeMap<&'static str, u64>,
    /// How often each checker compared something.
    pub checks: BTreeMap<&'static str, u64>,
    /// Rounds closed, over all nodes.
    pub rounds_closed: u64,
    /// Contributions admitted after their round had closed, over all nodes.
    pub late: u64,
    /// Folds that changed a version that was already there, over all nodes.
    pub refolds: u64,
    /// Contributions that returned to fresh, over all nodes.
    pub reissued: u64,
    /// Snapshots installed, over all nodes.
    pub installs: u64,
    /// Where the tokens of all running honest islands ended.
    pub fates: Fates,
    /// Bytes of messages that were sent.
    pub message_bytes: u64,
    /// Bytes of content that was fetched.
    pub content_bytes: u64,
    /// Loss of the genesis.
    pub loss_first: f64,
    /// Mean loss of the running honest islands' outer states at the end.
    pub loss_last: f64,
    /// Events handled.
    pub events: u64,
    /// The virtual time of the last one.
    pub ended_at: Time,
}

/// Where a node ended with one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Which node.
    pub node: NodeIndex,
    /// Which fragment.
    pub fragment: FragmentId,
    /// The version of its head.
    pub version: Version,
    /// The digest of its head.
    pub digest: ContentId,
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who noticed.
    pub checker: &'static str,
    /// What it saw, in words.
    pub message: String,
    /// When.
    pub at: Time,
    /// Before or after the heal.
    pub phase: Phase,
}

/// The part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults happen; nothing wrong may ever be seen.
    Safety,
    /// Faults are over; the right things must happen in time.
    Liveness,
}
