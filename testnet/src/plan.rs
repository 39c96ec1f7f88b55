//! A sizing calculator: what a run of so many parameters on so many islands needs.
//!
//! Every number is a formula of `docs/SCALE.md` over the inputs, the limits of the protocol and
//! the rates of `docs/benchmarks.md`. Nothing is measured here.

mod bound;
mod error;
mod inputs;
mod line;
mod options;
mod published;
mod quantity;
mod scale;
mod sizing;
pub(crate) mod words;

use std::io::Write;

pub use bound::{Bound, bounds};
pub use error::InputError;
pub use inputs::{Inputs, Link};
pub use options::Options;
pub(crate) use options::{codec, within};
pub use quantity::{link, params};
pub use sizing::{Exchange, Sizing, Way};
pub(crate) use words::number;
pub use words::{bits_per_second, bytes, seconds};

/// Prints the plan that `options` ask for.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), InputError> {
    let inputs = options.inputs()?;
    if options.scale {
        return Ok(scale::print(out, &inputs)?);
    }
    let sizing = Sizing::new(&inputs);
    print(out, &inputs, &sizing, options.explain)?;
    if options.json {
        let object = serde_json::json!({
            "inputs": inputs,
            "sizing": sizing,
            "bounds": bounds(&inputs, &sizing),
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

fn print(
    out: &mut dyn Write,
    inputs: &Inputs,
    sizing: &Sizing,
    explain: bool,
) -> std::io::Result<()> {
    writeln!(out, "{inputs}\n")?;
    for line in line::all(inputs, sizing) {
        line.print(out, explain)?;
    }
    print_utilisation(out, sizing, explain)?;
    print_bounds(out, inputs, sizing)?;
    published::print(out, inputs, sizing)
}

fn print_utilisation(out: &mut dyn Write, sizing: &Sizing, explain: bool) -> std::io::Result<()> {
    writeln!(out, "\nlink for a utilisation of          50 %          90 %          99 %")?;
    let row =
        |rates: &[f64; 3]| rates.map(|rate| format!("{:>14}", bits_per_second(rate))).concat();
    writeln!(out, "  training never waits     {}", row(&sizing.utilisation.never_waits))?;
    writeln!(out, "  if every round waited    {}", row(&sizing.utilisation.waits))?;
    if explain {
        writeln!(out, "    first row: {NEVER_WAITS}; second row: {WAITS}")?;
    }
    writeln!(
        out,
        "  Atoll is the first row: islands train all the time, utilisation is the share of rounds \
         that\n  keep to H steps. The second is the figure that papers give for rounds that block."
    )
}

fn print_bounds(out: &mut dyn Write, inputs: &Inputs, sizing: &Sizing) -> std::io::Result<()> {
    writeln!(out, "\nwhat holds")?;
    for bound in bounds(inputs, sizing) {
        let verdict = if bound.holds { "holds " } else { "BREAKS" };
        writeln!(out, "  {verdict}  {:<30}{} (at most {})", bound.name, bound.value, bound.most)?;
    }
    Ok(())
}

/// The link for a utilisation of `u`, as in `docs/SCALE.md`.
const NEVER_WAITS: &str = "u * rate";
const WAITS: &str = "rate * u / (1 - u)";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn answer(line: &str) -> Result<String, InputError> {
        let line = Line::try_parse_from(line.split_whitespace()).unwrap();
        let mut out = Vec::new();
        run(&line.options, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_published_run_is_held_against_ours() {
        let text = answer("plan --params 12e9 --islands 4").unwrap();
        assert!(text.contains("4.98 Gbit/s"), "{text}");
        assert!(text.contains("2 to 5 Gbit/s"), "{text}");
        let other = answer("plan --params 1b --islands 8").unwrap();
        assert!(!other.contains("2 to 5 Gbit/s"), "{other}");
    }

    #[test]
    fn the_last_line_is_one_object() {
        let text = answer("plan --params 12e9 --islands 4 --json").unwrap();
        let object: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(object["inputs"]["islands"], 4);
        let rate = object["sizing"]["round"]["bits_per_second"].as_f64().unwrap();
        assert!((rate - 4.98e9).abs() < 1e7, "{rate}");
    }

    #[test]
    fn every_formula_is_explained_and_documented() {
        let page = include_str!("../../docs/SCALE.md");
        let inputs = Inputs::default();
        let explained = answer("plan --explain").unwrap();
        for line in line::all(&inputs, &Sizing::new(&inputs)) {
            assert!(explained.contains(line.formula), "{}", line.formula);
            assert!(page.contains(line.formula), "docs/SCALE.md lacks: {}", line.formula);
        }
        for formula in [NEVER_WAITS, WAITS] {
            assert!(explained.contains(formula) && page.contains(formula), "{formula}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for line in [
            "plan --params none",
            "plan --params 0",
            "plan --params 1e30",
            "plan --islands 0",
            "plan --islands 99999999",
            "plan --steps 0",
            "plan --step-ms 0",
            "plan --link 20",
            "plan --link 0mbit",
            "plan --codec int3",
            "plan --fragments 0",
            "plan --params 1000 --fragments 2000",
            "plan --horizon 1",
        ] {
            let error = answer(line).expect_err(line);
            assert!(!error.hint().is_empty(), "{line}");
            assert!(!error.to_string().is_empty(), "{line}");
        }
    }
}
