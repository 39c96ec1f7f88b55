//! Does the swarm learn as well as one place would? At equal tokens, over several seeds.

use std::io::{self, Write};

use atoll_protocol::genesis::MergeRule;

use crate::runner::{self, Verdict};
use crate::scenario;
use crate::sim::byzantine::Attack;
use crate::sim::{Outcome, Role, Setup};
use crate::toy::{self, LEARNING_RATE, Plan, Task};

/// One seed's loss ratios; each is lower-is-better and 1 is as good as the control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// The seed.
    pub seed: u64,
    /// Swarm without faults against the central run.
    pub calm: f64,
    /// Swarm under the storm plan against the central run.
    pub storm: f64,
    /// One liar in eight, merged by centered clipping, against the same swarm without a liar.
    pub liar: f64,
}

/// Measures `seed`.
pub fn measure(seed: u64) -> Result<Ratios, String> {
    let calm = long(scenario::calm(seed, 8));
    let storm = long(scenario::storm(seed, 8));
    let mut liar = long(scenario::one_liar(seed, Attack::Poison));
    let mut honest = liar.clone();
    honest.islands.pop();
    honest.genesis.merge.rule = MergeRule::CenteredClip;
    liar.islands[7].role = Role::Liar(Attack::Poison);
    let calm_ratio = against_central(&calm, &finished(&calm)?)?;
    let storm_ratio = against_central(&storm, &finished(&storm)?)?;
    let liar_ratio = finished(&liar)?.loss_last / finished(&honest)?.loss_last;
    Ok(Ratios { seed, calm: calm_ratio, storm: storm_ratio, liar: liar_ratio })
}

/// Prints the table; true if every mean is within its band.
pub fn print(out: &mut dyn Write, rows: &[Ratios]) -> io::Result<bool> {
    writeln!(out, "loss ratios at equal tokens (1 is as good as the control, lower is better)")?;
    writeln!(
        out,
        "{:<8}{:>14}{:>14}{:>22}",
        "seed", "calm/central", "storm/central", "liar/no liar"
    )?;
    for Ratios { seed, calm, storm, liar } in rows {
        writeln!(out, "{seed:<8}{calm:>14.4}{storm:>14.4}{liar:>22.4}")?;
    }
    let calm = mean(rows, |row| row.calm);
    let storm = mean(rows, |row| row.storm);
    let liar = mean(rows, |row| row.liar);
    writeln!(out, "{:<8}{calm:>14.4}{storm:>14.4}{liar:>22.4}", "mean")?;
    writeln!(out, "{:<8}{:>14}{:>14}{:>22}", "allowed", "1 +- 0.005", "1.02", "1.02")?;
    Ok((calm - 1.0).abs() <= CALM_BAND && storm <= FAULT_BAND && liar <= FAULT_BAND)
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
    let plan =
        Plan { islands, rounds, seed: setup.seed, learning_rate: LEARNING_RATE, staggered: true };
    let task = Task::new(setup.task_seed);
    let control = toy::central(&task, &setup.genesis, &plan).map_err(|why| why.to_string())?;
    let loss = at_tokens(&control.curve, tokens).ok_or("the control trained no tokens")?;
    Ok(outcome.loss_last / loss)
}

/// A curve's loss at so many tokens, between its points on a straight line.
fn at_tokens(curve: &[toy::Point], tokens: u64) -> Option<f64> {
    let after = curve.iter().position(|point| point.tokens >= tokens);
    let Some(after) = after else { return curve.last().map(|point| point.loss) };
    let (Some(before), Some(point)) = (after.checked_sub(1), curve.get(after)) else {
        return curve.first().map(|point| point.loss);
    };
    let before = &curve[before];
    #[expect(clippy::cast_precision_loss, reason = "token counts of a toy fit 53 bits")]
    let share = (tokens - before.tokens) as f64 / (point.tokens - before.tokens).max(1) as f64;
    Some(before.loss + share * (point.loss - before.loss))
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
    fn a_curve_is_read_between_its_points() {
        let point = |tokens, loss| toy::Point { tokens, loss };
        let curve = [point(0, 4.0), point(100, 3.0), point(200, 2.5)];
        assert_eq!(at_tokens(&curve, 0), Some(4.0));
        assert_eq!(at_tokens(&curve, 50), Some(3.5));
        assert_eq!(at_tokens(&curve, 150), Some(2.75));
        assert_eq!(at_tokens(&curve, 900), Some(2.5));
        assert_eq!(at_tokens(&[], 5), None);
    }

    #[test]
    fn a_mean_outside_its_band_fails() {
        let row = |calm| Ratios { seed: 1, calm, storm: 1.01, liar: 1.0 };
        let mut out = Vec::new();
        assert!(print(&mut out, &[row(1.004)]).unwrap());
        assert!(!print(&mut out, &[row(1.006)]).unwrap());
        assert!(!print(&mut out, &[row(0.99)]).unwrap());
    }
}
