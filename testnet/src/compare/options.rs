//! What can be asked for.

use std::path::PathBuf;

use clap::Args;

use super::scale::Scale;
use super::variant::Section;

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Take a smaller model, fewer tokens and one seed: about ten minutes on two cores.
    #[arg(long)]
    pub quick: bool,
    /// Compare only these.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub only: Vec<Section>,
    /// How many seeds; default 3, or 1 with --quick.
    #[arg(long)]
    pub seeds: Option<u64>,
    /// How many islands.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub islands: u16,
    /// Steps of each island, were all of one speed; default 1536, or 768 with --quick.
    #[arg(long, value_parser = clap::value_parser!(u32).range(24..))]
    pub steps: Option<u32>,
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
            steps: self.steps.unwrap_or(base.steps),
            ..base
        }
    }

    /// What is compared.
    pub(super) fn sections(&self) -> Vec<Section> {
        match self.only.as_slice() {
            [] if self.quick => vec![Section::Ways],
            [] => Section::ALL.to_vec(),
            only => only.to_vec(),
        }
    }
}
