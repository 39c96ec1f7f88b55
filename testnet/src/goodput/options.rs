//! The command line of `goodput`.

use clap::Args;

use super::study::{Asked, Extent};
use crate::plan::{self, InputError, Inputs};

/// Options of `goodput`.
#[derive(Debug, Args)]
pub struct Options {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seeds, 1 to 1000.
    #[arg(long, default_value_t = 5)]
    pub seeds: u64,
    /// Simulated days, 1 to 365.
    #[arg(long, default_value_t = 7)]
    pub days: u64,
    /// Two seeds.
    #[arg(long, conflicts_with = "seeds")]
    pub quick: bool,
    /// Mean days between interruptions of one chip; the published table has 365.
    #[arg(long, default_value_t = super::published::MTBI_DAYS)]
    pub mtbi_days: u64,
    /// Parameters of the model that a restarted island must catch up with.
    #[arg(long, default_value = "12e9")]
    pub params: String,
    /// Each island's link.
    #[arg(long, default_value = "400gbit")]
    pub link: String,
    /// Milliseconds of one step.
    #[arg(long, default_value_t = 1000)]
    pub step_ms: u64,
    /// Own steps between captures of a fragment (H).
    #[arg(long, default_value_t = 24)]
    pub steps: u64,
    /// Codec: f32, int8, int4, low, sparse.
    #[arg(long, default_value = "int4")]
    pub codec: String,
    /// Print comma-separated values instead of tables.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print everything as one object on the last line.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// What is asked for, each number in its range.
    pub(super) fn asked(&self) -> Result<Asked, InputError> {
        plan::within("--seeds", self.seeds, 1, SEEDS_MAX)?;
        plan::within("--seed", self.seed, 0, u64::MAX - SEEDS_MAX)?;
        plan::within("--days", self.days, 1, DAYS_MAX)?;
        plan::within("--mtbi-days", self.mtbi_days, 1, MTBI_DAYS_MAX)?;
        plan::within("--step-ms", self.step_ms, 1, STEP_MS_MAX)?;
        plan::within("--steps", self.steps, 1, STEPS_MAX)?;
        let params = plan::params(&self.params)?;
        let seeds = if self.quick { SEEDS_QUICK } else { self.seeds };
        Ok(Asked {
            extent: Extent { seed: self.seed, seeds, days: self.days },
            mtbi_days: self.mtbi_days,
            inputs: Inputs {
                params,
                fragments: Inputs::usual_fragments(params),
                link: plan::link(&self.link)?,
                step_ms: self.step_ms,
                steps: self.steps,
                codec: plan::codec(&self.codec)?,
                ..Inputs::default()
            },
        })
    }
}

const SEEDS_QUICK: u64 = 2;
const SEEDS_MAX: u64 = 1000;
const DAYS_MAX: u64 = 365;
/// Ten thousand years.
const MTBI_DAYS_MAX: u64 = 3_650_000;
/// An hour.
const STEP_MS_MAX: u64 = 3_600_000;
const STEPS_MAX: u64 = 100_000;
