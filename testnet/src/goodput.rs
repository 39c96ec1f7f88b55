//! How much of the time chips do useful work while they fail: a simulator without any learning.
//!
//! The failures, the stops and the baselines are those of the published study (arXiv 2604.21428,
//! Table 1); then come islands as Atoll has them, with nothing central to lose and with the time
//! to catch up taken from the sizes of [`crate::plan`]. docs/SCALE.md tells the model and what it
//! leaves out.

mod case;
mod island;
mod options;
mod print;
mod published;
mod recovery;
mod study;
mod swarm;
mod times;

use std::io::Write;

use crate::plan::InputError;
pub use case::{Case, Policy};
pub use options::Options;
pub use published::{CHIPS, POINTS, PUBLISHED, Published, SOURCE};
pub use recovery::Recovery;
pub use study::{Cell, Extent, Row, Study};
pub use swarm::{Measured, measure};
pub use times::{Pace, Times};

/// Runs the study that `options` ask for and prints it; true if the published table is matched,
/// or if the question was another one.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, InputError> {
    let asked = options.asked()?;
    let study = Study::run(&asked);
    if options.csv {
        print::csv(out, &study)?;
    } else {
        print::tables(out, &asked, &study)?;
    }
    if options.json {
        writeln!(out, "{}", print::json(&asked, &study))?;
    }
    Ok(study.largest_difference().is_none_or(|difference| difference <= POINTS))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn answer(line: &str) -> Result<(bool, String), InputError> {
        let line = Line::try_parse_from(line.split_whitespace()).unwrap();
        let mut out = Vec::new();
        let matched = run(&line.options, &mut out)?;
        Ok((matched, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn the_last_line_is_one_object() {
        let (matched, text) = answer("goodput --quick --json").unwrap();
        assert!(matched, "{text}");
        let object: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(object["rows"].as_array().unwrap().len(), object["rows_total"]);
        assert!(object["largest_difference"].as_f64().unwrap() <= POINTS);
        assert!(text.contains("arXiv 2604.21428"));
    }

    #[test]
    fn csv_has_a_line_for_every_cell() {
        let (_, text) = answer("goodput --quick --csv").unwrap();
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!((text.lines().count() - 1) % CHIPS.len(), 0);
    }

    #[test]
    fn other_failure_rates_are_not_held_against_the_published_ones() {
        let (matched, text) = answer("goodput --quick --mtbi-days 3650 --json").unwrap();
        let object: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(matched && object["largest_difference"].is_null());
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for line in [
            "goodput --seeds 0",
            "goodput --days 0",
            "goodput --days 99999",
            "goodput --mtbi-days 0",
            "goodput --params some",
            "goodput --link 4",
            "goodput --codec none",
            "goodput --step-ms 0",
            "goodput --steps 0",
        ] {
            assert!(!answer(line).expect_err(line).hint().is_empty(), "{line}");
        }
    }
}
