//! Swarm testing: each seed draws its own swarm, its own genesis and its own faults.

mod faults;

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{Genesis, MergeRule, RosterPolicy, Rounds};
use atoll_protocol::planted::Planted;
use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::byzantine::{self, Attack};
use super::{FaultEvent, IslandPlan, LinkPlan, Role, Setup, node_id};
use crate::toy::Task;

/// The setup of a seed.
pub fn draw(seed: u64) -> Setup {
    let mut rng = Rng::new(seed ^ PLAN_SALT);
    let islands = draw_islands(seed, &mut rng);
    let mut genesis = draw_genesis(seed, &mut rng);
    genesis.roster = draw_roster(seed, &islands, &mut rng);
    let steers = [Attack::Poison, Attack::SignFlip].map(Role::Liar);
    if islands.iter().any(|island| steers.contains(&island.role)) {
        // No mean survives a liar that points the wrong way.
        genesis.merge.rule = MergeRule::CenteredClip;
    }
    let heal_at = Time(rng.range(40_000, 120_000));
    let end_at = Time(heal_at.0 + rng.range(40_000, 80_000));
    let mut setup = Setup {
        seed,
        genesis,
        task_seed: seed % TASKS,
        lesson: None,
        islands,
        links: draw_links(&mut rng),
        faults: Vec::new(),
        heal_at,
        end_at,
        planted: Planted::default(),
        threads: 1,
        fold_ms_max: super::FOLD_MS_MAX,
        checkpoint_steps: small(rng.range(5, 40)),
        events_max: EVENTS_MAX,
        cast: byzantine::silent,
    };
    setup.faults = invitations(&setup);
    setup.faults.extend(faults::draw(&setup, &mut rng));
    setup
}

fn draw_islands(seed: u64, rng: &mut Rng) -> Vec<IslandPlan> {
    let step_ms = rng.range(60, 200);
    let spread = *rng.pick(&[1, 3, 8, 20]).expect("not empty");
    let mut islands: Vec<IslandPlan> = (0..rng.range(3, 8))
        .map(|key| IslandPlan {
            step_ms: small(step_ms * rng.range(1, spread)),
            jitter_percent: small(rng.range(0, 30)),
            starts_at: Time(0),
            trains: true,
            role: Role::Honest,
            key: usize::try_from(key).expect("a handful of keys"),
        })
        .collect();
    let plain = IslandPlan { step_ms: small(step_ms), ..islands[0].clone() };
    let later = |rng: &mut Rng| Time(rng.range(5_000, 35_000));
    if rng.ratio(1, 3) {
        let (key, starts_at) = (islands.len(), later(rng));
        islands.push(IslandPlan { key, starts_at, ..plain.clone() });
    }
    if rng.ratio(1, 5) {
        islands.push(IslandPlan { key: islands.len(), trains: false, ..plain.clone() });
    }
    if let Some(attack) = attack_of(seed) {
        // Liars are outnumbered: a swarm in which they are not promises nothing.
        let steers = matches!(attack, Attack::Poison | Attack::SignFlip | Attack::HugeNorm);
        let honest = if steers { HONEST_BESIDE_STEERING } else { HONEST_BESIDE_LIAR };
        while islands.len() < honest {
            islands.push(IslandPlan { key: islands.len(), ..plain.clone() });
        }
        let role = Role::Liar(attack);
        islands.push(IslandPlan { key: islands.len(), role, trains: false, ..plain.clone() });
    }
    if rng.ratio(1, 8) && islands.len() >= 5 {
        // The twin of an island in the middle: neither the steward nor the joiner.
        islands.push(IslandPlan { key: 1, starts_at: later(rng), ..plain });
    }
    islands
}

/// Every third seed has a liar, and they take turns, so that no attack is left to luck.
fn attack_of(seed: u64) -> Option<Attack> {
    let turn = usize::try_from(seed / 3 % Attack::ALL.len() as u64).ok()?;
    seed.is_multiple_of(3).then(|| Attack::ALL[turn])
}

fn draw_genesis(seed: u64, rng: &mut Rng) -> Genesis {
    let task = Task::new(seed % TASKS);
    let mut genesis = Genesis::custom("simulated", task.tensors());
    genesis.init_seed = seed % TASKS;
    genesis.fragments = u16::try_from(rng.range(1, 4)).expect("a handful of fragments");
    genesis.rounds = draw_rounds(rng);
    let momentum = [0.0, 0.3, 0.5];
    genesis.outer.learning_rate = *rng.pick(&[1.0, 0.7]).expect("not empty");
    genesis.outer.momentum = *rng.pick(&momentum).expect("not empty");
    let rules = [MergeRule::Mean, MergeRule::Rda, MergeRule::TrimmedMean, MergeRule::CenteredClip];
    genesis.merge.rule = *rng.pick(&rules).expect("not empty");
    let codecs = [Codec::F32, Codec::Int8, Codec::Int4, Codec::Int4, Codec::Low, Codec::Sparse];
    genesis.codec = *rng.pick(&codecs).expect("not empty");
    genesis
}

fn draw_rounds(rng: &mut Rng) -> Rounds {
    let steps = rng.range(4, 12);
    let heartbeat_ms = rng.range(300, 1000);
    let alive_ms = heartbeat_ms * rng.range(4, 8);
    let grace_ms_min = rng.range(50, 300);
    let forget_ms = if rng.ratio(1, 2) { 600_000 } else { alive_ms * rng.range(2, 4) };
    let horizon = if rng.ratio(1, 2) { 64 } else { rng.range(4, 10) };
    Rounds {
        steps: small(steps),
        steps_min: small(rng.range(1, steps / 2)),
        quorum_min: small(rng.range(1, 2)),
        quorum_percent: *rng.pick(&[34, 50, 50, 67]).expect("not empty"),
        grace_ms_min,
        grace_ms_max: grace_ms_min + rng.range(200, 3000),
        horizon: small(horizon),
        alive_ms,
        forget_ms,
        heartbeat_ms,
    }
}

fn draw_links(rng: &mut Rng) -> LinkPlan {
    let latency_ms_min = rng.range(1, 40);
    LinkPlan {
        latency_ms_min,
        latency_ms_max: latency_ms_min + rng.range(1, 150),
        jitter_ms: rng.range(0, 40),
        loss_one_in: *rng.pick(&[0, 0, 200, 50, 20]).expect("not empty"),
        duplication_one_in: *rng.pick(&[0, 0, 100, 20]).expect("not empty"),
        bytes_per_ms: *rng.pick(&[10, 50, 1000]).expect("not empty"),
    }
}

fn draw_roster(seed: u64, islands: &[IslandPlan], rng: &mut Rng) -> RosterPolicy {
    let stewards = vec![node_id(seed, 0)];
    let mut nodes: Vec<_> = islands
        .iter()
        .filter(|island| island.role != Role::Liar(Attack::NotOnRoster))
        .map(|island| node_id(seed, island.key))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let outsider = islands.iter().any(|island| island.role == Role::Liar(Attack::NotOnRoster));
    match rng.range(u64::from(outsider), 2) {
        0 => RosterPolicy::Open,
        1 => RosterPolicy::Closed { nodes, stewards },
        _ => RosterPolicy::Invite { stewards },
    }
}

/// Where an invitation is needed, the steward writes one for everybody soon after the start.
fn invitations(setup: &Setup) -> Vec<(Time, FaultEvent)> {
    if !matches!(setup.genesis.roster, RosterPolicy::Invite { .. }) {
        return Vec::new();
    }
    let invited = setup.islands.iter().enumerate();
    let invited = invited.filter(|(_, plan)| plan.role != Role::Liar(Attack::NotOnRoster));
    let last_round = 1_000_000;
    invited
        .map(|(node, _)| (Time(100), FaultEvent::Invite { steward: 0, node, last_round }))
        .collect()
}

fn small(value: u64) -> u32 {
    u32::try_from(value).expect("drawn from a small range")
}

/// Keeps the plan's draws apart from those of the run itself.
const PLAN_SALT: u64 = 0x0a70_11f1;
/// Different languages: making one takes a while, and few are as good as many.
const TASKS: u64 = 4;
/// Honest islands beside a liar, at least.
const HONEST_BESIDE_LIAR: usize = 4;
/// Honest islands beside a liar that points the wrong way: what robust merging promises to bear.
const HONEST_BESIDE_STEERING: usize = 7;
const EVENTS_MAX: u64 = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        for seed in 0..50 {
            assert_eq!(format!("{:?}", draw(seed)), format!("{:?}", draw(seed)));
        }
        assert_ne!(format!("{:?}", draw(1).faults), format!("{:?}", draw(2).faults));
    }

    #[test]
    fn every_plan_is_a_valid_run_whose_faults_end() {
        let mut kinds = std::collections::HashSet::new();
        for seed in 0..300 {
            let setup = draw(seed);
            assert_eq!(setup.genesis.validate(), Ok(()), "seed {seed}");
            assert!((3..=12).contains(&setup.islands.len()));
            assert!(setup.islands.iter().all(|island| island.starts_at < setup.heal_at));
            for (at, event) in &setup.faults {
                assert!(*at < setup.heal_at, "seed {seed}: {event:?}");
                kinds.insert(std::mem::discriminant(event));
            }
        }
        assert!(kinds.len() >= 14, "only {} kinds of faults in 300 seeds", kinds.len());
    }
}
