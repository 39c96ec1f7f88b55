//! A plan of what is done to a swarm: TOML in, or a name.

use std::path::Path;

use toml::Spanned;

use super::PRESETS;
use super::deed::Verb;
use super::raw::{RawEvent, RawPlan, Who};
use super::span::{Length, Span};
use crate::links;
use crate::up::error::UpError;

/// What is done to a swarm, whatever its size and time.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::up) struct Plan {
    /// A preset's name, or the file's.
    pub(in crate::up) name: String,
    /// What it was read from.
    pub(in crate::up) text: String,
    /// Islands that are never touched; none if the plan does not say.
    pub(super) spare: Option<usize>,
    pub(super) rules: Vec<Rule>,
}

/// Something that is done once, or again and again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) verb: Verb,
    pub(super) when: When,
    pub(super) who: Who,
    /// Until it is taken back.
    pub(super) lasts: Option<Length>,
    /// Bits in a second.
    pub(super) rate: Option<f64>,
    /// Where in the file it begins.
    pub(super) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    At(Span),
    Every { every: Span, from: Span, until: Span },
}

impl Plan {
    /// The plan of a preset's name or a file.
    pub(in crate::up) fn find(word: &str) -> Result<Self, UpError> {
        if let Some((name, text)) = PRESETS.iter().find(|(name, _)| *name == word) {
            return Self::read(name, text);
        }
        let names = PRESETS.map(|(name, _)| name);
        if !Path::new(word).is_file() {
            let what = format!("--chaos {word}: neither a plan with that name nor a file");
            let near = nearest(word, &names).map(|it| format!("did you mean {it}? "));
            let near = near.unwrap_or_default();
            let names = names.join(", ");
            return Err(UpError::usage(what, format!("{near}there are {names}, or name a file")));
        }
        let text = std::fs::read_to_string(word).map_err(UpError::file(Path::new(word)))?;
        Self::read(word, &text)
    }

    /// Whether it can only be done where islands have links of their own.
    pub(in crate::up) fn needs_links(&self) -> bool {
        self.rules.iter().any(|rule| rule.verb.needs_links())
    }

    /// Whether links of their own make something sure that without them only may happen.
    pub(in crate::up) fn gains_by_links(&self) -> bool {
        self.rules.iter().any(|rule| rule.verb == Verb::Lie)
    }

    /// Whether nothing is done.
    pub(in crate::up) fn is_calm(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn read(name: &str, text: &str) -> Result<Self, UpError> {
        let raw: RawPlan = toml::from_str(text).map_err(|error| mistake(name, text, &error))?;
        let spare = raw.spare.map(Spanned::into_inner);
        let rule = |event: Spanned<RawEvent>| {
            let line = line_of(text, event.span().start);
            rule(event.into_inner(), line).map_err(|(what, hint, at)| {
                let line = at.map_or(line, |at| line_of(text, at));
                UpError::usage(format!("{name} line {line}: {what}"), hint)
            })
        };
        let rules = raw.events.into_iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), text: text.trim().to_owned(), spare, rules })
    }
}

/// What is wrong, a hint, and where in the text if that is known.
type Wrong = (String, String, Option<usize>);

fn rule(event: RawEvent, line: usize) -> Result<Rule, Wrong> {
    let wrong = |what: &str, hint: &str| (what.to_owned(), hint.to_owned(), None);
    let when = match (event.at, event.every) {
        (Some(at), None) if event.from.is_none() && event.until.is_none() => When::At(at),
        (None, Some(every)) => {
            let at = every.span().start;
            let every = every.into_inner();
            if every.seconds(1.0) <= 0.0 {
                let hint = "name a time above zero".to_owned();
                return Err((format!("every = \"{every}\" never ends"), hint, Some(at)));
            }
            let from = event.from.unwrap_or(Span::Share(0.05));
            When::Every { every, from, until: event.until.unwrap_or(Span::Share(0.85)) }
        }
        (Some(_), None) => return Err(wrong("`from` and `until` go with `every`", "drop them")),
        (Some(_), Some(_)) => return Err(wrong("both `at` and `every`", "give one of them")),
        (None, None) => {
            return Err(wrong("neither `at` nor `every`", "say when, such as at = \"30s\""));
        }
    };
    let lasts = match event.lasts {
        Some(lasts) if event.verb.undone_by().is_none() => {
            let hint = "leave it out".to_owned();
            return Err(("this has no `for`".into(), hint, Some(lasts.span().start)));
        }
        lasts => lasts.map(Spanned::into_inner),
    };
    let who = match event.island {
        Some(who) if !event.verb.has_victim() => {
            let hint = "leave it out".to_owned();
            return Err(("this has no `island`".into(), hint, Some(who.span().start)));
        }
        who => who.map_or(Who::Any, Spanned::into_inner),
    };
    let rate = match (event.verb, event.rate) {
        (Verb::Throttle, None) => {
            return Err(wrong("throttle has no `rate`", "say how thin, such as rate = \"1mbit\""));
        }
        (Verb::Throttle, Some(rate)) => {
            let wrong =
                |hint| (format!("`{}` is no rate", rate.get_ref()), hint, Some(rate.span().start));
            let link = links::rate(rate.get_ref()).map_err(wrong)?;
            if link.up != link.down {
                return Err(wrong("name one rate, which holds both ways".to_owned()));
            }
            Some(link.up)
        }
        (_, Some(rate)) => {
            let hint = "only throttle has one".to_owned();
            return Err(("this has no `rate`".into(), hint, Some(rate.span().start)));
        }
        (_, None) => None,
    };
    Ok(Rule { verb: event.verb, when, who, lasts, rate, line })
}

/// A mistake of spelling, with the line and what was probably meant.
fn mistake(name: &str, text: &str, error: &toml::de::Error) -> UpError {
    let span = error.span().unwrap_or(0..0);
    let line = line_of(text, span.start);
    let message = error.message().trim().replace('\n', "; ");
    // `unknown field `flor`, expected one of `do`, `at`, ...`.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let given = quoted.next().unwrap_or_default();
    let allowed: Vec<&str> = quoted.collect();
    let unknown = message.starts_with("unknown");
    let near = nearest(given, &allowed).filter(|_| unknown);
    let hint = match (near, allowed.is_empty()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, false) if unknown => format!("use one of {}", allowed.join(", ")),
        _ => "docs/TESTNET.md has an example".into(),
    };
    let what = match unknown {
        true => message.split(", expected").next().unwrap_or(&message).to_owned(),
        false => message,
    };
    UpError::usage(format!("{name} line {line}: {what}"), hint)
}

/// What was probably meant by `word`.
fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let likeness = |it: &&str| strsim::jaro_winkler(word, it);
    let best = words.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) >= LIKE_ENOUGH).then_some(*best)
}

/// The line in which the byte `at` is, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

const LIKE_ENOUGH: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Plan::read("my.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn presets_can_be_read() {
        for (name, _) in PRESETS {
            let plan = Plan::find(name).unwrap();
            assert_eq!(plan.is_calm(), name == "calm");
            assert_eq!(plan.needs_links(), name == "split", "{name}");
        }
    }

    #[test]
    fn a_typo_is_named_with_its_line() {
        for (text, words) in [
            ("[[event]]\ndo = \"kill\"\nat = \"3s\"\nislnd = 2", "line 4: unknown field `islnd`"),
            ("[[event]]\ndo = \"kill\"\nat = \"3s\"\nislnd = 2", "did you mean island?"),
            ("[[event]]\ndo = \"kil\"\nat = \"3s\"", "line 2: unknown variant `kil`"),
            ("[[event]]\ndo = \"kil\"\nat = \"3s\"", "did you mean kill?"),
            ("[[evnt]]\ndo = \"kill\"\nat = \"3s\"", "did you mean event?"),
            ("[[event]]\ndo = \"kill\"\n\nat = \"3\"", "line 4: `3` is no time"),
            ("[[event]]\ndo = \"kill\"\nat = 3", "line 3: "),
            ("[[event]]\nat = \"3s\"", "missing field `do`"),
            ("# x\n[[event]]\ndo = \"kill\"", "line 2: neither `at` nor `every`"),
            ("[[event]]\ndo = \"kill\"\nat = \"3s\"\nisland = \"some\"", "line 4: "),
            (
                "[[event]]\ndo = \"kill\"\nat = \"3s\"\nrate = \"1mbit\"",
                "line 4: this has no `rate`",
            ),
            ("[[event]]\ndo = \"throttle\"\nat = \"3s\"\nrate = \"1mb\"", "line 4: "),
            ("[[event]]\ndo = \"throttle\"\nat = \"3s\"\nrate = \"1kbit\"", "64kbit to 40gbit"),
            ("[[event]]\ndo = \"throttle\"\nat = \"3s\"\nrate = \"1mbit/2mbit\"", "one rate"),
            ("[[event]]\ndo = \"heal\"\nat = \"3s\"\nfor = \"1s\"", "line 4: this has no `for`"),
            ("[[event]]\ndo = \"kill\"\nevery = \"0s\"", "line 3: every = \"0s\" never ends"),
            ("[[event]\ndo = 1", "line 1: "),
        ] {
            let said = error(text);
            assert!(said.contains(words) && said.contains("\nhint: "), "{words}: {said}");
        }
    }

    #[test]
    fn a_plan_that_is_not_there_is_guessed() {
        let said = Plan::find("strom").unwrap_err().to_string();
        assert!(said.contains("did you mean storm?"), "{said}");
        assert!(Plan::find("/").unwrap_err().to_string().contains("hint: there are calm, storm"));
    }
}
