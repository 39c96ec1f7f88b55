//! What the runs say together.

use std::io::{self, Write};

use serde::Serialize;

use super::kept::{Kept, Learnt};
use super::scale::Scale;
use super::variant::{Method, Section, Variant};
use super::weather::Weather;
use crate::central::loss_at;

/// One variant over all seeds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    name: String,
    #[serde(skip)]
    section: Option<Section>,
    #[serde(skip)]
    method: Method,
    /// Mean and spread (standard deviation) of the held-out loss.
    loss: f64,
    spread: f64,
    /// Mean over the seeds of the loss against that of the reference with as many tokens.
    ratio: Option<f64>,
    /// Against data-parallel.
    against_parallel: Option<f64>,
    tokens: u64,
    bytes: u64,
    seeds: usize,
}

/// A row for every variant of which at least one run is kept.
pub(super) fn rows(kept: &Kept, scale: &Scale, variants: &[Variant], seeds: &[u64]) -> Vec<Row> {
    variants.iter().filter_map(|variant| row(kept, scale, variants, variant, seeds)).collect()
}

fn row(
    kept: &Kept,
    scale: &Scale,
    variants: &[Variant],
    variant: &Variant,
    seeds: &[u64],
) -> Option<Row> {
    let find = |variant: &Variant, seed: u64| kept.find(scale, variant, seed);
    let runs: Vec<(u64, Learnt)> =
        seeds.iter().filter_map(|seed| Some((*seed, find(variant, *seed)?))).collect();
    let against = |method: Method| -> Option<f64> {
        let other = variants.iter().find(|it| {
            it.section == variant.section && it.method == method && it.times == variant.times
        })?;
        let ratios: Option<Vec<f64>> = runs
            .iter()
            .map(|(seed, run)| Some(run.loss / loss_at(&find(other, *seed)?.curve, run.tokens)?))
            .collect();
        Some(mean(&ratios?))
    };
    let losses: Vec<f64> = runs.iter().map(|(_, run)| run.loss).collect();
    let (_, first) = runs.first()?;
    let ways = variant.section == Some(Section::Ways);
    let lengths = variant.section == Some(Section::Length);
    Some(Row {
        name: variant.name.clone(),
        section: variant.section,
        method: variant.method,
        loss: mean(&losses),
        spread: spread(&losses),
        ratio: if ways { against(Method::Central) } else { None },
        against_parallel: if ways || lengths { against(Method::EveryStep) } else { None },
        tokens: first.tokens,
        bytes: first.bytes,
        seeds: runs.len(),
    })
}

/// Prints the tables; true if every bound holds.
pub(super) fn print(out: &mut dyn Write, rows: &[Row], sections: &[Section]) -> io::Result<bool> {
    for section in sections {
        writeln!(
            out,
            "\n| {} | held-out loss | +- | /central | /data-parallel | tokens | bytes sent |",
            title(*section)
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for row in rows.iter().filter(|row| row.section == Some(*section)) {
            let ratio = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.4}"));
            writeln!(
                out,
                "| {} | {:.4} | {:.4} | {} | {} | {} | {} |",
                row.name,
                row.loss,
                row.spread,
                ratio(row.ratio),
                ratio(row.against_parallel),
                row.tokens,
                crate::plan::words::bytes(row.bytes as f64),
            )?;
        }
    }
    bounds(out, rows)
}

/// What is promised, and whether it holds.
fn bounds(out: &mut dyn Write, rows: &[Row]) -> io::Result<bool> {
    let mut all = true;
    let ways = |method| {
        rows.iter().find(move |row| row.section == Some(Section::Ways) && row.method == method)
    };
    let mut bound = |what: &str, value: Option<f64>, most: f64| -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        let holds = value <= most;
        all &= holds;
        let word = if holds { "holds" } else { "BROKEN" };
        writeln!(out, "{word}: {what}: {value:.4}, at most {most}")
    };
    let swarm = |weather| ways(Method::Swarm(weather));
    let ratio = |row: Option<&Row>| row.and_then(|row| row.ratio);
    bound("Atoll / central", ratio(swarm(Weather::Calm)), 1.005)?;
    bound("Atoll with speeds 1 to 1/4 / central", ratio(swarm(Weather::Spread)), 1.01)?;
    bound("Atoll under storm / central", ratio(swarm(Weather::Storm)), 1.02)?;
    let parallel = swarm(Weather::Calm).and_then(|row| row.against_parallel);
    bound("Atoll / data-parallel", parallel, 1.06)?;
    let alone = ways(Method::OneIsland).map(|row| row.loss);
    let together = swarm(Weather::Calm).map(|row| row.loss);
    let gain = alone.zip(together).map(|(alone, together)| together / alone);
    bound("Atoll / one island as long", gain, 0.99)?;
    Ok(all)
}

fn title(section: Section) -> &'static str {
    match section {
        Section::Ways => "way",
        Section::Rates => "inner learning rate",
        Section::Codecs => "codec",
        Section::Rules => "merge rule",
        Section::Outer => "steps and momentum",
        Section::Length => "length",
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn spread(values: &[f64]) -> f64 {
    let mean = mean(values);
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (square / values.len().saturating_sub(1).max(1) as f64).sqrt()
}
