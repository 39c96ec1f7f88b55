//! What a swarm came to, in words and as one object.

mod summary;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::alone::Alone;
use super::chaos::Deed;
use super::options::Options;
use super::recording::{Presence, Recording};
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
    /// How links were made, in words.
    pub(super) links: Option<String>,
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
        if !self.digests_agree || ended_early(recording) > 0 { EXIT_LIVENESS } else { EXIT_OK }
    }

    /// How the digests compare, in words.
    pub(super) fn verdict(&self, recording: &Recording) -> String {
        let agreement = recording.agreement();
        let (count, of) = (agreement.len(), agreement.first().map_or(0, |it| it.of));
        match self.settled_s {
            Some(settled) if self.digests_agree => {
                let when = match settled {
                    ..0.5 => "as soon as training ended".to_owned(),
                    _ => format!("{settled:.1} s after training ended"),
                };
                format!("{of} of {of} islands have the same bits of all {count} fragments, {when}")
            }
            _ => {
                let least = agreement.iter().map(|it| it.count).min().unwrap_or(0);
                format!(
                    "the islands do NOT agree: of some fragment only {least} of {of} have the same bits"
                )
            }
        }
    }

    /// What was done to the swarm, in numbers and words.
    pub(super) fn chaos(&self, recording: &Recording) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for (_, deed) in recording.inflicted.iter().filter(|(_, deed)| deed.is_counted()) {
            match counts.iter_mut().find(|(name, _)| *name == deed.name()) {
                Some((_, count)) => *count += 1,
                None => counts.push((deed.name(), 1)),
            }
        }
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{count} × {name}")).collect();
        let spared = recording.spared_share().map_or_else(String::new, |share| {
            format!(
                "; islands that were left alone trained at least {:.1} % of the time",
                share * 100.0
            )
        });
        format!("{}{spared}", if parts.is_empty() { "nothing".into() } else { parts.join(", ") })
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
            "ended_early": ended_early(recording),
            "training_share_spared": recording.spared_share(),
            "longest_wait_spared_s": recording.longest_wait(),
            "spared": recording.islands.iter().map(|it| it.spared).collect::<Vec<bool>>(),
            "tokens_lost_in_kills": recording.lost_tokens(),
            "links": self.links,
            "chaos": options.chaos,
            "events": events(recording),
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

/// Islands that ended before they were asked to.
fn ended_early(recording: &Recording) -> usize {
    let ended = |presence: &Presence| matches!(presence, Presence::Ended(_));
    recording.islands.iter().filter(|it| ended(&it.presence)).count()
}

/// What was done to the swarm on purpose.
fn events(recording: &Recording) -> Vec<Value> {
    let event = |(at, deed): &(f64, Deed)| {
        json!({
            "at": (at * 10.0).round() / 10.0,
            "did": deed.name(),
            "island": deed.island().map(|index| index + 1),
        })
    };
    recording.inflicted.iter().map(event).collect()
}

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
            links: None,
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
    fn the_exit_code_says_how_it_ended() {
        let (mut recording, mut outcome) = (recording(), example::outcome());
        assert_eq!(outcome.exit_code(&recording), EXIT_OK);
        outcome.digests_agree = false;
        assert_eq!(outcome.exit_code(&recording), EXIT_LIVENESS);
        assert!(outcome.verdict(&recording).contains("NOT"));
        outcome.digests_agree = true;
        recording.turns(60.0, 1, Presence::Ended("was ended by signal 11".into()));
        assert_eq!(outcome.exit_code(&recording), EXIT_LIVENESS);
        assert_eq!(outcome.verdict(&recording).split(" of ").next(), Some("3"));
    }

    #[test]
    fn what_was_done_is_counted() {
        let mut recording = recording();
        for deed in [Deed::Kill(0), Deed::Restart(0), Deed::Kill(1), Deed::Lie] {
            recording.inflict(1.0, &deed);
        }
        let words = example::outcome().chaos(&recording);
        assert!(words.starts_with("2 × kill, 1 × restart, 1 × lie; islands that"), "{words}");
    }
}
