//! What one central place would have learnt from as many tokens as a swarm merged.

use std::collections::BTreeSet;

use super::Role;
use super::world::World;
use crate::central::{self, Plan};

/// The held-out loss of the control. None if nothing was merged, or the control diverged.
pub(super) fn loss(world: &World) -> Option<f64> {
    let genesis = &world.shared.genesis;
    let trains = world.setup.islands.iter().filter(|it| it.trains && it.role == Role::Honest);
    let islands: BTreeSet<usize> = trains.map(|island| island.key).collect();
    let islands = u16::try_from(islands.len()).ok().filter(|islands| *islands > 0)?;
    let tokens = merged(world).min(TOKENS_MAX);
    let a_round =
        u64::from(islands) * u64::from(genesis.rounds.steps) * world.shared.lesson.batch();
    // Rounded up, and one more to read the curve between its points.
    let rounds = u32::try_from(tokens / a_round).ok()?.saturating_add(2);
    let plan = Plan { islands, rounds, seed: world.setup.seed, staggered: true, delay: 0 };
    let control = central::central(world.shared.lesson.as_ref(), genesis, &plan).ok()?;
    central::loss_at(&control.curve, tokens)
}

/// Tokens of the running honest islands that are in the outer state: not those of islands that
/// are gone or lie, so it is never too many.
fn merged(world: &World) -> u64 {
    let engines = world.nodes.iter().filter_map(|node| node.engine());
    let all: u64 = engines
        .flat_map(|engine| world.shared.ids().filter_map(|fragment| engine.status(fragment)))
        .map(|status| status.fates.merged)
        .sum();
    all / u64::from(world.shared.genesis.fragments.max(1))
}

/// More tokens than this hardly lower the loss, but take their time: a control that stops here
/// asks for less, never for more.
const TOKENS_MAX: u64 = 200_000;
