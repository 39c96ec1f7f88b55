//! A seeded, virtual-time simulator: real engines, simulated disks, links and islands.
//!
//! Everything is decided by the seed. A run has a safety phase, in which faults happen, then
//! heals, then has a liveness phase, after which the islands stop and the swarm must agree.

mod agenda;
pub mod byzantine;
mod clock;
mod control;
mod disk;
mod execute;
pub mod fault;
mod island;
pub mod liars;
mod lifecycle;
mod link;
mod network;
mod node;
mod observer;
mod ownership;
mod packet;
pub mod plan;
mod shadow;
mod shared;
mod tally;
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use atoll_protocol::engine::Fates;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::planted::Planted;
use atoll_protocol::time::Time;

use crate::check::{Checker, NodeIndex};
use crate::lesson::Lesson;
use byzantine::{Attack, Cast};
pub use fault::{FaultEvent, PartitionKind};
use observer::Observer;
use world::{Simulation, World};

/// How long folds take where nothing else is asked for.
pub const FOLD_MS_MAX: u64 = 40;

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of every draw that is not planned here.
    pub seed: u64,
    /// What the swarm shares.
    pub genesis: Genesis,
    /// Which toy language the islands learn.
    pub task_seed: u64,
    /// What they learn instead of it.
    pub lesson: Option<Arc<dyn Lesson>>,
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
    /// The longest that a fold or a base's way to the disk takes.
    pub fold_ms_max: u64,
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
    /// How often engines took each of several ways.
    pub ways: BTreeMap<&'static str, u64>,
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
    /// Loss of a central run after as many tokens, if a checker asked for it.
    pub loss_central: Option<f64>,
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

/// Runs a swarm to its end or to the first violation.
pub fn run(
    setup: Setup,
    checkers: Vec<Box<dyn Checker>>,
    trace: Option<&mut dyn Write>,
) -> Outcome {
    let observer = Observer::new(checkers, trace);
    let mut simulation = Simulation { world: World::new(setup), observer };
    simulation.run();
    if simulation.observer.violation.is_none() {
        simulation.observer.finish(&simulation.world);
    }
    simulation.outcome()
}

/// The public key that a run of `seed` gives to the nodes with this key number.
pub fn node_id(seed: u64, key: usize) -> NodeId {
    world::key(seed, key).node()
}

impl Simulation<'_> {
    fn outcome(self) -> Outcome {
        let loss_last = self.loss();
        let Self { world, observer } = self;
        let mut fates = Fates::default();
        let mut digests = Vec::new();
        for (node, state) in world.nodes.iter().enumerate() {
            let Some(engine) = state.engine() else { continue };
            for fragment in world.shared.ids() {
                let Some(status) = engine.status(fragment) else { continue };
                let (version, digest) = (status.head, status.digest);
                digests.push(Ending { node, fragment, version, digest });
                add(&mut fates, &status.fates);
            }
        }
        let mut fault_counts = world.tally.faults.clone();
        for (name, count) in world.links.counts() {
            *fault_counts.entry(name).or_default() += count;
        }
        let checks = observer.checkers.iter().map(|checker| (checker.name(), checker.checks()));
        Outcome {
            trace_hash: observer.trace_hash(),
            checks: checks.collect(),
            violation: observer.violation,
            digests,
            fault_counts,
            ways: world.tally.ways,
            rounds_closed: world.tally.rounds_closed,
            late: world.tally.late,
            refolds: world.tally.refolds,
            reissued: world.tally.reissued,
            installs: world.tally.installs,
            fates,
            message_bytes: world.tally.message_bytes,
            content_bytes: world.tally.content_bytes,
            loss_first: world.first_loss,
            loss_last,
            loss_central: world.central_loss.get().copied().flatten(),
            events: world.tally.events,
            ended_at: world.now,
        }
    }
}

fn add(sum: &mut Fates, fates: &Fates) {
    sum.trained += fates.trained;
    sum.merged += fates.merged;
    sum.pending += fates.pending;
    sum.fresh += fates.fresh;
    sum.reissued += fates.reissued;
    sum.orphaned += fates.orphaned;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_traces() {
        for seed in 0..4 {
            let mut first = plan::draw(seed);
            (first.heal_at, first.end_at) = (Time(20_000), Time(30_000));
            let mut second = first.clone();
            second.threads = 2;
            let mut lines = Vec::new();
            let one = run(first, Vec::new(), None);
            let other = run(second, Vec::new(), Some(&mut lines));
            assert_eq!(one, other, "seed {seed}");
            assert_eq!(one.violation, None, "seed {seed}");
            assert!(!lines.is_empty());
        }
    }

    #[test]
    fn other_seeds_give_other_traces() {
        let hash = |seed| {
            let mut setup = plan::draw(seed);
            (setup.heal_at, setup.end_at) = (Time(5_000), Time(6_000));
            run(setup, Vec::new(), None).trace_hash
        };
        assert_ne!(hash(1), hash(2));
    }
}
