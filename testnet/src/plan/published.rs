//! The published run of this size, next to ours.

use std::io::{self, Write};

use super::inputs::Inputs;
use super::sizing::Sizing;
use super::words::bits_per_second;

/// Prints the comparison if `inputs` are those of the published run.
pub(super) fn print(out: &mut dyn Write, inputs: &Inputs, sizing: &Sizing) -> io::Result<()> {
    if (inputs.params, inputs.islands) != (PARAMS, ISLANDS) {
        return Ok(());
    }
    let [half, most, _] = sizing.utilisation.never_waits.map(bits_per_second);
    let star = inputs.params as f64 * inputs.bits() / inputs.cycle_seconds();
    let halves = inputs.params as f64 * 16.0 / inputs.cycle_seconds();
    writeln!(
        out,
        "\nagainst the published run (12B parameters, four regions, 2 to 5 Gbit/s between them)\n\
         \x20 ours                 {} each way for every island: rate = 8 * (M - 1) * N * b / 8 / (H * s)\n\
         \x20                      {half} to {most} for 50 to 90 % of the rounds\n\
         \x20 one central place    {} each way with the same codec, {} with 16 bits\n\
         What differs: there every island exchanges with one central place, once up and once down; \
         here\neach pulls the payloads of M - 1 = 3 others, so we send three times as much and need \
         no such\nplace. Their step time, codec and way of measuring were not published: with s = 1 s \
         ours is\nan assumption, and the rate falls as 1 / s.\n\
         Source: DeepMind's article on Decoupled DiLoCo of 2026-04-23 (arXiv 2604.21428).",
        bits_per_second(sizing.round.bits_per_second),
        bits_per_second(star),
        bits_per_second(halves),
    )
}

const PARAMS: u64 = 12_000_000_000;
const ISLANDS: u64 = 4;
