//! The run that a demonstration trains: the defaults, fitted to a few minutes on one machine.

use atoll_protocol::genesis::{Genesis, InnerOptimiser, Model, Outer};

use super::options::{GENERATED, Options};

/// The run of a swarm that will train about `tokens` tokens in all.
///
/// # Panics
///
/// If the options were not checked: they name a model that there is.
pub(super) fn swarm(options: &Options, tokens: u64) -> Genesis {
    let model = Model::preset(&options.model).expect("the options were checked");
    let mut genesis = Genesis::new("testnet", model);
    genesis.init_seed = options.seed;
    if options.data != GENERATED {
        genesis.data.corpus = "files".into();
    }
    // On one machine an answer takes milliseconds, and people watch.
    genesis.rounds.heartbeat_ms = 1000;
    genesis.rounds.alive_ms = 8000;
    genesis.rounds.steps = steps(&genesis, options.islands, tokens);
    genesis.rounds.steps_min = (genesis.rounds.steps / 8).max(1);
    (genesis.inner.optimiser, genesis.schedule.peak) = inner(&genesis);
    genesis.outer = OUTER;
    fit(&mut genesis, tokens);
    genesis
}

/// Steps between captures: fewer where a machine is slow or the time short, so that there are
/// rounds to be seen.
fn steps(genesis: &Genesis, islands: usize, tokens: u64) -> u32 {
    let of_one = tokens / tokens_in_step(genesis) / islands.max(1) as u64;
    let steps = u32::try_from(of_one / ROUNDS).unwrap_or(u32::MAX);
    steps.clamp(STEPS_MIN, STEPS_MAX)
}

/// Tokens in one step of one island.
pub(super) fn tokens_in_step(genesis: &Genesis) -> u64 {
    u64::from(genesis.data.batch) * u64::from(genesis.data.sequence)
}

/// Lets the learning rate reach its floor at the end.
fn fit(genesis: &mut Genesis, tokens: u64) {
    genesis.schedule.total_tokens = tokens.clamp(1, i64::MAX.unsigned_abs());
    genesis.schedule.warmup_tokens = genesis.schedule.total_tokens / WARMUP_PART;
}

/// The inner optimiser and its highest learning rate, for the swarm and for one island alone: what
/// learns most in a few minutes, see docs/decisions/0007-how-well-it-learns.md. Muon's products grow
/// with the width, whatever the batch; where they would take longer than the step itself, AdamW
/// learns more in the same time.
fn inner(genesis: &Genesis) -> (InnerOptimiser, f32) {
    match genesis.model {
        Model::Llama { width, .. }
            if MUON_PRODUCTS * u64::from(width) <= tokens_in_step(genesis) =>
        {
            (InnerOptimiser::muon(), MUON_PEAK)
        }
        _ => (InnerOptimiser::AdamW, ADAMW_PEAK),
    }
}

/// The highest rate with Muon.
pub(crate) const MUON_PEAK: f32 = 1e-2;
const ADAMW_PEAK: f32 = 3e-3;
/// For a square matrix Muon multiplies about as much as five tokens for each row would.
const MUON_PRODUCTS: u64 = 5;
/// The outer optimiser that suits it and so short a span between captures.
pub(crate) const OUTER: Outer = Outer { learning_rate: 1.0, momentum: 0.0 };
/// Steps between captures: on one machine bytes cost little.
pub(crate) const STEPS_MAX: u32 = 12;
/// Rounds of each fragment that somebody who watches should see.
const ROUNDS: u64 = 12;
/// Fewer steps than this are hardly worth a payload.
const STEPS_MIN: u32 = 6;
/// The warm-up is this part of the run.
const WARMUP_PART: u64 = 20;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_learning_rate_has_fallen_at_the_end() {
        let options = Line::try_parse_from(["up", "--seed", "7"]).unwrap().options;
        let swarm = swarm(&options, 4_000_000);
        swarm.validate().unwrap();
        assert_eq!((swarm.init_seed, tokens_in_step(&swarm)), (7, 8 * 128));
        let rate = swarm.schedule.learning_rate(4_000_000);
        assert!((rate - MUON_PEAK / 10.0).abs() < 1e-9, "{rate:?}");
        let mut few = swarm.clone();
        few.data.batch = 1;
        assert_eq!(inner(&few), (InnerOptimiser::AdamW, ADAMW_PEAK));
        assert_eq!(swarm.rounds.steps, STEPS_MAX);
        let short = super::swarm(&options, 400_000);
        short.validate().unwrap();
        assert_eq!((short.rounds.steps, short.rounds.steps_min), (8, 1));
        super::swarm(&options, 0).validate().unwrap();
        super::swarm(&options, u64::MAX).validate().unwrap();
    }
}
