//! The tables of `docs/SCALE.md`: four sizes of model, four to ten thousand islands.

use std::io::{self, Write};

use super::bound::{Bound, bounds};
use super::inputs::Inputs;
use super::sizing::{Sizing, Way};
use super::words::{bits_per_second, bytes, number, seconds};

/// Prints the tables in Markdown, with everything but parameters and islands from `given`.
pub(super) fn print(out: &mut dyn Write, given: &Inputs) -> io::Result<()> {
    let link = bits_per_second(given.link.least());
    let codec = given.codec.name();
    writeln!(
        out,
        "H = {} steps of {} ms, codec {codec}, W = {} rounds, a link of {link}.\n",
        given.steps, given.step_ms, given.horizon
    )?;
    print_states(out, given)?;
    for way in [Way::Everyone, Way::Committees] {
        writeln!(out, "\n### Each way, for every island: {}\n", named(way))?;
        print_grid(out, given, |inputs| {
            bits_per_second(Sizing::with(inputs, way).round.bits_per_second)
        })?;
    }
    writeln!(out, "\n### Until a new island has caught up: {}\n", named(Way::Everyone))?;
    print_grid(out, given, |inputs| {
        Sizing::new(inputs).join.seconds.map_or("never".into(), seconds)
    })?;
    writeln!(out, "\n### Steps between captures for which the link is enough\n")?;
    print_grid(out, given, steps_needed)?;
    for way in [Way::Everyone, Way::Committees] {
        writeln!(out, "\n### Islands with which each bound breaks first: {}\n", named(way))?;
        print_breaks(out, given, way)?;
    }
    Ok(())
}

fn print_states(out: &mut dyn Write, given: &Inputs) -> io::Result<()> {
    writeln!(out, "### What does not depend on the number of islands\n")?;
    writeln!(
        out,
        "| parameters | fragments | payload | snapshot | training | account | fold |\n\
         |---|---|---|---|---|---|---|"
    )?;
    for params in PARAMS {
        let inputs = sized(given, params, ISLANDS[0]);
        let sizing = Sizing::new(&inputs);
        let memory = &sizing.memory;
        let cells = [
            sizing.payload_bytes,
            sizing.join.snapshot_bytes,
            memory.island,
            memory.account,
            memory.fold,
        ];
        let cells = cells.map(bytes).join(" | ");
        writeln!(out, "| {} | {} | {cells} |", number(params as f64), inputs.fragments)?;
    }
    Ok(())
}

fn print_grid(
    out: &mut dyn Write,
    given: &Inputs,
    cell: impl Fn(&Inputs) -> String,
) -> io::Result<()> {
    let heads = ISLANDS.map(|islands| format!("{islands} islands")).join(" | ");
    writeln!(out, "| parameters | {heads} |\n|---{}|", "|---".repeat(ISLANDS.len()))?;
    for params in PARAMS {
        let cells = ISLANDS.map(|islands| cell(&sized(given, params, islands))).join(" | ");
        writeln!(out, "| {} | {cells} |", number(params as f64))?;
    }
    Ok(())
}

fn print_breaks(out: &mut dyn Write, given: &Inputs, way: Way) -> io::Result<()> {
    let heads = PARAMS.map(|params| number(params as f64)).join(" | ");
    writeln!(out, "| bound | {heads} |\n|---{}|", "|---".repeat(PARAMS.len()))?;
    let broken = |params, islands| -> Vec<Bound> {
        let inputs = sized(given, params, islands);
        bounds(&inputs, &Sizing::with(&inputs, way))
    };
    for (index, bound) in broken(PARAMS[0], ISLANDS_MIN).iter().enumerate() {
        let cells =
            PARAMS.map(|params| first_break(|islands| !broken(params, islands)[index].holds));
        writeln!(out, "| {} | {} |", bound.name, cells.join(" | "))?;
    }
    Ok(())
}

/// The least number of islands that breaks a bound. More islands never mend one.
fn first_break(breaks: impl Fn(u64) -> bool) -> String {
    if breaks(ISLANDS_MIN) {
        return "always".into();
    }
    if !breaks(ISLANDS_MAX) {
        return "holds".into();
    }
    let (mut holds, mut broken) = (ISLANDS_MIN, ISLANDS_MAX);
    while broken - holds > 1 {
        let middle = u64::midpoint(holds, broken);
        if breaks(middle) { broken = middle } else { holds = middle }
    }
    format!("from {broken}")
}

/// Steps between captures with which rounds take all of the link, and no more.
fn steps_needed(inputs: &Inputs) -> String {
    let bits = 8.0 * Sizing::new(inputs).round.down_bytes;
    let steps = bits / inputs.link.least() / (inputs.step_ms as f64 / 1e3);
    number(steps.ceil().max(1.0))
}

fn sized(given: &Inputs, params: u64, islands: u64) -> Inputs {
    Inputs { params, islands, fragments: Inputs::usual_fragments(params), ..*given }
}

const fn named(way: Way) -> &'static str {
    match way {
        Way::Everyone => "everyone pulls every payload",
        Way::Committees => "reduction committees (not built)",
    }
}

const PARAMS: [u64; 4] = [1_000_000_000, 12_000_000_000, 100_000_000_000, 1_000_000_000_000];
const ISLANDS: [u64; 7] = [4, 8, 16, 64, 256, 1024, 10_000];
const ISLANDS_MIN: u64 = 2;
const ISLANDS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_break_is_found() {
        assert_eq!(first_break(|islands| islands > 1024), "from 1025");
        assert_eq!(first_break(|_| true), "always");
        assert_eq!(first_break(|_| false), "holds");
        assert_eq!(first_break(|islands| islands > 2), "from 3");
    }

    #[test]
    fn the_page_has_the_tables_as_they_are_printed() {
        let mut out = Vec::new();
        let link = crate::plan::link("100gbit").unwrap();
        print(&mut out, &Inputs { link, ..Inputs::default() }).unwrap();
        let page = include_str!("../../../docs/SCALE.md");
        for line in String::from_utf8(out).unwrap().lines() {
            assert!(page.contains(line), "docs/SCALE.md lacks: {line}");
        }
    }
}
