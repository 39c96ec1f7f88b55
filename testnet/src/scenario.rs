//! Named swarms, each with a sentence that says what it shows.

use atoll_protocol::genesis::{Genesis, MergeRule, RosterPolicy};
use atoll_protocol::id::NodeId;
use atoll_protocol::planted::Planted;
use atoll_protocol::time::Time;

use crate::check::{self, Band, Checker, Expect, NodeIndex};
use crate::sim::byzantine::Attack;
use crate::sim::{
    FOLD_MS_MAX, FaultEvent, IslandPlan, LinkPlan, PartitionKind, Role, Setup, liars, node_id,
};
use crate::toy::Task;

/// A named swarm.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What people call it.
    pub name: String,
    /// What it shows.
    pub shows: String,
    /// The swarm.
    pub setup: Setup,
}

/// Every scenario, with its draws from `seed`.
pub fn all(seed: u64) -> Vec<Scenario> {
    let mut scenarios = vec![
        scenario("calm", "a swarm without faults agrees and learns", calm(seed, 4)),
        scenario("storm", "crashes, partitions and bad links lose nothing", storm(seed, 6)),
        scenario(
            "partition-beyond-horizon",
            "two halves that parted for longer than the horizon end with one history, and what \
             the losing half trained is issued again",
            partition_beyond_horizon(seed),
        ),
        scenario(
            "fresh-node-cannot-overwrite",
            "nodes that join late, and one that lost its disk's newest writes, take the swarm's \
             state and never put theirs in its place",
            fresh_node(seed),
        ),
        scenario(
            "same-key-twice",
            "two nodes with one key are refused, and nobody else is harmed",
            same_key(seed),
        ),
        scenario(
            "everyone-restarts",
            "all nodes crash at once and go on from their disks",
            everyone_restarts(seed),
        ),
        scenario(
            "bootstrap-never-seen-again",
            "the node that everyone met first leaves for ever, and no round stops",
            bootstrap_gone(seed),
        ),
        scenario(
            "two-hundred-islands",
            "200 islands close 10 rounds with real signatures",
            two_hundred(seed),
        ),
    ];
    scenarios.extend(Attack::ALL.map(|attack| {
        let name = format!("one-liar-in-eight/{}", slug(attack));
        let shows =
            format!("seven honest islands agree and learn beside one liar ({})", slug(attack));
        Scenario { name, shows, setup: one_liar(seed, attack) }
    }));
    scenarios
}

/// The scenarios that `name` names: itself, or all below it.
pub fn named(name: &str, seed: u64) -> Vec<Scenario> {
    let below = format!("{name}/");
    let mut scenarios = all(seed);
    scenarios.retain(|scenario| scenario.name == name || scenario.name.starts_with(&below));
    scenarios
}

/// Every checker, with what may be expected of `setup`.
pub fn checkers(setup: &Setup) -> Vec<Box<dyn Checker>> {
    let many = setup.islands.len() >= MANY_ISLANDS;
    let rounds = if many { 10 } else { Expect::default().rounds };
    // Nothing goes wrong but that the swarm parts, once and for long.
    let heaviest = matches!(
        setup.faults.as_slice(),
        [(_, FaultEvent::Partition { kind: PartitionKind::Long, .. }), (_, FaultEvent::Rejoin(_))]
    );
    let expect = Expect { rounds, heaviest };
    check::all(setup.genesis.run_id(), expect, band(setup))
}

/// How an attack is written on the command line.
pub fn slug(attack: Attack) -> String {
    attack.name().trim_start_matches("liar: ").replace(' ', "-")
}

/// `islands` islands of one speed on good links, and nothing goes wrong.
pub fn calm(seed: u64, islands: usize) -> Setup {
    Setup {
        seed,
        task_seed: seed,
        lesson: None,
        genesis: genesis(seed),
        islands: (0..islands).map(|key| island(key, 100)).collect(),
        links: LinkPlan {
            latency_ms_min: 5,
            latency_ms_max: 60,
            jitter_ms: 5,
            loss_one_in: 0,
            duplication_one_in: 0,
            bytes_per_ms: 10_000,
        },
        faults: Vec::new(),
        heal_at: Time(30_000),
        end_at: Time(60_000),
        planted: Planted::default(),
        threads: 1,
        fold_ms_max: FOLD_MS_MAX,
        checkpoint_steps: 8,
        events_max: 50_000_000,
        cast: liars::cast,
    }
}

/// Mixed speeds, bad links, crashes, short partitions: everything that a swarm must shrug off.
pub fn storm(seed: u64, islands: usize) -> Setup {
    let mut setup = calm(seed, islands);
    for (node, plan) in setup.islands.iter_mut().enumerate() {
        plan.step_ms = [100, 130, 200, 400][node % 4];
        plan.jitter_percent = 20;
    }
    setup.links.jitter_ms = 40;
    setup.faults.push((Time(1_000), FaultEvent::Loss(20)));
    setup.faults.push((Time(1_000), FaultEvent::Duplication(20)));
    setup.faults.push((Time(1_000), FaultEvent::Reordering(100)));
    for (turn, at) in (0..).zip((8_000..70_000).step_by(6_000)) {
        let node = turn % islands;
        let (down, up) = (Time(at), Time(at + 3_000));
        let torn = turn % 2 == 0;
        setup.faults.push((down, FaultEvent::Crash { node, in_write: torn, torn }));
        setup.faults.push((up, FaultEvent::Restore(node)));
    }
    for (name, at) in (0..).zip((12_000..70_000).step_by(15_000)) {
        let kind = if name % 2 == 0 { PartitionKind::Symmetric } else { PartitionKind::Asymmetric };
        let side: Vec<NodeIndex> = (0..islands / 2).collect();
        setup.faults.push((Time(at), FaultEvent::Partition { name, side, kind }));
        setup.faults.push((Time(at + 5_000), FaultEvent::Rejoin(name)));
    }
    setup.faults.sort_by_key(|(at, _)| *at);
    setup.heal_at = Time(80_000);
    setup.end_at = Time(130_000);
    setup
}

/// Seven honest islands and one liar, merged so that one liar cannot steer.
pub fn one_liar(seed: u64, attack: Attack) -> Setup {
    let mut setup = calm(seed, 8);
    setup.islands[7].role = Role::Liar(attack);
    setup.genesis.merge.rule = MergeRule::CenteredClip;
    if attack == Attack::NotOnRoster {
        setup.genesis.roster =
            RosterPolicy::Closed { nodes: honest_nodes(&setup), stewards: vec![node_id(seed, 0)] };
    }
    setup.heal_at = Time(40_000);
    setup.end_at = Time(80_000);
    setup
}

fn honest_nodes(setup: &Setup) -> Vec<NodeId> {
    let honest = setup.islands.iter().filter(|island| island.role == Role::Honest);
    let mut nodes: Vec<NodeId> = honest.map(|island| node_id(setup.seed, island.key)).collect();
    nodes.sort_unstable();
    nodes
}

/// A run of the toy with short times.
pub fn genesis(seed: u64) -> Genesis {
    let mut genesis = Genesis::custom("simulated", Task::new(seed).tensors());
    genesis.init_seed = seed;
    genesis.fragments = 2;
    genesis.rounds.steps = 16;
    genesis.rounds.steps_min = 2;
    genesis.rounds.quorum_min = 1;
    genesis.rounds.quorum_percent = 50;
    genesis.rounds.grace_ms_min = 200;
    genesis.rounds.grace_ms_max = 3_000;
    genesis.rounds.horizon = 32;
    genesis.rounds.alive_ms = 5_000;
    genesis.rounds.forget_ms = 60_000;
    genesis.rounds.heartbeat_ms = 1_000;
    genesis
}

fn scenario(name: &str, shows: &str, setup: Setup) -> Scenario {
    Scenario { name: name.into(), shows: shows.into(), setup }
}

fn island(key: usize, step_ms: u32) -> IslandPlan {
    IslandPlan {
        step_ms,
        jitter_percent: 5,
        starts_at: Time(0),
        trains: true,
        role: Role::Honest,
        key,
    }
}

/// Where a liar steers and nothing robust merges, no loss is promised.
fn band(setup: &Setup) -> Band {
    let robust =
        matches!(setup.genesis.merge.rule, MergeRule::CenteredClip | MergeRule::TrimmedMean);
    let steered = setup.islands.iter().any(|island| {
        matches!(island.role, Role::Liar(Attack::Poison | Attack::SignFlip | Attack::HugeNorm))
    });
    if steered && !robust { Band::ANY } else { Band::default() }
}

fn partition_beyond_horizon(seed: u64) -> Setup {
    let mut setup = calm(seed, 6);
    setup.genesis.rounds.horizon = 8;
    setup.genesis.rounds.forget_ms = 15_000;
    let (side, kind) = (vec![0, 1], PartitionKind::Long);
    setup.faults = vec![
        (Time(20_000), FaultEvent::Partition { name: 1, side, kind }),
        (Time(80_000), FaultEvent::Rejoin(1)),
    ];
    setup.heal_at = Time(81_000);
    setup.end_at = Time(150_000);
    setup
}

fn fresh_node(seed: u64) -> Setup {
    let mut setup = calm(seed, 6);
    // The two that come late are the fastest: if they could, they would take over.
    for (node, at) in [(4, 20_000), (5, 25_000)] {
        setup.islands[node].starts_at = Time(at);
        setup.islands[node].step_ms = 25;
    }
    setup.faults = vec![
        (Time(22_000), FaultEvent::Crash { node: 0, in_write: true, torn: true }),
        (Time(28_000), FaultEvent::Restore(0)),
    ];
    setup.heal_at = Time(35_000);
    setup.end_at = Time(80_000);
    setup
}

fn same_key(seed: u64) -> Setup {
    let mut setup = calm(seed, 6);
    setup.islands[5].key = 0;
    setup.heal_at = Time(40_000);
    setup.end_at = Time(80_000);
    setup
}

fn everyone_restarts(seed: u64) -> Setup {
    let mut setup = calm(seed, 5);
    for node in 0..5 {
        let crash = FaultEvent::Crash { node, in_write: false, torn: false };
        setup.faults.push((Time(20_000), crash));
        setup.faults.push((Time(23_000 + 200 * node as u64), FaultEvent::Restore(node)));
    }
    setup.faults.sort_by_key(|(at, _)| *at);
    setup.heal_at = Time(30_000);
    setup.end_at = Time(70_000);
    setup
}

fn bootstrap_gone(seed: u64) -> Setup {
    let mut setup = calm(seed, 5);
    setup.islands[0].trains = false;
    setup.faults = vec![(Time(10_000), FaultEvent::Leave(0))];
    setup
}

fn two_hundred(seed: u64) -> Setup {
    let mut setup = calm(seed, 200);
    for (node, plan) in setup.islands.iter_mut().enumerate() {
        plan.step_ms = 100 + 10 * u32::try_from(node % 10).unwrap_or(0);
    }
    setup.genesis.rounds.grace_ms_min = 1_000;
    // Everyone verifies every frontier of everyone: at this size they come less often.
    setup.genesis.rounds.heartbeat_ms = 6_000;
    setup.genesis.rounds.alive_ms = 18_000;
    setup.heal_at = Time(1_000);
    // Ten rounds, and a little more.
    setup.end_at = Time(36_000);
    setup
}

/// Swarms of this size are run to see that many rounds close, not just that some do.
const MANY_ISLANDS: usize = 100;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_prefixes_name_many() {
        let scenarios = all(1);
        let names: BTreeSet<&str> =
            scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names.len(), scenarios.len());
        assert_eq!(named("one-liar-in-eight", 1).len(), Attack::ALL.len());
        assert_eq!(named("calm", 1).len(), 1);
        assert!(named("nonsense", 1).is_empty());
    }

    #[test]
    fn every_genesis_is_valid() {
        for scenario in all(1) {
            assert_eq!(scenario.setup.genesis.validate().map_err(|why| why.to_string()), Ok(()));
        }
    }
}
