//! Who was how fast.

use std::io::{self, Write};

use serde::Serialize;

use super::judge::Point;
use super::options::{Options, Racer, Trouble};
use super::rivals::Measured;
use crate::plan::words;

/// One racer on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) racer: &'static str,
    pub(super) mbit: f64,
    pub(super) trouble: &'static str,
    pub(super) outcome: Outcome,
    /// Seconds and bytes to the target; none if it was not reached.
    pub(super) seconds: Option<f64>,
    pub(super) bytes: Option<f64>,
    /// Where the numbers come from.
    pub(super) how: String,
    /// Held-out loss on the way, where it was measured.
    pub(super) curve: Vec<Point>,
    /// Seconds of one step, and how much of them the exchange takes; rivals only.
    pub(super) step_s: Option<f64>,
    pub(super) wire_s: Option<f64>,
}

/// How a race ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Reached,
    /// Not within the time that there was.
    NotReached,
    /// It stopped for good.
    Stopped,
}

impl Row {
    /// Of a race that was run in full.
    pub(super) fn run(mbit: f64, trouble: Trouble, points: Vec<Point>, target: f64) -> Self {
        let end = points.last().filter(|point| point.loss <= target).copied();
        Self {
            racer: name(Racer::Atoll),
            mbit,
            trouble: trouble.words(),
            outcome: if end.is_some() { Outcome::Reached } else { Outcome::NotReached },
            seconds: end.map(|point| point.seconds),
            bytes: end.map(|point| point.bytes as f64),
            how: "run in full".into(),
            curve: points,
            step_s: None,
            wire_s: None,
        }
    }

    /// Of a rival that needs so many steps, from how long a step takes it.
    pub(super) fn measured(
        racer: Racer,
        mbit: f64,
        trouble: Trouble,
        steps: Option<u64>,
        measured: Option<Measured>,
    ) -> Self {
        let both = steps.zip(measured);
        let times = |of: fn(&Measured) -> f64| both.map(|(steps, it)| steps as f64 * of(&it));
        let how = match (steps, measured) {
            (_, None) => "the ring stands still".into(),
            (None, Some(_)) => "the target was not reached in time, on any link".into(),
            (Some(steps), Some(it)) => format!(
                "{steps} steps (unshaped) x {:.2} s (over {} steps, {:.2} s on the wire)",
                it.step_s, it.steps, it.wire_s
            ),
        };
        Self {
            racer: name(racer),
            mbit,
            trouble: trouble.words(),
            outcome: match (steps, measured) {
                (_, None) => Outcome::Stopped,
                (None, Some(_)) => Outcome::NotReached,
                (Some(_), Some(_)) => Outcome::Reached,
            },
            seconds: times(|it| it.step_s),
            bytes: times(|it| it.step_bytes),
            how,
            curve: Vec::new(),
            step_s: measured.map(|it| it.step_s),
            wire_s: measured.map(|it| it.wire_s),
        }
    }
}

/// Prints the table and what was promised; true if all of that holds.
pub(super) fn print(out: &mut dyn Write, options: &Options, rows: &[Row]) -> io::Result<bool> {
    let target = options.target();
    writeln!(out, "\n| racer | link | trouble | to loss {target} | bytes sent | /Atoll | how |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for row in rows {
        let time = match (row.outcome, row.seconds) {
            (Outcome::Reached, Some(seconds)) => words::seconds(seconds),
            (Outcome::Stopped, _) => "never: it stops".into(),
            _ => "not in time".into(),
        };
        let bytes = row.bytes.map_or(String::new(), words::bytes);
        let ratio = ratios(rows, row).map_or(String::new(), |(time, bytes)| {
            format!("{time:.1} x the time, {bytes:.0} x the bytes")
        });
        writeln!(
            out,
            "| {} | {} Mbit/s | {} | {time} | {bytes} | {ratio} | {} |",
            row.racer, row.mbit, row.trouble, row.how
        )?;
    }
    writeln!(
        out,
        "\nA step takes {} ms or more: the real step, then sleep. {} islands, {} x 64 tokens in a step, \
         rate {:e} (data-parallel {:e}), H {}, outer {}/{}, codec {}.",
        options.step_ms,
        options.islands,
        options.batch,
        options.peak,
        options.parallel_peak,
        options.span,
        options.outer.learning_rate,
        options.outer.momentum,
        options.codec
    )?;
    bounds(out, rows)
}

/// Time and bytes against Atoll's on the same link with the same trouble.
fn ratios(rows: &[Row], row: &Row) -> Option<(f64, f64)> {
    if row.racer == name(Racer::Atoll) {
        return None;
    }
    let atoll = find(rows, Racer::Atoll, row.mbit, row.trouble)?;
    Some((row.seconds? / atoll.seconds?, row.bytes? / atoll.bytes?))
}

fn bounds(out: &mut dyn Write, rows: &[Row]) -> io::Result<bool> {
    let mut all = true;
    let mut bound = |what: String, value: Option<f64>, holds: bool| -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        all &= holds;
        writeln!(out, "{}: {what}: {value:.2}", if holds { "holds" } else { "BROKEN" })
    };
    let calm = Trouble::Calm.words();
    let parallel = find(rows, Racer::Parallel, MBIT, calm).and_then(|row| ratios(rows, row));
    let (time, bytes) = parallel.unzip();
    let what = |thing: &str, least: f64| {
        format!("data-parallel / Atoll at {MBIT} Mbit/s, {thing}, at least {least}")
    };
    bound(what("time", TIME_LEAST), time, time.is_some_and(|it| it >= TIME_LEAST))?;
    bound(what("bytes", BYTES_LEAST), bytes, bytes.is_some_and(|it| it >= BYTES_LEAST))?;
    for row in rows.iter().filter(|it| it.racer == name(Racer::Atoll) && !it.trouble.is_empty()) {
        let before = find(rows, Racer::Atoll, row.mbit, calm).and_then(|it| it.seconds);
        // One that never gets there has grown beyond any bound.
        let grown = before.map(|before| row.seconds.unwrap_or(f64::INFINITY) / before);
        let what = format!("Atoll with {} / calm, time, at most {GROWTH_MOST}", row.trouble);
        bound(what, grown, grown.is_some_and(|it| it <= GROWTH_MOST))?;
    }
    Ok(all)
}

fn find<'r>(rows: &'r [Row], racer: Racer, mbit: f64, trouble: &str) -> Option<&'r Row> {
    let name = name(racer);
    rows.iter().find(|it| it.racer == name && it.mbit == mbit && it.trouble == trouble)
}

pub(super) fn name(racer: Racer) -> &'static str {
    match racer {
        Racer::Atoll => "Atoll",
        Racer::Parallel => "data-parallel, bf16 ring every step",
        Racer::Diloco => "synchronous DiLoCo, bf16 ring",
    }
}

/// Where the promises are made.
const MBIT: f64 = 20.0;
const TIME_LEAST: f64 = 20.0;
const BYTES_LEAST: f64 = 100.0;
const GROWTH_MOST: f64 = 1.1;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    fn atoll(trouble: Trouble, seconds: f64) -> Row {
        let point = Point { rounds: 3, seconds, bytes: 1000, loss: 2.0 };
        Row::run(20.0, trouble, vec![point], 2.1)
    }

    fn said(rows: &[Row]) -> (bool, String) {
        let options = Words::try_parse_from(["race"]).unwrap().options;
        let mut out = Vec::new();
        let holds = print(&mut out, &options, rows).unwrap();
        (holds, String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_was_promised_is_held_against_the_rows() {
        let step = Measured { step_s: 6.0, step_bytes: 1500.0, wire_s: 5.9, steps: 10 };
        let parallel = Row::measured(Racer::Parallel, 20.0, Trouble::Calm, Some(100), Some(step));
        let killed = Row::measured(Racer::Parallel, 20.0, Trouble::Killed, Some(100), None);
        let rows = [atoll(Trouble::Calm, 25.0), parallel, atoll(Trouble::Killed, 27.0), killed];
        let (holds, text) = said(&rows);
        assert!(holds, "{text}");
        assert!(text.contains("24.0 x the time, 150 x the bytes"), "{text}");
        assert!(text.contains("never: it stops"), "{text}");
        let (holds, text) = said(&[atoll(Trouble::Calm, 25.0), atoll(Trouble::Slow, 30.0)]);
        assert!(!holds && text.contains("BROKEN: Atoll with one at quarter speed"), "{text}");
    }

    #[test]
    fn a_target_that_was_not_reached_has_no_time() {
        let row = Row::run(20.0, Trouble::Calm, Vec::new(), 2.1);
        assert_eq!((row.outcome, row.seconds), (Outcome::NotReached, None));
        assert!(said(&[row]).1.contains("not in time"));
    }
}
