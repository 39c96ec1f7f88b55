//! The study for people and for programs.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::published::{CHIPS, POINTS, SOURCE};
use super::study::{Asked, PLAIN, Row, Study};
use super::times::Times;
use crate::plan::{Inputs, Sizing, Way, bits_per_second, number, seconds};

/// Prints the tables.
pub(super) fn tables(out: &mut dyn Write, asked: &Asked, study: &Study) -> io::Result<()> {
    let extent = asked.extent;
    writeln!(
        out,
        "goodput: useful time of all chips in %, if each fails once in {} days; {} simulated days, \
         mean of {} seeds from {}\n",
        asked.mtbi_days, extent.days, extent.seeds, extent.seed
    )?;
    writeln!(out, "the published table: ours, published, difference")?;
    head(out, 18)?;
    for row in &study.published {
        line(out, row, |cell| match (cell.published, cell.difference()) {
            (Some(published), Some(difference)) => {
                format!("{:>6.1} {published:>3.0} {difference:>+6.1}", cell.goodput)
            }
            _ => format!("{:.1}", cell.goodput),
        })?;
    }
    if let Some(difference) = study.largest_difference() {
        writeln!(out, "largest difference {difference:.1} points (allowed {POINTS:.0})")?;
    }
    writeln!(out, "source: {SOURCE}\n")?;
    atoll(out, asked, study)?;
    writeln!(out, "\ntime in which some island trains, in %")?;
    head(out, 12)?;
    for row in study.rows().filter(|row| row.islands <= 16) {
        line(out, row, |cell| format!("{:.2}", cell.someone_trains))?;
    }
    notes(out, asked)
}

fn atoll(out: &mut dyn Write, asked: &Asked, study: &Study) -> io::Result<()> {
    let inputs = &asked.inputs;
    writeln!(
        out,
        "Atoll: no central place, so none to lose ({} parameters, H = {}, step {} ms, link {})",
        number(inputs.params as f64),
        inputs.steps,
        inputs.step_ms,
        bits_per_second(inputs.link.least())
    )?;
    head(out, 12)?;
    for row in &study.atoll {
        line(out, row, |cell| format!("{:.1}", cell.goodput))?;
    }
    writeln!(out, "\nrounds and catching up over that link       rounds    after 76 s    joining")?;
    for way in [Way::Everyone, Way::Committees] {
        for islands in PLAIN {
            let sizing = Sizing::with(&Inputs { islands, ..*inputs }, way);
            let stopped = Times::default().restart_seconds;
            let caught_up = sizing.catch_up_seconds(inputs.link.least(), stopped);
            let say = |time: Option<f64>| time.map_or("never".into(), seconds);
            let name = if way == Way::Everyone { "plain" } else { "plain, committees" };
            writeln!(
                out,
                "{:<37}{:>13}{:>14}{:>11}",
                format!("{name}, {islands} islands"),
                bits_per_second(sizing.round.bits_per_second),
                say(caught_up),
                say(sizing.join.seconds)
            )?;
        }
    }
    Ok(())
}

fn notes(out: &mut dyn Write, asked: &Asked) -> io::Result<()> {
    let times = Times::default();
    let central = 100.0 * 16.0 * times.restart_seconds / (asked.mtbi_days as f64 * 86_400.0);
    writeln!(
        out,
        "\nelastic: an island goes on without a failed slice of {} chips and takes it in later, as \
         published.\nplain: an island stands until the chip is replaced, then until it has caught \
         up: our trainer does not change its size.\ncommittees: not built. A dash: the link does not carry the rounds, so nobody catches up.\n\
         Elastic islands train on all the same; over such a link their rounds come later.\n\
         Chosen by us to meet the first two published rows: restart {} s, stops {} and {} s, one \
         upscale in\n{} s at most, a slice away for {} s (means). The rows with islands follow.\n\
         The published model loses no central place. One of 16 parts that fail like chips would \
         stand for\n{central:.4} % of the time: having none to lose is worth little here. docs/SCALE.md \
         tells what is left out.",
        times.slice_chips,
        times.restart_seconds,
        times.downscale_seconds,
        times.upscale_seconds,
        times.upscale_every_seconds,
        times.return_seconds,
    )
}

fn head(out: &mut dyn Write, width: usize) -> io::Result<()> {
    let chips = CHIPS.map(|chips| format!("{:>width$}", number(chips as f64))).concat();
    writeln!(out, "{:<NAME$}{chips}", "chips")
}

fn line(
    out: &mut dyn Write,
    row: &Row,
    say: impl Fn(&super::study::Cell) -> String,
) -> io::Result<()> {
    let cells: Vec<String> =
        row.cells.iter().map(|cell| cell.as_ref().map_or("-".into(), &say)).collect();
    // A cell with the published figure beside ours is wider.
    let width = if cells.iter().any(|cell| cell.len() > 12) { 18 } else { 12 };
    let cells: String = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
    writeln!(out, "{:<NAME$}{cells}", row.name)
}

/// Prints one line for each figure.
pub(super) fn csv(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    writeln!(out, "row,islands,chips,goodput,spread,someone_trains,published,difference")?;
    for row in study.rows() {
        let name = row.name.replace(',', ";");
        for (cell, chips) in row.cells.iter().zip(CHIPS) {
            let figures = cell.map_or(",,,,".into(), |cell| {
                let optional = |value: Option<f64>, digits| {
                    value.map_or(String::new(), |value| format!("{value:.digits$}"))
                };
                let (published, difference) = (cell.published, cell.difference());
                format!(
                    "{:.3},{:.3},{:.4},{},{}",
                    cell.goodput,
                    cell.spread,
                    cell.someone_trains,
                    optional(published, 0),
                    optional(difference, 3)
                )
            });
            writeln!(out, "{name},{},{chips},{figures}", row.islands)?;
        }
    }
    Ok(())
}

/// Everything as one object.
pub(super) fn json(asked: &Asked, study: &Study) -> Value {
    let rows: Vec<&Row> = study.rows().collect();
    json!({
        "extent": asked.extent,
        "mtbi_days": asked.mtbi_days,
        "inputs": asked.inputs,
        "times": Times::default(),
        "rows_total": rows.len(),
        "rows": rows,
        "largest_difference": study.largest_difference(),
        "allowed_difference": POINTS,
        "source": SOURCE,
    })
}

const NAME: usize = 31;
