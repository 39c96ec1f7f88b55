//! What a swarm came to, in words and as one object.

mod summary;

use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::alone::Alone;
use super::chaos::Deed;
use super::options::Options;
use super::recording::{Agreement, Presence, Recording, SeenLiar};
use crate::runner::{EXIT_LIVENESS, EXIT_OK, EXIT_SAFETY};

/// What a swarm came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Whether all islands ended with the same version and digest of every fragment.
    pub(super) digests_agree: bool,
    /// What most of them had of each fragment then.
    pub(super) agreement: Vec<Agreement>,
    /// When that was looked at.
    pub(super) settled_at: Option<SystemTime>,
    /// Seconds from the end of training until they did.
    pub(super) settled_s: Option<f64>,
    /// Seconds that the swarm trained, and tokens that it trained in them.
    pub(super) seconds: f64,
    pub(super) tokens_in_training: u64,
    /// Tokens merged, of those after which the learning rate is at its floor.
    pub(super) schedule_done: f64,
    pub(super) loss_first: Option<f64>,
    pub(super) loss_last: Option<f64>,
    /// Whose loss that is.
    pub(super) loss_of: LossOf,
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

/// Whose loss the last one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LossOf {
    /// Of the outer state that all islands agreed on.
    Agreed,
    /// Of the newest stable outer state of one island, with these versions, which is older.
    Stable(Vec<u32>),
    /// The mean of what the islands measured last, each of its own parameters.
    #[default]
    Islands,
}

impl LossOf {
    /// As programs read it.
    fn name(&self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Stable(_) => "stable",
            Self::Islands => "islands",
        }
    }

    /// As people do.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Agreed => "of the model that all agreed on".into(),
            Self::Stable(versions) => {
                let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
                format!("of the newest stable state, v{}", versions.join(" "))
            }
            Self::Islands => "the mean of what the islands measured themselves".into(),
        }
    }
}

impl Outcome {
    /// Whose loss it is if an outer state with these versions was measured.
    pub(super) fn loss_of(&self, versions: &[u32]) -> LossOf {
        let agreed = self.agreement.iter().map(|it| &it.version).eq(versions);
        match self.digests_agree && agreed {
            true => LossOf::Agreed,
            false => LossOf::Stable(versions.to_owned()),
        }
    }

    /// What it means for whoever called.
    pub(super) fn exit_code(&self, recording: &Recording) -> u8 {
        if !recording.fates_add_up() {
            return EXIT_SAFETY;
        }
        if !self.digests_agree || ended_early(recording) > 0 { EXIT_LIVENESS } else { EXIT_OK }
    }

    /// How the digests compare, in words.
    pub(super) fn verdict(&self) -> String {
        let agreement = &self.agreement;
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
        // What takes another one back is part of that.
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

    /// How many liars were found out, in words; none if nobody lied.
    pub(super) fn liars(&self, recording: &Recording) -> Option<String> {
        let (liars, found) = (recording.liars.len(), recording.liars_found_out());
        let islands = recording.islands.iter().filter(|it| it.belongs()).count();
        let by = |it: &SeenLiar| format!("{} of {islands}", it.found_out.len());
        let by: Vec<String> = recording.liars.iter().map(by).collect();
        (liars > 0)
            .then(|| format!("{found} of {liars} found out, by {} islands", by.join(" and ")))
    }

    /// The summary as one object. docs/TESTNET.md says what each part means.
    pub(super) fn json(&self, options: &Options, recording: &Recording) -> Value {
        let shares: Vec<f64> = recording.islands.iter().map(|it| it.training_share()).collect();
        let versions: Vec<u32> = self.agreement.iter().map(|it| it.version).collect();
        let digests: Vec<&str> = self.agreement.iter().map(|it| it.digest.as_str()).collect();
        let fates = recording.fates();
        json!({
            "digests_agree": self.digests_agree,
            "settled_s": self.settled_s,
            "loss_first": self.loss_first,
            "loss_last": self.loss_last,
            "loss_last_of": self.loss_of.name(),
            "loss_one_island": self.alone.map(|alone| alone.loss),
            "one_island": self.alone,
            "schedule_done": self.schedule_done,
            "training_share": recording.training_share(),
            "training_shares": shares,
            "tokens": recording.tokens(),
            "tokens_in_training": self.tokens_in_training,
            "tokens_per_s": self.tokens_per_s(),
            "bytes_up": recording.bytes_up(),
            "bytes_down": recording.bytes_down(),
            "fates": fates,
            "fates_add_up": recording.fates_add_up(),
            "versions": versions,
            "digests": digests,
            "fragments": recording.fragments(),
            "islands": options.islands,
            "seconds": self.seconds,
            "seed": options.seed,
            "ended_early": ended_early(recording),
            "training_share_spared": recording.spared_share(),
            "longest_wait_spared_s": recording.longest_wait(),
            "spared": recording.islands.iter().map(|it| it.spared).collect::<Vec<bool>>(),
            "tokens_lost_in_kills": recording.lost_tokens(),
            "liars": recording.liars.len(),
            "liars_found_out": recording.liars_found_out(),
            "links": self.links,
            "chaos": options.chaos,
            "events": events(recording),
            "warnings": recording.warnings.keys().map(|it| &it.message).collect::<Vec<_>>(),
            "notes": self.notes,
            "sample": self.sample,
            "report": self.report,
            "folder": self.folder,
        })
    }

    /// Over all of the training.
    pub(super) fn tokens_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.tokens_in_training as f64 / self.seconds } else { 0.0 }
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
    use super::super::recording::example::recording;
    use super::*;

    pub(in crate::up) fn outcome() -> Outcome {
        Outcome {
            digests_agree: true,
            agreement: recording().agreement(),
            settled_at: None,
            settled_s: Some(2.5),
            seconds: 60.0,
            tokens_in_training: 600_000,
            schedule_done: 0.95,
            loss_first: Some(5.5),
            loss_last: Some(1.75),
            loss_of: LossOf::Agreed,
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
            "schedule_done",
            "liars",
            "liars_found_out",
        ] {
            assert!(!object[name].is_null(), "{name}");
        }
        assert_eq!(object["loss_one_island"], 2.25);
        assert_eq!(object["fates"]["trained"], 6000);
        assert_eq!(object["tokens_per_s"], 10_000.0, "of the training alone");
        assert_eq!(object["loss_last_of"], "agreed");
        assert!(!object.to_string().contains('\n'));
    }

    #[test]
    fn the_exit_code_says_how_it_ended() {
        let (mut recording, mut outcome) = (recording(), example::outcome());
        assert_eq!(outcome.exit_code(&recording), EXIT_OK);
        outcome.digests_agree = false;
        assert_eq!(outcome.exit_code(&recording), EXIT_LIVENESS);
        assert!(outcome.verdict().contains("NOT"));
        outcome.digests_agree = true;
        recording.turns(60.0, 1, Presence::Ended("was ended by signal 11".into()));
        assert_eq!(outcome.exit_code(&recording), EXIT_LIVENESS);
        assert_eq!(outcome.verdict().split(" of ").next(), Some("3"));
    }

    #[test]
    fn an_older_model_is_not_called_the_agreed_one() {
        let mut outcome = example::outcome();
        let versions: Vec<u32> = outcome.agreement.iter().map(|it| it.version).collect();
        assert_eq!(outcome.loss_of(&versions), LossOf::Agreed);
        assert_eq!(outcome.loss_of(&[1, 1]), LossOf::Stable(vec![1, 1]));
        outcome.digests_agree = false;
        assert_eq!(outcome.loss_of(&versions), LossOf::Stable(versions));
    }

    #[test]
    fn liars_are_counted_with_those_who_found_them_out() {
        let mut recording = recording();
        assert_eq!(example::outcome().liars(&recording), None);
        recording.liars = vec![SeenLiar::new(1.0), SeenLiar::new(2.0)];
        recording.liars[0].node = Some("ff".repeat(32));
        for island in [0, 2, 2] {
            let event = json!({ "event": "equivocated", "node": "ff".repeat(32) });
            recording.event(5.0, island, &event);
        }
        let words = example::outcome().liars(&recording).unwrap();
        assert_eq!(words, "1 of 2 found out, by 2 of 3 and 0 of 3 islands");
    }

    #[test]
    fn what_was_done_is_counted() {
        let mut recording = recording();
        for deed in [Deed::Kill(0), Deed::Revive(0), Deed::Kill(1), Deed::Restart(2), Deed::Lie] {
            recording.inflict(1.0, &deed);
        }
        let words = example::outcome().chaos(&recording);
        assert!(words.starts_with("2 × kill, 1 × restart, 1 × lie; islands that"), "{words}");
    }
}
