//! What the runs say together.

use std::io::{self, Write};

use serde::Serialize;

use super::kept::{Kept, Learnt};
use super::scale::Scale;
use super::section::Section;
use super::variant::{Method, Variant};
use crate::central::{Point, loss_at};
use crate::plan::words;

/// One variant over all seeds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    #[serde(skip)]
    pub(super) variant: Variant,
    /// Mean held-out loss; none if a run left the numbers.
    pub(super) loss: Option<f64>,
    /// Its standard deviation; one seed has none.
    pub(super) spread: Option<f64>,
    /// Mean over the seeds of the loss against that of the section's reference with as many
    /// tokens.
    pub(super) ratio: Option<f64>,
    /// The same against data-parallel, at the best rate that the section has for it.
    pub(super) against_parallel: Option<f64>,
    /// Means over the seeds.
    pub(super) tokens: u64,
    pub(super) bytes: u64,
    pub(super) seeds: usize,
    /// How many of them left the numbers.
    pub(super) diverged: usize,
    /// The first seed's.
    #[serde(skip)]
    pub(super) curve: Vec<Point>,
}

/// Everything that was kept, by variant and seed.
struct Runs<'k> {
    kept: &'k Kept,
    scale: &'k Scale,
    seeds: &'k [u64],
}

/// A row for every variant of which at least one run is kept.
pub(super) fn rows(kept: &Kept, scale: &Scale, variants: &[Variant], seeds: &[u64]) -> Vec<Row> {
    let runs = Runs { kept, scale, seeds };
    variants.iter().filter_map(|variant| runs.row(variants, variant)).collect()
}

impl Runs<'_> {
    fn row(&self, variants: &[Variant], variant: &Variant) -> Option<Row> {
        let runs: Vec<Learnt> = self.of(variant).map(|(_, run)| run).collect();
        let near = || variants.iter().filter(|it| it.section == variant.section);
        let reference = near().find(|it| it.reference);
        let parallel = near()
            .filter(|it| it.method == Method::EveryStep && it.times == variant.times)
            .filter_map(|it| Some((self.loss(it)?, it)))
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, it)| it);
        let against = |other: Option<&Variant>| match variant.is_whole() {
            true => self.ratio(variant, other?),
            false => None,
        };
        let losses: Option<Vec<f64>> = runs.iter().map(|run| run.loss).collect();
        let average =
            |of: fn(&Learnt) -> u64| runs.iter().map(of).sum::<u64>() / runs.len().max(1) as u64;
        Some(Row {
            name: variant.name.clone(),
            variant: variant.clone(),
            loss: losses.as_deref().map(mean),
            spread: losses.as_deref().and_then(spread),
            ratio: against(reference),
            against_parallel: against(parallel),
            tokens: average(|run| run.tokens),
            bytes: average(|run| run.bytes),
            seeds: runs.len(),
            diverged: runs.iter().filter(|run| run.loss.is_none()).count(),
            curve: runs.first()?.curve.clone(),
        })
    }

    fn of<'s>(&'s self, variant: &'s Variant) -> impl Iterator<Item = (u64, Learnt)> + 's {
        let find = |seed: &u64| Some((*seed, self.kept.find(self.scale, variant, *seed)?));
        self.seeds.iter().filter_map(find)
    }

    /// Mean loss, if every run has one.
    fn loss(&self, variant: &Variant) -> Option<f64> {
        let losses: Option<Vec<f64>> = self.of(variant).map(|(_, run)| run.loss).collect();
        losses.filter(|it| !it.is_empty()).as_deref().map(mean)
    }

    /// Mean over the seeds of one's loss against the other's at as many tokens.
    fn ratio(&self, one: &Variant, other: &Variant) -> Option<f64> {
        let ratios: Option<Vec<f64>> = self
            .of(one)
            .map(|(seed, run)| {
                let other = self.kept.find(self.scale, other, seed)?;
                other.loss?;
                Some(run.loss? / loss_at(&other.curve, run.tokens)?)
            })
            .collect();
        ratios.as_deref().map(mean)
    }
}

impl Row {
    /// Its cells, as they are read.
    pub(super) fn cells(&self) -> [String; 7] {
        let ratio = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.4}"));
        let loss = match (self.loss, self.diverged) {
            (Some(loss), _) => format!("{loss:.4}"),
            (None, all) if all == self.seeds => "diverged".into(),
            (None, some) => format!("diverged {some} of {}", self.seeds),
        };
        [
            self.name.clone(),
            loss,
            ratio(self.spread),
            ratio(self.ratio),
            ratio(self.against_parallel),
            self.tokens.to_string(),
            words::bytes(self.bytes as f64),
        ]
    }
}

/// The heads of a section's columns.
pub(super) fn heads(section: Section) -> [String; 7] {
    let reference = section.reference().map_or(String::new(), |name| format!("/{name}"));
    [
        section.title().into(),
        "held-out loss".into(),
        "+-".into(),
        reference,
        "/data-parallel".into(),
        "tokens".into(),
        "bytes sent".into(),
    ]
}

/// The sections that there are rows of, in their order, each with its rows.
pub(super) fn sections(rows: &[Row]) -> Vec<(Section, Vec<&Row>)> {
    let mut found: Vec<(Section, Vec<&Row>)> = Vec::new();
    for row in rows {
        match found.iter_mut().find(|(section, _)| *section == row.variant.section) {
            Some((_, rows)) => rows.push(row),
            None => found.push((row.variant.section, vec![row])),
        }
    }
    found
}

/// Prints the tables.
pub(super) fn print(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    for (section, rows) in sections(rows) {
        writeln!(out, "\n| {} |", heads(section).join(" | "))?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for row in rows {
            writeln!(out, "| {} |", row.cells().join(" | "))?;
        }
    }
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Standard deviation; one value has none.
fn spread(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|it| *it > 0)?;
    let mean = mean(values);
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((square / freedom as f64).sqrt())
}

#[cfg(test)]
pub(super) mod example {
    use super::*;
    use crate::compare::section;

    /// The rows of two sections, from runs whose losses `loss` gives by variant and seed.
    pub(in crate::compare) fn rows(loss: impl Fn(&Variant, u64) -> Option<f64>) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let (kept, scale) = (Kept::open(folder.path()).unwrap(), Scale::quick());
        let variants = section::variants(&[Section::Ways, Section::Rates], &[1e-3, 2e-3], &[]);
        for variant in &variants {
            for seed in [1, 2] {
                let loss = loss(variant, seed);
                let tokens = 100 + seed;
                let curve = vec![
                    Point { tokens: 0, loss: 5.0 },
                    Point { tokens, loss: loss.unwrap_or(9.0) },
                ];
                let learnt = Learnt { loss, tokens, bytes: 10 * seed, curve, seconds: 1.0 };
                kept.keep(&scale, variant, seed, &learnt).unwrap();
            }
        }
        super::rows(&kept, &scale, &variants, &[1, 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_means_and_ratios_of_pairs() {
        let rows = example::rows(|variant, seed| match variant.method {
            Method::EveryStep if variant.peak < 1.5e-3 => None,
            Method::EveryStep => Some(seed as f64),
            Method::Central => Some(2.0 * seed as f64),
            _ => Some(4.0 * seed as f64),
        });
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let atoll = row("Atoll");
        assert_eq!(
            (atoll.loss, atoll.ratio, atoll.against_parallel),
            (Some(6.0), Some(2.0), Some(4.0))
        );
        assert_eq!((atoll.tokens, atoll.bytes, atoll.seeds), (101, 15, 2));
        assert!(atoll.spread.is_some_and(|it| (it - 8f64.sqrt()).abs() < 1e-9));
        // At a quarter of the tokens there is nothing to hold it against.
        let alone = row("one island, as long");
        assert_eq!((alone.ratio, alone.against_parallel), (None, None));
        let diverged = row("data-parallel, peak 0.001");
        assert_eq!((diverged.loss, diverged.cells()[1].as_str()), (None, "diverged"));
        assert_eq!(row("Atoll, peak 0.001").against_parallel, Some(4.0), "at the best rate");
    }

    #[test]
    fn one_value_has_no_spread() {
        assert_eq!(spread(&[2.0]), None);
        assert_eq!(spread(&[2.0, 4.0]), Some(2f64.sqrt()));
    }
}
