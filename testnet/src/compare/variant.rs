//! One way to train with one set of values.

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{Genesis, InnerOptimiser, MergeRule};
use serde::Serialize;

use super::scale::Scale;
use super::section::Section;
use super::weather::{self, Weather};
use crate::up::{MUON_PEAK, OUTER, STEPS_MAX};

/// One way to train with one set of values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// What people call it.
    #[serde(skip)]
    pub name: String,
    /// Where it belongs.
    #[serde(skip)]
    pub section: Section,
    /// Whether the others of its section are held against it.
    #[serde(skip)]
    pub reference: bool,
    /// The way.
    pub method: Method,
    /// Inner learning rate at its highest.
    pub peak: f32,
    /// Inner optimiser.
    pub optimiser: InnerOptimiser,
    /// Steps between captures.
    pub span: u32,
    /// Outer momentum.
    pub momentum: f32,
    /// Outer learning rate.
    pub outer_rate: f32,
    /// Codec.
    pub codec: Codec,
    /// Merge rule.
    pub rule: MergeRule,
    /// Share of the islands that lets a round close, in percent.
    pub quorum_percent: u32,
    /// Longest grace window.
    pub grace_ms_max: u64,
    /// How many times the tokens of the scale.
    pub times: u32,
    /// The longest that a message takes, if not as long as the scale says.
    pub latency_ms: Option<u64>,
    /// Pieces of a step, between which an island of a swarm captures and adopts.
    pub pieces: u32,
    /// Steps between a capture and its adoption, where a centre decides.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay: u32,
}

/// A way to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// One island for as long as the swarm takes.
    OneIsland,
    /// All gradients are averaged in every step.
    EveryStep,
    /// DiLoCo with a syncer that nothing ever happens to.
    Central,
    /// Pairs drawn anew for each round average with each other.
    Pairwise,
    /// Atoll.
    Swarm(Weather),
}

impl Variant {
    /// Everything as in a demonstration (`up`), and what that does not say as in any run.
    pub(super) fn new(section: Section, name: impl Into<String>, method: Method) -> Self {
        let genesis = Genesis::custom("defaults", Vec::new());
        Self {
            name: name.into(),
            section,
            reference: false,
            method,
            peak: MUON_PEAK,
            optimiser: InnerOptimiser::muon(),
            span: STEPS_MAX,
            momentum: OUTER.momentum,
            outer_rate: OUTER.learning_rate,
            codec: genesis.codec,
            rule: genesis.merge.rule,
            quorum_percent: genesis.rounds.quorum_percent,
            grace_ms_max: weather::GRACE_MS_MAX,
            times: 1,
            latency_ms: None,
            pieces: PIECES,
            delay: 0,
        }
    }

    /// The run's genesis.
    pub(super) fn genesis(&self, scale: &Scale, seed: u64) -> Genesis {
        let mut genesis = self.scale(scale).genesis(seed);
        weather::quicken(&mut genesis);
        genesis.rounds.steps = self.span;
        genesis.rounds.steps_min = genesis.rounds.steps_min.min(self.span.div_ceil(STEPS_MIN_PART));
        genesis.rounds.quorum_percent = self.quorum_percent;
        genesis.rounds.grace_ms_max = self.grace_ms_max;
        genesis.rounds.grace_ms_min = genesis.rounds.grace_ms_min.min(self.grace_ms_max);
        genesis.inner.optimiser = self.optimiser;
        genesis.outer.momentum = self.momentum;
        genesis.outer.learning_rate = self.outer_rate;
        genesis.codec = self.codec;
        genesis.merge.rule = self.rule;
        genesis
    }

    /// The scale with this variant's length and distances.
    pub(super) fn scale(&self, scale: &Scale) -> Scale {
        let latency_ms = self.latency_ms.unwrap_or(scale.latency_ms);
        Scale { steps: scale.steps * self.times, latency_ms, ..scale.clone() }
    }

    /// Whether it trains as many tokens as the others do in the same time.
    pub(super) fn is_whole(&self) -> bool {
        self.method != Method::OneIsland
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_zero(steps: &u32) -> bool {
    *steps == 0
}

/// One sequence each.
const PIECES: u32 = 8;
/// The default `steps_min` is this part of the default H; a shorter H keeps the proportion.
const STEPS_MIN_PART: u32 = 8;
