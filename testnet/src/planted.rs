//! Every planted bug must be caught by the checker whose invariant it breaks, or the simulator
//! proves nothing.

use std::io::{self, Write};

use atoll_protocol::planted::{Bug, Planted};

use crate::runner::{self, Verdict};
use crate::scenario;
use crate::sim::byzantine::Attack;
use crate::sim::{Setup, liars, plan};

/// How one bug was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The bug.
    pub bug: Bug,
    /// Whether the checker that should have noticed did.
    pub noticed: bool,
    /// What it said; if it never spoke, what somebody else said last.
    pub message: String,
    /// Runs it took, the last one included.
    pub runs: u64,
}

/// Runs swarms with `bug` until the checker that it is made for notices, at most `runs_max`.
///
/// What it says counts only if the same swarm passes without the bug. What another checker says
/// does not count: a bug that two of them see keeps neither honest.
pub fn hunt(bug: Bug, first_seed: u64, runs_max: u64) -> Caught {
    let mut last = String::new();
    for run in 0..runs_max {
        let clean = exposing(bug, first_seed + run, run);
        let planted = Setup { planted: Planted::bug(bug), ..clean.clone() };
        let Some((checker, message)) = noticed(&runner::run(planted, None)) else { continue };
        if checker != expected(bug) {
            last = format!("({checker}: {message})");
        } else if noticed(&runner::run(clean, None)).is_none() {
            return Caught { bug, noticed: true, message, runs: run + 1 };
        }
    }
    Caught { bug, noticed: false, message: last, runs: runs_max }
}

/// The checker whose invariant a bug breaks.
fn expected(bug: Bug) -> &'static str {
    match bug {
        Bug::ArrivalOrderFold | Bug::ForkByArrival => "agreement",
        Bug::UnsortedCut
        | Bug::NanAdmitted
        | Bug::WeightUncapped
        | Bug::SignatureWithoutRun
        | Bug::RosterIgnored
        | Bug::EvidenceUnverified
        | Bug::EvidenceIgnored => "admission",
        Bug::GraceIgnored | Bug::QuorumIgnored | Bug::OnePeerCloses => "quorum",
        Bug::StableWithoutAll => "stability",
        Bug::DoubleCountOnAdopt | Bug::LostOnExpiry | Bug::NoReissue => "accounting",
        Bug::ForgottenBarrier => "durability",
        Bug::DonorNotCaughtUp | Bug::FrontierUntrue => "donor",
        Bug::NeverAnswers => "liveness",
    }
}

/// Who noticed something in a run, and what it said.
fn noticed(verdict: &Verdict) -> Option<(String, String)> {
    match verdict {
        Verdict::Passed(_) => None,
        Verdict::Violated(outcome) => {
            let violation = outcome.violation.as_ref()?;
            Some((violation.checker.to_owned(), violation.message.clone()))
        }
        Verdict::Crashed(text) | Verdict::NotRepeated(text) => {
            Some(("crash".to_owned(), text.clone()))
        }
    }
}

/// Prints one line for each bug; true if all were caught.
pub fn print(out: &mut dyn Write, caught: &[Caught]) -> io::Result<bool> {
    writeln!(out, "{:<34}{:<14}{:>6}  what it said", "planted bug", "caught by", "seeds")?;
    for Caught { bug, noticed, message, runs } in caught {
        let checker = if *noticed { expected(*bug) } else { "NOBODY" };
        let line: String = message.replace('\n', " ").chars().take(100).collect();
        writeln!(out, "{:<34}{checker:<14}{runs:>6}  {line}", bug.name())?;
    }
    let survivors = caught.iter().filter(|caught| !caught.noticed).count();
    writeln!(out, "\n{} caught, {survivors} survived", caught.len() - survivors)?;
    Ok(survivors == 0)
}

/// The bug that people call `name`.
pub fn named(name: &str) -> Option<Bug> {
    Bug::ALL.iter().copied().find(|bug| bug.name() == name)
}

/// The swarm most likely to expose a bug; every other run is an ordinary draw.
fn exposing(bug: Bug, seed: u64, run: u64) -> Setup {
    if run % 2 == 1 {
        return Setup { cast: liars::cast, ..plan::draw(seed) };
    }
    let named = |name: &str| {
        let setup = scenario::named(name, seed).pop().map(|scenario| scenario.setup);
        setup.unwrap_or_else(|| scenario::storm(seed, 6))
    };
    match bug {
        Bug::NanAdmitted => scenario::one_liar(seed, Attack::NotFinite),
        Bug::WeightUncapped => scenario::one_liar(seed, Attack::TokenInflation),
        Bug::SignatureWithoutRun => scenario::one_liar(seed, Attack::OtherRun),
        Bug::RosterIgnored => scenario::one_liar(seed, Attack::NotOnRoster),
        Bug::EvidenceUnverified => scenario::one_liar(seed, Attack::BadEvidence),
        Bug::EvidenceIgnored => scenario::one_liar(seed, Attack::Equivocation),
        Bug::ForkByArrival | Bug::NoReissue | Bug::LostOnExpiry => {
            named("partition-beyond-horizon")
        }
        Bug::DonorNotCaughtUp | Bug::FrontierUntrue => named("fresh-node-cannot-overwrite"),
        Bug::DoubleCountOnAdopt => named("calm"),
        Bug::ArrivalOrderFold
        | Bug::UnsortedCut
        | Bug::ForgottenBarrier
        | Bug::GraceIgnored
        | Bug::NeverAnswers
        | Bug::StableWithoutAll
        | Bug::OnePeerCloses
        | Bug::QuorumIgnored => scenario::storm(seed, 6),
    }
}

/// Runs after which a bug counts as one that survives.
pub const RUNS_MAX: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_have_names_and_survivors_show() {
        assert!(Bug::ALL.iter().all(|bug| named(bug.name()) == Some(*bug)));
        let bug = Bug::GraceIgnored;
        let mut caught = vec![Caught { bug, noticed: true, message: "too early".into(), runs: 1 }];
        let mut out = Vec::new();
        assert!(print(&mut out, &caught).unwrap());
        caught.push(Caught { bug, noticed: false, message: String::new(), runs: 40 });
        assert!(!print(&mut out, &caught).unwrap());
        assert!(String::from_utf8(out).unwrap().contains("1 caught, 1 survived"));
    }
}
