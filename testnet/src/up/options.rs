//! What can be asked of `up`, and whether it makes sense.

use std::path::PathBuf;

use atoll_protocol::genesis::{Model, PRESETS};
use clap::Args;

use super::chaos::Plan;
use super::error::UpError;
use crate::links::Quality;

/// Options of `up`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Islands in the swarm, 1 to 64: each is a node, a process of its own.
    #[arg(long, default_value_t = 4)]
    pub islands: usize,
    /// Minutes to train.
    #[arg(long, default_value_t = 3.0)]
    pub minutes: f64,
    /// The model's size: nano (1M), micro (5M), mini (30M), small (125M), 1b.
    #[arg(long, default_value = "nano")]
    pub model: String,
    /// `generated`, or a text file, a JSONL file, or a folder of them.
    #[arg(long, default_value = "generated")]
    pub data: String,
    /// How fast each island is, of 1; repeated from the beginning if there are more islands.
    #[arg(long, value_delimiter = ',', value_name = "SHARES", default_value = "1")]
    pub speeds: Vec<f64>,
    /// How fast each island's link is: `20mbit`, or `5mbit/20mbit` for sending and receiving.
    #[arg(long, value_name = "RATE")]
    pub link: Option<String>,
    /// What a packet takes from one island to another, such as `40ms`.
    #[arg(long, value_name = "TIME")]
    pub delay: Option<String>,
    /// The share of packets that are lost, such as `1%`.
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<String>,
    /// What is done to the swarm: calm, storm, split, churn, byzantine, or a plan in TOML.
    #[arg(long, value_name = "PLAN")]
    pub chaos: Option<String>,
    /// Seed of the initial parameters, of the generated text and of what is done to the swarm.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The folder to make for everything; it is kept [default: one that is removed at the end].
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Keep the folder with the nodes' homes and logs.
    #[arg(long)]
    pub keep: bool,
    /// Where to write the report.
    #[arg(long, value_name = "FILE", default_value = "atoll-report.html")]
    pub report: PathBuf,
    /// Also write the series of the report as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print a summary object as the last line.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Refuses what cannot work before anything is built or started.
    pub fn check(&self) -> Result<(), UpError> {
        if !(1..=ISLANDS_MAX).contains(&self.islands) {
            let what = format!("--islands {}", self.islands);
            return Err(UpError::usage(what, format!("allowed are 1 to {ISLANDS_MAX}")));
        }
        if !(MINUTES_MIN..=MINUTES_MAX).contains(&self.minutes) {
            let what = format!("--minutes {}", self.minutes);
            return Err(UpError::usage(
                what,
                format!("allowed are {MINUTES_MIN} to {MINUTES_MAX}"),
            ));
        }
        if Model::preset(&self.model).is_none() {
            let what = format!("--model {}: there is no such size", self.model);
            return Err(UpError::usage(what, format!("use one of {}", PRESETS.join(", "))));
        }
        if i64::try_from(self.seed).is_err() {
            let what = format!("--seed {}", self.seed);
            return Err(UpError::usage(what, format!("allowed are 0 to {}", i64::MAX)));
        }
        self.check_speeds()?;
        self.quality()?;
        self.check_files()
    }

    /// How fast island `index` is, of 1.
    pub fn speed(&self, index: usize) -> f64 {
        self.speeds.iter().cycle().nth(index).copied().unwrap_or(1.0)
    }

    /// How fast all islands together want to be, in islands of full speed.
    pub fn speed_of_all(&self) -> f64 {
        (0..self.islands).map(|index| self.speed(index)).sum()
    }

    /// How good the islands' links are.
    pub(super) fn quality(&self) -> Result<Quality, UpError> {
        Quality::read(self.link.as_deref(), self.delay.as_deref(), self.loss.as_deref())
            .map_err(|error| UpError::usage(error.to_string(), error.hint))
    }

    /// What is done to the swarm.
    pub(super) fn plan(&self) -> Result<Plan, UpError> {
        Plan::find(self.chaos.as_deref().unwrap_or(CALM))
    }

    /// How a node is told which text it is about, where that is not generated.
    pub(super) fn data_flags(&self) -> Result<Vec<String>, UpError> {
        if self.data == GENERATED {
            return Ok(Vec::new());
        }
        let path = std::path::absolute(&self.data)?;
        Ok(vec!["--data".into(), path.display().to_string()])
    }

    /// What swarm this is, in a line.
    pub(super) fn title(&self, quality: &Quality, plan: &Plan) -> String {
        let mut words = vec![format!("{} islands", self.islands), self.model.clone()];
        if self.data != GENERATED {
            words.push(self.data.clone());
        }
        if !quality.is_perfect() {
            words.push(quality.words());
        }
        if !plan.is_calm() {
            words.push(plan.name.clone());
        }
        words.join(" · ")
    }

    /// Whether the folder stays.
    pub fn keeps_folder(&self) -> bool {
        self.keep || self.dir.is_some()
    }

    /// The command that does the same again.
    pub fn command(&self) -> String {
        let mut words = vec!["cargo testnet up".to_owned()];
        words.push(format!("--islands {} --minutes {}", self.islands, self.minutes));
        words.push(format!("--model {} --data {}", self.model, quoted(&self.data)));
        let speeds: Vec<String> = self.speeds.iter().map(f64::to_string).collect();
        words.push(format!("--speeds {} --seed {}", speeds.join(","), self.seed));
        let links = [("link", &self.link), ("delay", &self.delay), ("loss", &self.loss)];
        for (name, value) in links.into_iter().chain([("chaos", &self.chaos)]) {
            words.extend(value.as_ref().map(|value| format!("--{name} {}", quoted(value))));
        }
        words.join(" ")
    }

    fn check_speeds(&self) -> Result<(), UpError> {
        if self.speeds.is_empty() || self.speeds.len() > self.islands {
            let what = format!("--speeds names {} for {} islands", self.speeds.len(), self.islands);
            return Err(UpError::usage(what, "name at most one for each island"));
        }
        match self.speeds.iter().find(|speed| !(SPEED_MIN..=1.0).contains(*speed)) {
            None => Ok(()),
            Some(speed) => Err(UpError::usage(
                format!("--speeds {speed}"),
                format!("allowed are {SPEED_MIN} to 1: the share of its time that it trains"),
            )),
        }
    }

    fn check_files(&self) -> Result<(), UpError> {
        if self.data != GENERATED && !PathBuf::from(&self.data).exists() {
            let what = format!("--data {}: there is no such file or folder", self.data);
            return Err(UpError::usage(what, "give a path, or leave it out for generated text"));
        }
        for (flag, file) in [("--report", Some(&self.report)), ("--csv", self.csv.as_ref())] {
            let Some(file) = file else { continue };
            let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
            if file.is_dir() || folder.is_some_and(|it| !it.is_dir()) {
                let what = format!("{flag} {}: nothing can be written there", file.display());
                return Err(UpError::usage(what, "name a file in a folder that exists"));
            }
        }
        Ok(())
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./%".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The corpus that needs no file.
pub(super) const GENERATED: &str = "generated";
/// The plan that does nothing.
const CALM: &str = "calm";
/// Islands that a person can still follow.
const ISLANDS_MAX: usize = 64;
const MINUTES_MIN: f64 = 0.1;
/// A week.
const MINUTES_MAX: f64 = 10_080.0;
/// What a node takes as its effort.
const SPEED_MIN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        let words = std::iter::once("up").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().options
    }

    #[test]
    fn impossible_wishes_are_refused_with_a_hint() {
        for line in [
            "--islands 0",
            "--islands 65",
            "--minutes 0",
            "--minutes NaN",
            "--minutes 1e9",
            "--model huge",
            "--data /no/such/file",
            "--speeds 0",
            "--speeds 1,2",
            "--speeds 1,1,1 --islands 2",
            "--report /no/such/folder/report.html",
            "--csv /",
            "--seed 18446744073709551615",
            "--link 20",
            "--delay 40",
            "--loss 60%",
        ] {
            let error = options(line).check().unwrap_err();
            assert!(error.to_string().contains("\nhint: "), "{line}: {error}");
        }
        options("").check().unwrap();
    }

    #[test]
    fn speeds_begin_again() {
        let options = options("--islands 5 --speeds 1,0.5");
        let speeds: Vec<f64> = (0..5).map(|index| options.speed(index)).collect();
        assert_eq!(speeds, [1.0, 0.5, 1.0, 0.5, 1.0]);
        assert_eq!(options.speed_of_all(), 4.0);
    }

    #[test]
    fn the_command_repeats_what_matters() {
        let mut first =
            options("--islands 3 --minutes 0.5 --speeds 1,0.25 --seed 7 --loss 1% --chaos storm");
        first.data = "it's here.txt".into();
        assert_eq!(
            first.command(),
            "cargo testnet up --islands 3 --minutes 0.5 --model nano --data 'it'\\''s here.txt' \
             --speeds 1,0.25 --seed 7 --loss 1% --chaos storm"
        );
    }
}
