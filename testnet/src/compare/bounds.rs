//! What is promised, and whether it holds.

use std::io::{self, Write};

use super::section::{CALM, FAR_MS, Section};
use super::table::Row;
use super::variant::Method;
use super::weather::Weather;

/// Prints every bound that the rows say something about; true if all of them hold.
pub(super) fn print(out: &mut dyn Write, rows: &[Row]) -> io::Result<bool> {
    let mut all = true;
    let mut bound = |what: &str, value: Option<f64>, most: f64| -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        let holds = value <= most;
        all &= holds;
        let word = if holds { "holds" } else { "BROKEN" };
        writeln!(out, "{word}: {what}: {value:.4}, at most {most}")
    };
    let ways = |method| {
        rows.iter().find(move |it| {
            let variant = &it.variant;
            (variant.section, variant.method, variant.latency_ms) == (Section::Ways, method, None)
        })
    };
    let ratio = |weather| ways(Method::Swarm(weather)).and_then(|row| row.ratio);
    bound("Atoll / central", ratio(Weather::Calm), 1.005)?;
    let later =
        rows.iter().find(|row| row.variant.section == Section::Ways && row.variant.delay == 1);
    let without_waiting = ratio(Weather::Calm).zip(later.and_then(|row| row.ratio));
    bound("Atoll with speeds 1 to 1/4 / central", ratio(Weather::Spread), 1.01)?;
    bound("Atoll under storm / central", ratio(Weather::Storm), 1.02)?;
    let (atoll, parallel) = (best(rows, CALM), best(rows, Method::EveryStep));
    let tuned = atoll.zip(parallel).and_then(|(atoll, other)| Some(atoll.loss? / other.loss?));
    bound("Atoll / data-parallel, each at its best inner rate", tuned, 1.06)?;
    let loss = |method| ways(method).and_then(|row| row.loss);
    let gain = loss(Method::OneIsland).zip(loss(CALM)).map(|(alone, together)| together / alone);
    bound("Atoll / one island as long", gain, 0.99)?;
    let far = rows
        .iter()
        .find(|row| row.variant.section == Section::Ways && row.variant.latency_ms == Some(FAR_MS));
    if let Some(ratio) = far.and_then(|row| row.ratio) {
        writeln!(out, "note: Atoll, messages up to a tenth of a step, / central: {ratio:.4}")?;
    }
    if let Some((atoll, later)) = without_waiting {
        let ratio = atoll / later;
        writeln!(out, "note: Atoll / central DiLoCo that is adopted a step later: {ratio:.4}")?;
    }
    for row in [atoll, parallel].into_iter().flatten().filter(|row| is_edge(rows, row)) {
        let name = &row.name;
        writeln!(out, "note: no rate beyond that of \"{name}\" was tried: it may not be the best")?;
    }
    Ok(all)
}

/// The row of the inner rate that suits a way best.
fn best(rows: &[Row], method: Method) -> Option<&Row> {
    let rated = rated(rows, method).filter(|row| row.loss.is_some());
    rated.min_by(|one, other| {
        one.loss.unwrap_or(f64::MAX).total_cmp(&other.loss.unwrap_or(f64::MAX))
    })
}

fn is_edge(rows: &[Row], best: &Row) -> bool {
    let rates = || rated(rows, best.variant.method).map(|row| row.variant.peak);
    let peak = best.variant.peak;
    !(rates().any(|rate| rate < peak) && rates().any(|rate| rate > peak))
}

fn rated(rows: &[Row], method: Method) -> impl Iterator<Item = &Row> {
    let section = Section::Rates;
    rows.iter().filter(move |it| it.variant.section == section && it.variant.method == method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::table::example;

    fn said(rows: &[Row]) -> (bool, String) {
        let mut out = Vec::new();
        let holds = print(&mut out, rows).unwrap();
        (holds, String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_way_counts_at_its_own_best_rate() {
        // Data-parallel is better at 2e-3, Atoll at 1e-3, where data-parallel leaves the numbers.
        let rows = example::rows(|variant, _| match (variant.method, variant.peak < 1.5e-3) {
            (Method::EveryStep, fast) => (!fast).then_some(1.0),
            (Method::OneIsland, _) => Some(1.5),
            (_, low) => Some(if low { 1.05 } else { 1.2 }),
        });
        let (holds, text) = said(&rows);
        assert!(holds, "{text}");
        assert!(text.contains("each at its best inner rate: 1.0500, at most 1.06"), "{text}");
        assert!(text.contains("note: no rate beyond that of \"Atoll, peak 0.001\""), "{text}");
    }

    #[test]
    fn a_broken_promise_is_said() {
        let (holds, text) = said(&example::rows(|variant, _| match variant.method {
            Method::EveryStep => Some(1.0),
            _ => Some(1.2),
        }));
        assert!(!holds && text.contains("BROKEN: Atoll / data-parallel"), "{text}");
        assert_eq!(said(&[]), (true, String::new()));
    }
}
