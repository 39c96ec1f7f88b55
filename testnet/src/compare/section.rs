//! What is compared with what.

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{InnerOptimiser, MergeRule};
use clap::ValueEnum;

use super::scale::Scale;
use super::variant::{Method, Variant};
use super::weather::Weather;

/// A group of variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Ways to train together.
    Ways,
    /// Inner learning rates, for each way its own.
    Rates,
    /// AdamW as the inner optimiser.
    Adamw,
    /// How far islands are from each other.
    Distance,
    /// Codecs.
    Codecs,
    /// Merge rules.
    Rules,
    /// Steps between captures, and the outer optimiser.
    Outer,
    /// Quorum and grace window where speeds are mixed.
    Quorum,
    /// More tokens.
    Length,
    /// What `--variant` names.
    #[value(skip)]
    Own,
}

impl Section {
    /// What its table is called.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Ways => "way",
            Self::Rates => "inner learning rate",
            Self::Adamw => "AdamW",
            Self::Distance => "a message takes up to",
            Self::Codecs => "codec",
            Self::Rules => "merge rule",
            Self::Outer => "steps and outer optimiser",
            Self::Quorum => "quorum and grace, speeds 1 to 1/4",
            Self::Length => "length",
            Self::Own => "variant",
        }
    }

    /// What the reference of its table is called, if it has one.
    pub(super) fn reference(self) -> Option<&'static str> {
        match self {
            Self::Ways | Self::Distance => Some("central"),
            Self::Codecs => Some("f32"),
            Self::Rules => Some("mean"),
            Self::Outer | Self::Quorum => Some("default"),
            Self::Rates | Self::Adamw | Self::Length | Self::Own => None,
        }
    }

    fn variants(self, rates: &[f32]) -> Vec<Variant> {
        match self {
            Self::Ways => ways(),
            Self::Rates => rated(rates),
            Self::Adamw => adamw(),
            Self::Distance => distances(),
            Self::Codecs => codecs(),
            Self::Rules => rules(),
            Self::Outer => outer(),
            Self::Quorum => quorum(),
            Self::Length => lengths(),
            Self::Own => Vec::new(),
        }
    }
}

/// The variants of these sections. What two sections share is run once.
pub(super) fn variants(sections: &[Section], rates: &[f32], own: &[Variant]) -> Vec<Variant> {
    sections.iter().flat_map(|it| it.variants(rates)).chain(own.iter().cloned()).collect()
}

/// Rounds that never close say nothing.
pub(super) fn fits(variant: &Variant, scale: &Scale) -> bool {
    2 * variant.span <= scale.steps * variant.times
}

fn ways() -> Vec<Variant> {
    let new = |name: &str, method| Variant::new(Section::Ways, name, method);
    vec![
        new("one island, as long", Method::OneIsland),
        new("data-parallel, every step", Method::EveryStep),
        Variant { reference: true, ..new("central DiLoCo", Method::Central) },
        // What is left of it for islands that do not wait: one step goes by before they adopt.
        Variant { delay: 1, ..new("central DiLoCo, adopted a step later", Method::Central) },
        new("pairwise gossip (NoLoCo)", Method::Pairwise),
        new("Atoll", CALM),
        // A message takes a tenth of a step, and not a hundredth.
        Variant { latency_ms: Some(FAR_MS), ..new("Atoll, messages up to 10 ms", CALM) },
        new("Atoll, speeds 1 to 1/4", Method::Swarm(Weather::Spread)),
        new("Atoll, speeds 1 to 1/4, storm", Method::Swarm(Weather::Storm)),
        new("Atoll, split", Method::Swarm(Weather::Split)),
    ]
}

fn rated(rates: &[f32]) -> Vec<Variant> {
    let ways = [("data-parallel", Method::EveryStep), ("DiLoCo", Method::Central), ("Atoll", CALM)];
    let variant = |(way, method): (&str, Method), peak: f32| Variant {
        peak,
        ..Variant::new(Section::Rates, format!("{way}, peak {peak}"), method)
    };
    ways.into_iter().flat_map(|way| rates.iter().map(move |peak| variant(way, *peak))).collect()
}

fn adamw() -> Vec<Variant> {
    let ways = [("data-parallel", Method::EveryStep), ("Atoll", CALM)];
    ways.into_iter()
        .flat_map(|(way, method)| {
            ADAMW_RATES.map(|peak| {
                let name = format!("{way}, AdamW, peak {peak}");
                let optimiser = InnerOptimiser::AdamW;
                Variant { peak, optimiser, ..Variant::new(Section::Adamw, name, method) }
            })
        })
        .collect()
}

fn distances() -> Vec<Variant> {
    let new = |name: String, method| Variant::new(Section::Distance, name, method);
    let central = new("central DiLoCo, at once".into(), Method::Central);
    let atoll = |latency_ms: u64| {
        let name = format!("Atoll, {latency_ms} ms");
        Variant { latency_ms: Some(latency_ms), ..new(name, CALM) }
    };
    let mut variants = vec![Variant { reference: true, ..central }];
    variants.extend(LATENCIES_MS.map(atoll));
    variants
}

fn codecs() -> Vec<Variant> {
    Codec::ALL
        .map(|codec| {
            let name = format!("codec {}", codec.name());
            let reference = codec == Codec::F32;
            Variant { codec, reference, ..Variant::new(Section::Codecs, name, CALM) }
        })
        .into()
}

fn rules() -> Vec<Variant> {
    [
        ("mean", MergeRule::Mean),
        ("rda", MergeRule::Rda),
        ("trimmed-mean", MergeRule::TrimmedMean),
        ("centered-clip", MergeRule::CenteredClip),
    ]
    .map(|(name, rule)| {
        let reference = rule == MergeRule::Mean;
        let name = format!("rule {name}");
        Variant { rule, reference, ..Variant::new(Section::Rules, name, CALM) }
    })
    .into()
}

fn outer() -> Vec<Variant> {
    let default = Variant::new(Section::Outer, "", CALM);
    let variant = |span: u32, (outer_rate, momentum): (f32, f32)| {
        let name = format!("H {span}, outer {outer_rate}/{momentum}");
        let mut variant = Variant { name, span, outer_rate, momentum, ..default.clone() };
        variant.reference = variant == Variant { name: variant.name.clone(), ..default.clone() };
        variant
    };
    SPANS.iter().flat_map(|span| OUTER.map(|outer| variant(*span, outer))).collect()
}

fn quorum() -> Vec<Variant> {
    let spread = Method::Swarm(Weather::Spread);
    let default = Variant::new(Section::Quorum, "", spread);
    let variant = |quorum_percent: u32, grace_ms_max: u64| {
        let name = format!("quorum {quorum_percent} %, grace up to {grace_ms_max} ms");
        let reference =
            (quorum_percent, grace_ms_max) == (default.quorum_percent, default.grace_ms_max);
        Variant { name, reference, quorum_percent, grace_ms_max, ..default.clone() }
    };
    QUORUMS.iter().flat_map(|quorum| GRACES.map(|grace| variant(*quorum, grace))).collect()
}

fn lengths() -> Vec<Variant> {
    let ways = [("data-parallel", Method::EveryStep), ("DiLoCo", Method::Central), ("Atoll", CALM)];
    [1, 2, 4]
        .into_iter()
        .flat_map(|times| {
            ways.map(|(way, method)| {
                let name = format!("{way}, {times} x the tokens");
                Variant { times, ..Variant::new(Section::Length, name, method) }
            })
        })
        .collect()
}

/// Atoll's islands at their best.
pub(super) const CALM: Method = Method::Swarm(Weather::Calm);
/// Rates of AdamW: higher ones diverge.
const ADAMW_RATES: [f32; 3] = [1e-3, 2e-3, 4e-3];
/// A room, a city, a country, a continent, an ocean.
const LATENCIES_MS: [u64; 5] = [1, 10, 30, 60, 200];
pub(super) const FAR_MS: u64 = 10;
const SPANS: [u32; 4] = [8, 12, 24, 96];
/// Outer learning rate and momentum.
const OUTER: [(f32, f32); 5] = [(1.0, 0.0), (1.0, 0.3), (0.7, 0.5), (0.7, 0.7), (0.7, 0.9)];
const QUORUMS: [u32; 4] = [25, 50, 75, 100];
const GRACES: [u64; 2] = [500, 3000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_names_a_reference_has_one() {
        for section in Section::value_variants() {
            let variants = section.variants(&[1e-3]);
            assert!(!variants.is_empty());
            let references = variants.iter().filter(|it| it.reference).count();
            assert_eq!(references, usize::from(section.reference().is_some()), "{section:?}");
        }
    }

    #[test]
    fn every_variant_is_a_run_that_may_be() {
        for variant in variants(Section::value_variants(), &[1e-3], &[]) {
            let genesis = variant.genesis(&Scale::quick(), 1);
            assert_eq!(genesis.validate().map_err(|it| it.to_string()), Ok(()), "{}", variant.name);
        }
    }
}
