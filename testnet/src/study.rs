//! Does the swarm learn as well as one place would? At equal tokens, over several seeds.

use std::io::{self, Write};

use crate::central::{self, Plan};
use crate::runner::{self, Verdict};
use crate::scenario;
use crate::sim::byzantine::Attack;
use crate::sim::{Outcome, Setup};
use crate::toy::{self, Task, Toy};

/// One seed's loss ratios; each is lower-is-better and 1 is as good as the control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// The seed.
    pub seed: u64,
    /// Swarm without faults against the central run.
    pub calm: f64,
    /// Swarm under the storm plan against the central run.
    pub storm: f64,
    /// One liar in eight that sends ten times the opposite, merged by centered clipping, against
    /// the same swarm without a liar.
    pub poison: f64,
    /// The same with a liar that sends the opposite at an honest length.
    pub sign_flip: f64,
}

/// Measures `seed`.
pub fn measure(seed: u64) -> Result<Ratios, String> {
    let calm = long(scenario::calm(seed, 8));
    let storm = long(scenario::storm(seed, 8));
    let poison = long(scenario::one_liar(seed, Attack::Poison));
    let sign_flip = long(scenario::one_liar(seed, Attack::SignFlip));
    let mut honest = poison.clone();
    honest.islands.pop();
    let control = finished(&honest)?.loss_last;
    Ok(Ratios {
        seed,
        calm: against_central(&calm, &finished(&calm)?)?,
        storm: against_central(&storm, &finished(&storm)?)?,
        poison: finished(&poison)?.loss_last / control,
        sign_flip: finished(&sign_flip)?.loss_last / control,
    })
}

/// Prints the table; true if every mean is within its band.
pub fn print(out: &mut dyn Write, rows: &[Ratios]) -> io::Result<bool> {
    writeln!(out, "loss ratios at equal tokens (1 is as good as the control, lower is better)")?;
    row(out, "seed", ["calm/central", "storm/central", "poison/none", "sign flip/none"])?;
    for Ratios { seed, calm, storm, poison, sign_flip } in rows {
        let ratios = [calm, storm, poison, sign_flip].map(|ratio| format!("{ratio:.4}"));
        row(out, &seed.to_string(), ratios.each_ref().map(String::as_str))?;
    }
    let means = [
        mean(rows, |row| row.calm),
        mean(rows, |row| row.storm),
        mean(rows, |row| row.poison),
        mean(rows, |row| row.sign_flip),
    ];
    let words = means.map(|mean| format!("{mean:.4}"));
    row(out, "mean", words.each_ref().map(String::as_str))?;
    row(out, "allowed", ["1 +- 0.005", "1.02", "1.02", "1.02"])?;
    let [calm, faulty @ ..] = means;
    Ok((calm - 1.0).abs() <= CALM_BAND && faulty.iter().all(|ratio| *ratio <= FAULT_BAND))
}

fn row(out: &mut dyn Write, name: &str, cells: [&str; 4]) -> io::Result<()> {
    write!(out, "{name:<8}")?;
    cells.iter().try_for_each(|cell| write!(out, "{cell:>16}"))?;
    writeln!(out)
}

/// Runs long enough to learn something.
fn long(mut setup: Setup) -> Setup {
    setup.end_at.0 += 60_000;
    setup
}

fn finished(setup: &Setup) -> Result<Outcome, String> {
    match runner::run(setup.clone(), None) {
        Verdict::Passed(outcome) => Ok(*outcome),
        // The ratio says how well it learned; that is not for a checker to judge here.
        Verdict::Violated(outcome)
            if outcome.violation.as_ref().is_some_and(|seen| seen.checker == "learning") =>
        {
            Ok(*outcome)
        }
        verdict => Err(crate::report::failure(&verdict).unwrap_or_default()),
    }
}

/// The swarm's last loss against that of the central run after as many merged tokens.
fn against_central(setup: &Setup, outcome: &Outcome) -> Result<f64, String> {
    let fragments = u64::from(setup.genesis.fragments).max(1);
    let tokens = outcome.fates.merged / fragments;
    let islands = u16::try_from(setup.islands.len()).unwrap_or(u16::MAX);
    let a_round = u64::from(islands) * u64::from(setup.genesis.rounds.steps) * toy::learner::BATCH;
    let rounds = u32::try_from(tokens / a_round.max(1)).unwrap_or(u32::MAX).saturating_add(2);
    let plan = Plan { islands, rounds, seed: setup.seed, staggered: true, delay: 0 };
    let lesson = Toy::new(Task::new(setup.task_seed), &setup.genesis);
    let control =
        central::central(&lesson, &setup.genesis, &plan).map_err(|why| why.to_string())?;
    let loss = central::loss_at(&control.curve, tokens).ok_or("the control trained no tokens")?;
    Ok(outcome.loss_last / loss)
}

fn mean(rows: &[Ratios], of: impl Fn(&Ratios) -> f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a handful of seeds")]
    let count = rows.len().max(1) as f64;
    rows.iter().map(of).sum::<f64>() / count
}

/// How far the fault-free swarm may be from the control.
const CALM_BAND: f64 = 0.005;
/// How much worse faults and a liar may make it.
const FAULT_BAND: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_outside_its_band_fails() {
        let row = |calm| Ratios { seed: 1, calm, storm: 1.01, poison: 1.0, sign_flip: 1.0 };
        let mut out = Vec::new();
        assert!(print(&mut out, &[row(1.004)]).unwrap());
        assert!(!print(&mut out, &[row(1.006)]).unwrap());
        assert!(!print(&mut out, &[row(0.99)]).unwrap());
    }
}
