//! What Atoll's islands live through.

use std::sync::Arc;

use atoll_protocol::genesis::Genesis;
use atoll_protocol::planted::Planted;
use atoll_protocol::time::Time;
use serde::Serialize;

use super::scale::Scale;
use crate::check::NodeIndex;
use crate::lesson::Lesson;
use crate::sim::{FaultEvent, IslandPlan, LinkPlan, PartitionKind, Role, Setup, liars};

/// What Atoll's islands live through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weather {
    /// Islands of one speed, and nothing goes wrong.
    Calm,
    /// The slowest takes four times as long as the fastest.
    Spread,
    /// The same, on bad links; islands crash all the time and come back.
    Storm,
    /// Islands of one speed fall apart into two halves, twice, and then one is cut off.
    Split,
}

impl Weather {
    /// A swarm that trains about as many steps as the scale's islands, all of full speed, would.
    pub(super) fn setup(
        self,
        genesis: Genesis,
        lesson: Arc<dyn Lesson>,
        scale: &Scale,
        seed: u64,
    ) -> Setup {
        let plans: Vec<IslandPlan> =
            (0..usize::from(scale.islands)).map(|key| self.island(key)).collect();
        let each_ms: f64 = plans.iter().map(|plan| 1.0 / f64::from(plan.step_ms)).sum();
        let all = f64::from(scale.islands) * f64::from(scale.steps) * self.slack();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let end = (all / each_ms) as u64;
        let faults = match self {
            Self::Calm | Self::Spread => Vec::new(),
            Self::Storm => storm(plans.len(), end),
            Self::Split => split(plans.len(), end),
        };
        Setup {
            seed,
            task_seed: 0,
            lesson: Some(lesson),
            genesis,
            islands: plans,
            links: self.links(scale),
            faults,
            heal_at: Time(end * 9 / 10),
            end_at: Time(end),
            planted: Planted::default(),
            threads: 1,
            fold_ms_max: FOLD_MS_MAX,
            checkpoint_steps: 24,
            events_max: 50_000_000,
            cast: liars::cast,
        }
    }

    fn island(self, key: usize) -> IslandPlan {
        let slow = match self {
            Self::Calm | Self::Split => 1,
            Self::Spread | Self::Storm => [1, 1, 2, 4][key % 4],
        };
        IslandPlan {
            step_ms: STEP_MS * slow,
            jitter_percent: 5,
            starts_at: Time(0),
            trains: true,
            role: Role::Honest,
            key,
        }
    }

    fn links(self, scale: &Scale) -> LinkPlan {
        let latency_ms = scale.latency_ms;
        let calm = LinkPlan {
            latency_ms_min: latency_ms.div_ceil(12),
            latency_ms_max: latency_ms,
            jitter_ms: latency_ms.div_ceil(12),
            loss_one_in: 0,
            duplication_one_in: 0,
            bytes_per_ms: scale.mbit * BYTES_PER_MS,
        };
        if self == Self::Storm { LinkPlan { jitter_ms: 40, ..calm } } else { calm }
    }

    /// How much longer it takes to train as many steps: who crashes does not train meanwhile.
    fn slack(self) -> f64 {
        if self == Self::Storm { 1.2 } else { 1.02 }
    }
}

/// A crash every six seconds, for three seconds, and bad links throughout.
fn storm(islands: usize, end: u64) -> Vec<(Time, FaultEvent)> {
    let last = end * 8 / 10;
    let mut faults = vec![
        (Time(1_000), FaultEvent::Loss(20)),
        (Time(1_000), FaultEvent::Duplication(20)),
        (Time(1_000), FaultEvent::Reordering(100)),
    ];
    for (turn, at) in (0..).zip((8_000..last).step_by(6_000)) {
        let (node, torn) = (turn % islands, turn % 2 == 0);
        faults.push((Time(at), FaultEvent::Crash { node, in_write: torn, torn }));
        faults.push((Time(at + 3_000), FaultEvent::Restore(node)));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Parted as `up --chaos split` parts: halves for a fifth of the time and for a tenth, then one
/// island for an eighth.
fn split(islands: usize, end: u64) -> Vec<(Time, FaultEvent)> {
    [(15, 35, islands / 2), (50, 60, islands / 2), (70, 82, 1)]
        .into_iter()
        .zip(0..)
        .flat_map(|((from, until, count), name)| {
            let side: Vec<NodeIndex> = (0..count).collect();
            let kind = PartitionKind::Symmetric;
            [
                (Time(end * from / 100), FaultEvent::Partition { name, side, kind }),
                (Time(end * until / 100), FaultEvent::Rejoin(name)),
            ]
        })
        .collect()
}

/// Times that suit steps of a tenth of a second.
pub(super) fn quicken(genesis: &mut Genesis) {
    genesis.rounds.grace_ms_min = 200;
    genesis.rounds.grace_ms_max = GRACE_MS_MAX;
    genesis.rounds.alive_ms = 5_000;
    genesis.rounds.forget_ms = 60_000;
    genesis.rounds.heartbeat_ms = 1_000;
}

/// Of `nano`, four contributions to a fragment are folded in a twenty-fifth of a step: both were
/// measured on one thread (docs/benchmarks.md).
const FOLD_MS_MAX: u64 = 8;
/// What one megabit in a second is.
const BYTES_PER_MS: u64 = 125;
/// A step of the fastest islands.
pub(super) const STEP_MS: u32 = 100;
/// The longest grace window where nothing else is asked for.
pub(super) const GRACE_MS_MAX: u64 = 3_000;
