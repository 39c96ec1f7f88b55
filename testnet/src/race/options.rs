//! What can be asked of `race`, and whether it makes sense.

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{Genesis, Outer, PRESETS};
use clap::{Args, ValueEnum};

use super::genesis;
use crate::up::UpError;

/// Options of `race`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Links to race over, in Mbit/s each way.
    #[arg(long, value_delimiter = ',', default_value = "100,20,5")]
    pub rates: Vec<f64>,
    /// What goes wrong; anything but calm only at 20 Mbit/s, or else at the first rate.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "calm,slow,killed,restarted")]
    pub with: Vec<Trouble>,
    /// Who races.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "atoll,parallel,diloco")]
    pub who: Vec<Racer>,
    /// The held-out loss to reach; default 1.8, or 2.4 with --quick.
    #[arg(long)]
    pub target: Option<f64>,
    /// A step takes at least so long, whatever the machine could do.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub step_ms: u64,
    /// How many islands.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub islands: u8,
    /// The model.
    #[arg(long, default_value = "micro")]
    pub model: String,
    /// Steps between captures, for Atoll and for DiLoCo.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub span: u32,
    /// The outer optimiser of Atoll and of DiLoCo: learning rate and momentum.
    #[arg(long, value_name = "RATE/MOMENTUM", default_value = "1.0/0.65", value_parser = outer)]
    pub outer: Outer,
    /// Sequences of 64 tokens in a step of one island. Two quick cores with a unit for bf16 manage 8
    /// for four islands in 150 ms, those without one 2.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub batch: u32,
    /// The inner learning rate of Atoll and of DiLoCo.
    #[arg(long, value_name = "RATE", default_value_t = 8e-4)]
    pub peak: f32,
    /// The learning rate of data-parallel.
    #[arg(long, value_name = "RATE", default_value_t = 7e-4)]
    pub parallel_peak: f32,
    /// Atoll's codec.
    #[arg(long, default_value = "low")]
    pub codec: String,
    /// Real steps over the link from which a rival's pace is measured, at least.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub steps: u64,
    /// Minutes after which a run that has not reached the target is stopped.
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// Seed of the initial parameters and of the text.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Race at 20 Mbit/s only, calm, to an easier target: about six minutes.
    #[arg(long)]
    pub quick: bool,
    /// Keep the folder with the homes and logs.
    #[arg(long)]
    pub keep: bool,
    /// Print all rows as JSON in the last line.
    #[arg(long)]
    pub json: bool,
}

/// Who races.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Racer {
    /// Nodes, as they are.
    Atoll,
    /// Synchronous data-parallel: a ring all-reduce of bf16 gradients in every step.
    Parallel,
    /// Synchronous DiLoCo: the same ring every H steps.
    Diloco,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trouble {
    /// Nothing.
    Calm,
    /// The last island's steps take four times as long.
    Slow,
    /// The last island is killed after a third of the calm time, and stays away.
    Killed,
    /// The same, but it is started again fifteen seconds later.
    Restarted,
}

impl Options {
    /// Refuses what cannot work before anything is built or started.
    pub(super) fn check(&self) -> Result<Genesis, UpError> {
        if self.rates.is_empty() || !self.rates.iter().all(|it| RATES.contains(it)) {
            let what = format!("--rates {}", words(&self.rates));
            return Err(UpError::usage(what, "write Mbit/s from 0.5 to 10000, such as 100,20"));
        }
        if !TARGETS.contains(&self.target()) {
            let what = format!("--target {}", self.target());
            return Err(UpError::usage(what, "a loss in nats per byte from 0.5 to 5.5"));
        }
        if !(0.1..=600.0).contains(&self.minutes) {
            let what = format!("--minutes {}", self.minutes);
            return Err(UpError::usage(what, "allowed are 0.1 to 600"));
        }
        let rates = [self.peak, self.parallel_peak];
        if !rates.iter().all(|it| it.is_finite() && *it > 0.0) {
            let what = format!("--peak {} --parallel-peak {}", self.peak, self.parallel_peak);
            return Err(UpError::usage(what, "a rate is a number above 0, such as 1e-3"));
        }
        let run = genesis::of(&self.model, self.seed, self.span, &self.codec);
        let Some(mut genesis) = run else {
            let what = format!("--model {} --codec {}", self.model, self.codec);
            let codecs = Codec::ALL.map(Codec::name).join(", ");
            let hint = format!("models are {}; codecs are {codecs}", PRESETS.join(", "));
            return Err(UpError::usage(what, hint));
        };
        genesis.outer = self.outer;
        genesis.data.batch = self.batch;
        genesis.schedule.peak = self.peak;
        let refused = |error| UpError::usage(format!("no such run: {error}"), "ask for less");
        genesis.validate().map_err(refused)?;
        Ok(genesis)
    }

    pub(super) fn target(&self) -> f64 {
        self.target.unwrap_or(if self.quick { QUICK_TARGET } else { TARGET })
    }

    /// Every race: the rate in bits in a second, and what goes wrong.
    pub(super) fn races(&self) -> Vec<(f64, Trouble)> {
        let middle = self.rates.iter().find(|it| **it == MIDDLE).or(self.rates.first());
        let middle = middle.copied().unwrap_or(MIDDLE);
        let mut races = Vec::new();
        for trouble in &self.with {
            match trouble {
                _ if self.quick => races.extend((races.is_empty()).then_some((middle, *trouble))),
                Trouble::Calm => races.extend(self.rates.iter().map(|rate| (*rate, *trouble))),
                _ => races.push((middle, *trouble)),
            }
        }
        races.into_iter().map(|(rate, trouble)| (rate * 1e6, trouble)).collect()
    }
}

impl Trouble {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Calm => "",
            Self::Slow => "one at quarter speed",
            Self::Killed => "one killed",
            Self::Restarted => "one killed, back after 15 s",
        }
    }
}

fn outer(text: &str) -> Result<Outer, String> {
    let (rate, momentum) = text.split_once('/').unwrap_or((text, "0"));
    match (rate.parse(), momentum.parse()) {
        (Ok(learning_rate), Ok(momentum)) => Ok(Outer { learning_rate, momentum }),
        _ => Err("these are no two numbers\nhint: such as --outer 0.7/0.6".into()),
    }
}

fn words(rates: &[f64]) -> String {
    rates.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

const RATES: std::ops::RangeInclusive<f64> = 0.5..=10_000.0;
const TARGETS: std::ops::RangeInclusive<f64> = 0.5..=5.5;
const TARGET: f64 = 1.8;
const QUICK_TARGET: f64 = 2.4;
/// The link on which things go wrong.
const MIDDLE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &[&str]) -> Options {
        Words::try_parse_from([&["race"], words].concat()).unwrap().options
    }

    #[test]
    fn trouble_comes_at_the_middle_rate() {
        let races = options(&[]).races();
        assert_eq!(races.len(), 6);
        assert_eq!(races[3], (20e6, Trouble::Slow));
        assert_eq!(options(&["--quick"]).races(), [(20e6, Trouble::Calm)]);
        assert_eq!(
            options(&["--rates", "5", "--with", "killed"]).races(),
            [(5e6, Trouble::Killed)]
        );
        assert!(options(&[]).check().is_ok());
    }

    #[test]
    fn nonsense_has_a_hint() {
        for words in [
            ["--rates", "0"],
            ["--rates", "NaN"],
            ["--target", "9"],
            ["--minutes", "0"],
            ["--model", "huge"],
            ["--codec", "int3"],
            ["--outer", "1.0/1.0"],
            ["--parallel-peak", "NaN"],
        ] {
            let error = options(&words).check().unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
        }
    }
}
