//! What many runs showed, in tables for people and in one object for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::runner::{Verdict, hex};
use crate::scenario::slug;
use crate::sim::Phase;
use crate::sim::byzantine::Attack;

/// Counts over many runs.
#[derive(Debug, Default)]
pub struct Summary {
    /// Runs in which everything held.
    pub passed: u64,
    /// What went wrong, with the exact command that repeats it.
    pub failures: Vec<Failure>,
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often engines took each of several ways.
    pub ways: BTreeMap<&'static str, u64>,
    /// How often each checker compared something.
    pub checks: BTreeMap<&'static str, u64>,
    rounds: u64,
    late: u64,
    refolds: u64,
    reissued: u64,
    installs: u64,
    events: u64,
}

/// One run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Exact command that repeats it.
    pub repeat: String,
    /// What happened, in words.
    pub what: String,
    /// What it means for whoever called.
    pub exit_code: u8,
}

impl Summary {
    /// Adds one run.
    pub fn add(&mut self, repeat: String, verdict: &Verdict) {
        if let Some(outcome) = verdict.outcome() {
            for (name, count) in &outcome.fault_counts {
                *self.faults.entry(name).or_default() += count;
            }
            for (name, count) in &outcome.ways {
                *self.ways.entry(name).or_default() += count;
            }
            for (name, count) in &outcome.checks {
                *self.checks.entry(name).or_default() += count;
            }
            self.rounds += outcome.rounds_closed;
            self.late += outcome.late;
            self.refolds += outcome.refolds;
            self.reissued += outcome.reissued;
            self.installs += outcome.installs;
            self.events += outcome.events;
        }
        match failure(verdict) {
            None => self.passed += 1,
            Some(what) => {
                let exit_code = verdict.exit_code();
                self.failures.push(Failure { repeat, what, exit_code });
            }
        }
    }

    /// Runs in which something did not hold.
    pub fn failed(&self) -> usize {
        self.failures.len()
    }

    /// The exit code of the gravest failure: a crash, then safety, then liveness.
    pub fn exit_code(&self) -> u8 {
        let grave = |failure: &Failure| match failure.exit_code {
            crate::runner::EXIT_CRASH => 3,
            crate::runner::EXIT_SAFETY => 2,
            _ => 1,
        };
        self.failures.iter().max_by_key(|failure| grave(failure)).map_or(0, |f| f.exit_code)
    }

    /// Faults, ways of engines and checkers that many runs should have exercised, and did not.
    pub fn unexercised(&self) -> Vec<&'static str> {
        let faults = FAULTS.iter().copied().chain(Attack::ALL.map(Attack::name));
        let faults = faults.filter(|name| self.faults.get(name).is_none_or(|count| *count == 0));
        let ways = WAYS.iter().copied();
        let ways = ways.filter(|name| self.ways.get(name).is_none_or(|count| *count == 0));
        let counts = [
            ("late contributions", self.late),
            ("re-folds", self.refolds),
            ("re-issued", self.reissued),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name);
        let checks = self.checks.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name);
        faults.chain(ways).chain(counts).chain(checks).collect()
    }

    /// Prints the tables and, as the last line, how many passed.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for failure in &self.failures {
            writeln!(out, "FAILED {}\n  repeat with: {}\n", failure.what, failure.repeat)?;
        }
        table(out, "fault", "happened", &self.faults)?;
        table(out, "way", "taken", &self.ways)?;
        table(out, "checker", "checks", &self.checks)?;
        writeln!(
            out,
            "{} rounds closed, {} late contributions, {} re-folds, {} re-issued, {} snapshots \
             installed, {} events\n",
            self.rounds, self.late, self.refolds, self.reissued, self.installs, self.events
        )?;
        writeln!(out, "{} passed, {} failed", self.passed, self.failed())
    }

    /// The summary as one object on one line.
    pub fn json(&self) -> String {
        let failures: Vec<_> = self
            .failures
            .iter()
            .map(|failure| {
                let Failure { repeat, what, exit_code } = failure;
                json!({ "repeat": repeat, "what": what, "exit_code": exit_code })
            })
            .collect();
        json!({
            "passed": self.passed,
            "failed": self.failed(),
            "faults": self.faults,
            "ways": self.ways,
            "checks": self.checks,
            "rounds_closed": self.rounds,
            "late": self.late,
            "refolds": self.refolds,
            "reissued": self.reissued,
            "installs": self.installs,
            "events": self.events,
            "failures": failures,
        })
        .to_string()
    }
}

/// What a verdict says went wrong.
pub fn failure(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Passed(_) => None,
        Verdict::Violated(outcome) => outcome.violation.as_ref().map(|violation| {
            let phase = match violation.phase {
                Phase::Safety => "safety",
                Phase::Liveness => "liveness",
            };
            format!(
                "{} at {} ({phase} phase): {}",
                violation.checker, violation.at, violation.message
            )
        }),
        Verdict::Crashed(text) => Some(format!("crash: {}", text.replace('\n', " "))),
        Verdict::NotRepeated(text) => Some(format!("not repeated: {text}")),
    }
}

/// A line about one run, for people who ran just one.
pub fn one_line(verdict: &Verdict) -> String {
    let Some(outcome) = verdict.outcome() else { return String::new() };
    let central =
        outcome.loss_central.map_or(String::new(), |loss| format!(" (central {loss:.4})"));
    format!(
        "trace {}, {} events, ended at {}, loss {:.4} -> {:.4}{central}, {} rounds closed",
        hex(&outcome.trace_hash),
        outcome.events,
        outcome.ended_at,
        outcome.loss_first,
        outcome.loss_last,
        outcome.rounds_closed
    )
}

/// The names of attacks, as the command line takes them.
pub fn attacks() -> Vec<String> {
    Attack::ALL.map(slug).to_vec()
}

fn table(
    out: &mut dyn Write,
    name: &str,
    count: &str,
    rows: &BTreeMap<&'static str, u64>,
) -> io::Result<()> {
    writeln!(out, "{name:<28}{count:>14}")?;
    for (name, count) in rows {
        writeln!(out, "{name:<28}{count:>14}")?;
    }
    writeln!(out)
}

/// Faults that three hundred seeds must have shown, beside the attacks.
const FAULTS: [&str; 22] = [
    "loss",
    "duplication",
    "gossip heard twice",
    "reordering",
    "latency spike",
    "clog",
    "broken fetch",
    "symmetric partition",
    "asymmetric partition",
    "long partition",
    "crash",
    "crash in a write",
    "torn write",
    "restore",
    "join",
    "leave",
    "return",
    "two nodes with one key",
    "clock skew",
    "slow island",
    "invite",
    "revoke",
];

/// Ways that they must have taken.
const WAYS: [&str; 6] = [
    "closed: everyone",
    "closed: grace",
    "closed: peers",
    "stable: unanimous",
    "stable: forced",
    "installed: another history",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_graver_than_a_violation() {
        let mut summary = Summary::default();
        summary.add("one".into(), &Verdict::NotRepeated("x".into()));
        assert_eq!(summary.exit_code(), crate::runner::EXIT_SAFETY);
        summary.add("two".into(), &Verdict::Crashed("index out of bounds".into()));
        assert_eq!(summary.exit_code(), crate::runner::EXIT_CRASH);
        assert_eq!((summary.passed, summary.failed()), (0, 2));
        let object: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!(object["failed"], 2);
    }

    #[test]
    fn what_never_happened_is_named() {
        let mut summary = Summary::default();
        summary.faults.insert("crash", 3);
        summary.checks.insert("agreement", 0);
        let missing = summary.unexercised();
        assert!(missing.contains(&"loss") && missing.contains(&"agreement"));
        assert!(missing.contains(&"closed: peers") && missing.contains(&"re-folds"));
        assert!(!missing.contains(&"crash"));
    }

    #[test]
    fn the_last_line_counts() {
        let mut out = Vec::new();
        Summary { passed: 300, ..Summary::default() }.print(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("\n300 passed, 0 failed\n"));
    }
}
