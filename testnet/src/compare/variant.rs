//! What is compared with what.

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{Genesis, MergeRule};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::scale::{PEAK, Scale};
use super::weather::Weather;

/// A group of variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Ways to train together.
    Ways,
    /// Inner learning rates, for each way its own.
    Rates,
    /// Codecs.
    Codecs,
    /// Merge rules.
    Rules,
    /// Steps between captures, and outer momentum.
    Outer,
    /// More tokens.
    Length,
}

/// One way to train with one set of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// What people call it.
    #[serde(skip)]
    pub name: String,
    /// Where it belongs.
    #[serde(skip)]
    pub section: Option<Section>,
    /// The way.
    pub method: Method,
    /// Inner learning rate at its highest.
    pub peak: f32,
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
    /// How many times the tokens of the scale.
    pub times: u32,
}

/// A way to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    fn new(section: Section, name: impl Into<String>, method: Method) -> Self {
        let genesis = Genesis::custom("defaults", Vec::new());
        Self {
            name: name.into(),
            section: Some(section),
            method,
            peak: PEAK,
            span: genesis.rounds.steps,
            momentum: genesis.outer.momentum,
            outer_rate: genesis.outer.learning_rate,
            codec: genesis.codec,
            rule: genesis.merge.rule,
            times: 1,
        }
    }

    /// The run's genesis.
    pub(super) fn genesis(&self, scale: &Scale, seed: u64) -> Genesis {
        let mut genesis = self.scale(scale).genesis(seed);
        genesis.rounds.steps = self.span;
        genesis.rounds.steps_min = genesis.rounds.steps_min.min(self.span);
        genesis.outer.momentum = self.momentum;
        genesis.outer.learning_rate = self.outer_rate;
        genesis.codec = self.codec;
        genesis.merge.rule = self.rule;
        genesis
    }

    /// The scale with this variant's length.
    pub(super) fn scale(&self, scale: &Scale) -> Scale {
        Scale { steps: scale.steps * self.times, ..scale.clone() }
    }
}

impl Section {
    pub(super) const ALL: [Self; 6] =
        [Self::Ways, Self::Rates, Self::Codecs, Self::Rules, Self::Outer, Self::Length];
}

/// The variants of these sections. What two sections share is run once.
pub(super) fn of(sections: &[Section], scale: &Scale) -> Vec<Variant> {
    let mut variants: Vec<Variant> = sections.iter().flat_map(|it| section(*it)).collect();
    // Rounds that never close say nothing.
    variants.retain(|variant| 2 * variant.span <= scale.steps);
    variants
}

fn section(section: Section) -> Vec<Variant> {
    let new = |name: &str, method| Variant::new(section, name, method);
    let calm = Method::Swarm(Weather::Calm);
    match section {
        Section::Ways => vec![
            new("one island, as long", Method::OneIsland),
            new("data-parallel, every step", Method::EveryStep),
            new("central DiLoCo", Method::Central),
            new("pairwise gossip (NoLoCo)", Method::Pairwise),
            new("Atoll", calm),
            new("Atoll, speeds 1 to 1/4", Method::Swarm(Weather::Spread)),
            new("Atoll, storm", Method::Swarm(Weather::Storm)),
        ],
        Section::Rates => [Method::EveryStep, Method::Central]
            .into_iter()
            .flat_map(|method| {
                [1e-3, 2e-3, 4e-3, 8e-3].map(|peak| {
                    let way = if method == Method::Central { "DiLoCo" } else { "data-parallel" };
                    Variant { peak, ..new(&format!("{way}, peak {peak}"), method) }
                })
            })
            .collect(),
        Section::Codecs => [
            ("f32", Codec::F32),
            ("int8", Codec::Int8),
            ("int4", Codec::Int4),
            ("low", Codec::Low),
            ("sparse", Codec::Sparse),
        ]
        .map(|(name, codec)| Variant { codec, ..new(&format!("codec {name}"), calm) })
        .into(),
        Section::Rules => [
            ("mean", MergeRule::Mean),
            ("rda", MergeRule::Rda),
            ("trimmed-mean", MergeRule::TrimmedMean),
            ("centered-clip", MergeRule::CenteredClip),
        ]
        .map(|(name, rule)| Variant { rule, ..new(&format!("rule {name}"), calm) })
        .into(),
        Section::Outer => [8, 24, 96]
            .into_iter()
            .flat_map(|span| {
                [0.0, 0.3, 0.6, 0.9].map(|momentum| {
                    let name = format!("H {span}, momentum {momentum}");
                    Variant { span, momentum, ..new(&name, Method::Central) }
                })
            })
            .collect(),
        Section::Length => [1, 2, 4]
            .into_iter()
            .flat_map(|times| {
                [("data-parallel", Method::EveryStep), ("DiLoCo", Method::Central)].map(
                    |(way, method)| {
                        let name = format!("{way}, {times} x the tokens");
                        Variant { times, ..new(&name, method) }
                    },
                )
            })
            .collect(),
    }
}
