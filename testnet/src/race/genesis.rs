//! The run that everybody races in.

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{Genesis, InnerOptimiser, Model, ScheduleShape};

/// The run: a model by name, H, and a codec by name; none if there is no such model or codec.
pub(super) fn of(model: &str, seed: u64, span: u32, codec: &str) -> Option<Genesis> {
    let mut genesis = Genesis::new("race", Model::preset(model)?);
    genesis.init_seed = seed;
    genesis.codec = Codec::ALL.into_iter().find(|it| it.name() == codec)?;
    // So little that a step of four islands on two cores is done before its emulated time is over.
    genesis.data.batch = 1;
    genesis.data.sequence = genesis.data.sequence.min(SEQUENCE);
    // The only one that rivals have.
    genesis.inner.optimiser = InnerOptimiser::AdamW;
    // A warm-up would make a short race one about warm-ups. The inner optimiser has one of its own.
    genesis.schedule.warmup_tokens = 0;
    genesis.schedule.shape = ScheduleShape::Constant;
    genesis.rounds.steps = span;
    genesis.rounds.steps_min = (span / STEPS_MIN_PART).max(1);
    genesis.rounds.heartbeat_ms = 1_000;
    // Who is killed is missed soon: what nobody waits for any more becomes stable without it.
    genesis.rounds.alive_ms = 5_000;
    genesis.rounds.forget_ms = FORGET_MS;
    Some(genesis)
}

/// Tokens in one sequence.
const SEQUENCE: u32 = 64;
const STEPS_MIN_PART: u32 = 8;
const FORGET_MS: u64 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_may_be() {
        let genesis = of("micro", 3, 32, "low").unwrap();
        genesis.validate().unwrap();
        let schedule = genesis.schedule;
        assert_eq!(schedule.learning_rate(0), schedule.learning_rate(1_000_000));
        assert_eq!((of("huge", 1, 32, "low"), of("micro", 1, 32, "x")), (None, None));
    }
}
