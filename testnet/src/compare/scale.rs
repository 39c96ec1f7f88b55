//! How large a comparison is.

use atoll_protocol::genesis::{Genesis, Model};
use serde::Serialize;

use super::weather::STEP_MS;
use crate::up::MUON_PEAK;

/// How large a comparison is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Which model.
    pub size: Size,
    /// How many islands.
    pub islands: u16,
    /// Steps of each island, were all of one speed.
    pub steps: u32,
    /// The longest that a message takes, in milliseconds; a step takes 100.
    pub latency_ms: u64,
    /// What a link between two islands carries, in megabits in a second.
    pub mbit: u64,
    /// How many seeds.
    #[serde(skip)]
    pub seeds: u64,
}

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// The default of a swarm.
    Nano,
    /// About a tenth of it.
    Pico,
}

impl Scale {
    /// What the recorded tables show.
    pub(super) fn full() -> Self {
        Self {
            size: Size::Nano,
            islands: 4,
            steps: 768,
            latency_ms: LATENCY_MS,
            mbit: MBIT,
            seeds: 3,
        }
    }

    /// What one can wait for.
    pub(super) fn quick() -> Self {
        Self {
            size: Size::Pico,
            islands: 4,
            steps: 768,
            latency_ms: LATENCY_MS,
            mbit: MBIT,
            seeds: 1,
        }
    }

    /// The run that every variant starts from. Its schedule ends where the tokens do.
    pub(super) fn genesis(&self, seed: u64) -> Genesis {
        let mut genesis = match self.size {
            Size::Nano => Genesis::new("compare", Model::preset("nano").expect("a known preset")),
            Size::Pico => Genesis::new("compare", pico()),
        };
        genesis.init_seed = seed;
        genesis.data.batch = 8;
        genesis.schedule.peak = MUON_PEAK;
        genesis.schedule.total_tokens = self.tokens(&genesis);
        genesis.schedule.warmup_tokens = genesis.schedule.total_tokens / 20;
        genesis
    }

    /// Tokens that all islands train on together.
    pub(super) fn tokens(&self, genesis: &Genesis) -> u64 {
        let data = &genesis.data;
        let batch = u64::from(data.batch) * u64::from(data.sequence);
        u64::from(self.islands) * u64::from(self.steps) * batch
    }

    /// What it is, in words.
    pub(super) fn words(&self) -> String {
        let genesis = self.genesis(1);
        let parameters: usize = genesis.tensors.iter().map(|tensor| tensor.elements()).sum();
        let tokens = self.tokens(&genesis);
        format!(
            "{parameters} parameters, {} islands, {} steps each, {tokens} tokens in all, \
             {} seeds; a step takes {STEP_MS} ms, a message up to {} ms, links of {} Mbit/s",
            self.islands, self.steps, self.seeds, self.latency_ms, self.mbit
        )
    }
}

/// A model that a few minutes can say something about.
fn pico() -> Model {
    Model::Llama {
        vocab: 256,
        width: 64,
        layers: 2,
        heads: 2,
        kv_heads: 2,
        hidden: 192,
        context: 64,
        tied: true,
        rope_theta: 10_000.0,
        norm_epsilon: 1e-5,
    }
}

/// The longest that a message takes where nothing else is asked for: machines in one room.
pub(super) const LATENCY_MS: u64 = 1;
/// What each of their links carries.
pub(super) const MBIT: u64 = 1000;
