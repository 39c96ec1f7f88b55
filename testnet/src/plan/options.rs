//! The command line of `plan`.

use atoll_protocol::codec::Codec;
use atoll_protocol::limits::HORIZON_MAX;
use clap::Args;

use super::error::InputError;
use super::inputs::Inputs;
use super::quantity;

/// Options of `plan`.
#[derive(Debug, Args)]
pub struct Options {
    /// Parameters of the model: 12e9, 12b, 350m.
    #[arg(long, default_value = "12e9")]
    pub params: String,
    /// Islands, 1 to 1000000.
    #[arg(long, default_value_t = 4)]
    pub islands: u64,
    /// Milliseconds of one step.
    #[arg(long, default_value_t = 1000)]
    pub step_ms: u64,
    /// Own steps between captures of a fragment (H).
    #[arg(long, default_value_t = 24)]
    pub steps: u64,
    /// Each island's link: 20mbit, 2.5gbit, or up/down: 110mbit/500mbit.
    #[arg(long, default_value = "10gbit")]
    pub link: String,
    /// Codec: f32, int8, int4, low, sparse.
    #[arg(long, default_value = "int4")]
    pub codec: String,
    /// Fragments; default: 24, or as many as the largest fragment allows.
    #[arg(long)]
    pub fragments: Option<u64>,
    /// Rounds kept open for late contributions (W).
    #[arg(long, default_value_t = 64)]
    pub horizon: u64,
    /// Print each formula and the numbers in it.
    #[arg(long)]
    pub explain: bool,
    /// Print the tables of docs/SCALE.md: 1B to 1T parameters, 4 to 10000 islands.
    #[arg(long, conflicts_with_all = ["explain", "json", "params", "islands", "fragments"])]
    pub scale: bool,
    /// Print the plan as one object on the last line.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The inputs, each in its range.
    pub fn inputs(&self) -> Result<Inputs, InputError> {
        let params = quantity::params(&self.params)?;
        let link = quantity::link(&self.link)?;
        let codec = codec(&self.codec)?;
        within("--islands", self.islands, 1, ISLANDS_MAX)?;
        within("--step-ms", self.step_ms, 1, STEP_MS_MAX)?;
        within("--steps", self.steps, 1, STEPS_MAX)?;
        within("--horizon", self.horizon, HORIZON_MIN, u64::from(HORIZON_MAX))?;
        let fragments = self.fragments.unwrap_or_else(|| Inputs::usual_fragments(params));
        within("--fragments", fragments, 1, params)?;
        Ok(Inputs {
            params,
            islands: self.islands,
            step_ms: self.step_ms,
            steps: self.steps,
            link,
            codec,
            fragments,
            horizon: self.horizon,
            ..Inputs::default()
        })
    }
}

/// The codec of this name.
pub(crate) fn codec(name: &str) -> Result<Codec, InputError> {
    Codec::ALL.into_iter().find(|codec| codec.name() == name).ok_or_else(|| InputError::Codec {
        given: name.into(),
        known: Codec::ALL.map(Codec::name).join(", "),
    })
}

/// Refuses a number outside its range.
pub(crate) fn within(
    option: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), InputError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let allowed = format!("{low} to {high}");
    Err(InputError::Range { option, given: value.to_string(), allowed })
}

/// More than the protocol allows, so that a plan can say so.
const ISLANDS_MAX: u64 = 1_000_000;
/// An hour.
const STEP_MS_MAX: u64 = 3_600_000;
/// As in a genesis.
const STEPS_MAX: u64 = 100_000;
/// As in a genesis.
const HORIZON_MIN: u64 = 4;
