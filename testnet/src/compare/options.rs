//! What can be asked for.

use std::path::PathBuf;

use clap::Args;

use super::own;
use super::scale::{LATENCY_MS, MBIT, Scale};
use super::section::{self, Section};
use super::variant::Variant;

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Take a smaller model, fewer tokens and one seed: about ten minutes on two cores.
    #[arg(long)]
    pub quick: bool,
    /// Compare these; default: the ways to train together, and their inner rates.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub only: Vec<Section>,
    /// Add a variant of your own, such as `atoll,peak=4e-3,span=8,outer=0.7/0.5,adamw`; nothing
    /// else is run unless --only asks for it.
    #[arg(long, value_name = "WAY,VALUES", value_parser = own::read)]
    pub variant: Vec<Variant>,
    /// Inner learning rates that every way is tried with.
    #[arg(long, value_delimiter = ',', default_value = "5e-3,1e-2,2e-2", value_parser = rate)]
    pub rates: Vec<f32>,
    /// How many seeds; default 3, or 1 with --quick.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// How many islands.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub islands: u16,
    /// Steps of each island, were all of one speed.
    #[arg(long, default_value_t = 768, value_parser = clap::value_parser!(u32).range(24..))]
    pub steps: u32,
    /// The longest that a message takes between islands of a swarm, in milliseconds. A step takes 100:
    /// what counts is how many steps go by.
    #[arg(long, value_name = "MS", default_value_t = LATENCY_MS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub latency: u64,
    /// What a link between two islands of a swarm carries, in megabits in a second.
    #[arg(long, value_name = "RATE", default_value_t = MBIT)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub mbit: u64,
    /// Where finished runs are kept: what is there is not run again.
    #[arg(long, default_value = "compare")]
    pub dir: PathBuf,
    /// Runs at once; default: one for each core.
    #[arg(long, default_value_t = 0)]
    pub jobs: usize,
    /// Print the rows as JSON in the last line.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// How large everything is.
    pub(super) fn scale(&self) -> Scale {
        let base = if self.quick { Scale::quick() } else { Scale::full() };
        Scale {
            seeds: self.seeds.unwrap_or(base.seeds),
            islands: self.islands,
            steps: self.steps,
            latency_ms: self.latency,
            mbit: self.mbit,
            ..base
        }
    }

    /// What is compared.
    pub(super) fn sections(&self) -> Vec<Section> {
        match self.only.as_slice() {
            [] if !self.variant.is_empty() => Vec::new(),
            [] => vec![Section::Ways, Section::Rates],
            only => only.to_vec(),
        }
    }

    /// What is run.
    pub(super) fn variants(&self) -> Vec<Variant> {
        let mut variants = section::variants(&self.sections(), &self.rates, &self.variant);
        let scale = self.scale();
        variants.retain(|variant| section::fits(variant, &scale));
        variants
    }
}

fn rate(text: &str) -> Result<f32, String> {
    let rate = text.parse::<f32>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a rate is a number above 0\nhint: such as --rates 1e-3,4e-3".into())
}
