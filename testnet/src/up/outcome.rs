//! What a swarm came to, in words and as one object.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::alone::Alone;
use super::options::Options;
use super::recording::Recording;
use super::units;
use crate::runner::{EXIT_LIVENESS, EXIT_OK, EXIT_SAFETY};

/// What a swarm came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Whether all islands ended with the same version and digest of every fragment.
    pub(super) digests_agree: bool,
    /// Seconds from the end of training until they did.
    pub(super) settled_s: Option<f64>,
    /// Seconds that the swarm trained.
    pub(super) seconds: f64,
    pub(super) loss_first: Option<f64>,
    /// Of the model that the swarm agreed on, or what the islands measured last.
    pub(super) loss_last: Option<f64>,
    pub(super) alone: Option<Alone>,
    /// What the swarm's model writes.
    pub(super) sample: Option<String>,
    /// What could not be done, and why.
    pub(super) notes: Vec<String>,
    pub(super) report: PathBuf,
    /// The folder, if it stays.
    pub(super) folder: Option<PathBuf>,
}

impl Outcome {
    /// What it means for whoever called.
    pub(super) fn exit_code(&self, recording: &Recording) -> u8 {
        if !recording.fates_add_up() {
            return EXIT_SAFETY;
        }
        let ended_early = recording.islands.iter().any(|it| it.ended.is_some());
        if !self.digests_agree || ended_early { EXIT_LIVENESS } else { EXIT_OK }
    }

    /// How the digests compare, in words.
    pub(super) fn verdict(&self, recording: &Recording) -> String {
        let agreement = recording.agreement();
        let (count, of) = (agreement.len(), recording.islands.len());
        match self.settled_s {
            Some(settled) if self.digests_agree => format!(
                "{of} of {of} islands have the same bits of all {count} fragments, {settled:.1} s \
                 after training ended"
            ),
            _ => {
                let least = agreement.iter().map(|it| it.count).min().unwrap_or(0);
                format!(
                    "the islands do NOT agree: of some fragment only {least} of {of} have the same bits"
                )
            }
        }
    }

    /// The summary for people.
    pub(super) fn print(&self, recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}", self.verdict(recording))?;
        for (number, it) in recording.agreement().iter().enumerate() {
            let digest = it.digest.get(..16).unwrap_or(&it.digest);
            let (version, count, of) = (it.version, it.count, it.of);
            writeln!(
                out,
                "  f{number}  version {version:<4} digest {digest}  {count} of {of} islands"
            )?;
        }
        let (first, last) = (units::loss(self.loss_first), units::loss(self.loss_last));
        writeln!(out, "held-out loss  {first} -> {last}")?;
        if let Some(alone) = &self.alone {
            writeln!(
                out,
                "one island     {:.3} alone after the {} steps of the mean island: what it would \
                 reach in the same time on a machine like its own",
                alone.loss, alone.steps
            )?;
        }
        writeln!(
            out,
            "trained        {} tokens in {}, {} tokens/s; {:.1} % of the time went into training",
            units::count(recording.tokens()),
            units::clock(self.seconds),
            units::rate(self.tokens_per_s(recording)),
            recording.training_share() * 100.0
        )?;
        writeln!(out, "token fates    {}", fates(recording))?;
        let (up, down) = (recording.bytes_up(), recording.bytes_down());
        writeln!(out, "bytes          {} sent, {} received", units::bytes(up), units::bytes(down))?;
        for note in &self.notes {
            writeln!(out, "note           {note}")?;
        }
        if let Some(sample) = &self.sample {
            writeln!(out, "\nthe swarm's model writes:")?;
            for line in sample.lines().filter(|line| !line.is_empty()).take(SAMPLE_LINES) {
                writeln!(out, "  {line}")?;
            }
        }
        writeln!(out, "\nreport  {}", self.report.display())?;
        if let Some(folder) = &self.folder {
            writeln!(out, "folder  {}", folder.display())?;
        }
        Ok(())
    }

    /// The summary as one object.
    pub(super) fn json(&self, options: &Options, recording: &Recording) -> Value {
        let shares: Vec<f64> = recording.islands.iter().map(|it| it.training_share()).collect();
        let versions: Vec<u32> = recording.agreement().iter().map(|it| it.version).collect();
        let fates = recording.fates();
        json!({
            "digests_agree": self.digests_agree,
            "settled_s": self.settled_s,
            "loss_first": self.loss_first,
            "loss_last": self.loss_last,
            "loss_one_island": self.alone.map(|alone| alone.loss),
            "one_island": self.alone,
            "training_share": recording.training_share(),
            "training_shares": shares,
            "tokens": recording.tokens(),
            "tokens_per_s": self.tokens_per_s(recording),
            "bytes_up": recording.bytes_up(),
            "bytes_down": recording.bytes_down(),
            "fates": fates,
            "fates_add_up": recording.fates_add_up(),
            "versions": versions,
            "fragments": recording.fragments(),
            "islands": options.islands,
            "seconds": self.seconds,
            "seed": options.seed,
            "ended_early": recording.islands.iter().filter(|it| it.ended.is_some()).count(),
            "notes": self.notes,
            "sample": self.sample,
            "report": self.report,
            "folder": self.folder,
        })
    }

    /// Over all of the training.
    pub(super) fn tokens_per_s(&self, recording: &Recording) -> f64 {
        if self.seconds > 0.0 { recording.tokens() as f64 / self.seconds } else { 0.0 }
    }
}

/// Where tokens are, averaged over the fragments.
fn fates(recording: &Recording) -> String {
    let (fates, fragments) = (recording.fates(), recording.fragments().max(1) as u64);
    let parts: Vec<String> = fates
        .named()
        .iter()
        .map(|(name, tokens)| format!("{} {name}", units::count(tokens / fragments)))
        .collect();
    let verdict = if recording.fates_add_up() { "adds up" } else { "does NOT add up" };
    format!(
        "{} trained = {} ({verdict})",
        units::count(fates.trained / fragments),
        parts.join(" + ")
    )
}

/// What fits on a screen below the rest.
const SAMPLE_LINES: usize = 10;

#[cfg(test)]
pub(super) mod example {
    use super::*;

    pub(in crate::up) fn outcome() -> Outcome {
        Outcome {
            digests_agree: true,
            settled_s: Some(2.5),
            seconds: 60.0,
            loss_first: Some(5.5),
            loss_last: Some(1.75),
            alone: Some(Alone { loss: 2.25, steps: 238, tokens: 243_712, seconds: 20.0 }),
            sample: Some("The <reef> & the sea".into()),
            notes: Vec::new(),
            report: "atoll-report.html".into(),
            folder: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::recording::example::recording;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn programs_find_these_names() {
        let options = Line::try_parse_from(["up", "--islands", "3"]).unwrap().options;
        let object = example::outcome().json(&options, &recording());
        for name in [
            "digests_agree",
            "loss_first",
            "loss_last",
            "loss_one_island",
            "training_share",
            "tokens_per_s",
            "bytes_up",
            "bytes_down",
            "fates",
            "report",
        ] {
            assert!(!object[name].is_null(), "{name}");
        }
        assert_eq!(object["loss_one_island"], 2.25);
        assert_eq!(object["fates"]["trained"], 6000);
        assert!(!object.to_string().contains('\n'));
    }

    #[test]
    fn people_read_how_it_ended() {
        let (recording, mut outcome) = (recording(), example::outcome());
        let mut out = Vec::new();
        outcome.print(&recording, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for words in [
            "3 of 3 islands have the same bits of all 2 fragments",
            "held-out loss  5.500 -> 1.750",
            "one island     2.250 alone after the 238 steps",
            "3.00 k trained = 2.10 k merged + 600 pending + 300 fresh + 0 re-issued + 0 orphaned (adds up)",
            "report  atoll-report.html",
        ] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
        assert_eq!(outcome.exit_code(&recording), EXIT_OK);
        outcome.digests_agree = false;
        assert_eq!(outcome.exit_code(&recording), EXIT_LIVENESS);
        assert!(outcome.verdict(&recording).contains("NOT"));
    }
}
