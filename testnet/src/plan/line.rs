//! The lines of a plan: a number, its formula, and the numbers in it.

use std::io::{self, Write};

use super::inputs::Inputs;
use super::sizing::{Sizing, Way};
use super::words::{bits_per_second, bytes, number, seconds};

/// One number of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    label: &'static str,
    value: String,
    /// As in `docs/SCALE.md`.
    pub(super) formula: &'static str,
    /// The formula with numbers in it.
    numbers: String,
}

impl Line {
    /// Prints the number and, for those who ask, where it comes from.
    pub(super) fn print(&self, out: &mut dyn Write, explain: bool) -> io::Result<()> {
        writeln!(out, "{:<36}{}", self.label, self.value)?;
        if explain {
            writeln!(out, "    {}\n    = {}", self.formula, self.numbers)?;
        }
        Ok(())
    }
}

/// Every line.
pub(super) fn all(inputs: &Inputs, sizing: &Sizing) -> Vec<Line> {
    let mut lines = traffic(inputs, sizing);
    lines.extend(pace(inputs, sizing));
    lines.extend(storage(inputs, sizing));
    lines.extend(work(inputs, sizing));
    lines
}

fn traffic(inputs: &Inputs, sizing: &Sizing) -> Vec<Line> {
    let Inputs { params, islands, fragments, .. } = inputs;
    let (bits, round) = (inputs.bits(), &sizing.round);
    let payload = bytes(sizing.payload_bytes);
    let up = bytes(round.up_bytes);
    let committees = Sizing::with(inputs, Way::Committees).round;
    vec![
        Line {
            label: "payload of an island",
            value: payload.clone(),
            formula: "payload = N * b / 8",
            numbers: format!("{} * {bits} / 8", number(*params as f64)),
        },
        Line {
            label: "  of one fragment",
            value: bytes(sizing.fragment_payload_bytes),
            formula: "payload / F",
            numbers: format!("{payload} / {fragments}"),
        },
        Line {
            label: "down, each round of all fragments",
            value: bytes(round.down_bytes),
            formula: "down = (M - 1) * payload",
            numbers: format!("({islands} - 1) * {payload}"),
        },
        Line {
            label: "up, mean over islands",
            value: format!("{up} (at least {})", bytes(round.up_bytes_least)),
            formula: "up = (M - 1) * payload, of which payload * 1 cannot be left to others",
            numbers: format!("({islands} - 1) * {payload}"),
        },
        Line {
            label: "  with reduction committees",
            value: format!(
                "{} each way, {} (not built)",
                bytes(committees.down_bytes),
                bits_per_second(committees.bits_per_second)
            ),
            formula: "(R * b + m) * N / 8 with R = 3 reducers and m = 24.55 bits",
            numbers: format!("(3 * {bits} + 24.55) * {} / 8", number(*params as f64)),
        },
    ]
}

fn pace(inputs: &Inputs, sizing: &Sizing) -> Vec<Line> {
    let (round, cycle) = (&sizing.round, seconds(sizing.round_seconds));
    let (down, late) = (bytes(round.down_bytes), bits_per_second(inputs.link.least()));
    let fragments = inputs.fragments;
    vec![
        Line {
            label: "rate on schedule, each way",
            value: bits_per_second(round.bits_per_second),
            formula: "rate = 8 * down / (H * s)",
            numbers: format!("8 * {down} / {cycle}"),
        },
        Line {
            label: "share of the link",
            value: percent(sizing.link_used),
            formula: "rate / L",
            numbers: format!("{} / {late}", bits_per_second(round.bits_per_second)),
        },
        Line {
            label: "rounds of a fragment every",
            value: format!("{} (on schedule {cycle})", seconds(sizing.round_seconds_over_link)),
            formula: "max(H * s, 8 * down / L)",
            numbers: format!("max({cycle}, 8 * {down} / {late})"),
        },
        Line {
            label: "a round of some fragment every",
            value: seconds(sizing.round_seconds_over_link / fragments as f64),
            formula: "max(H * s, 8 * down / L) / F",
            numbers: format!("{} / {fragments}", seconds(sizing.round_seconds_over_link)),
        },
    ]
}

fn storage(inputs: &Inputs, sizing: &Sizing) -> Vec<Line> {
    let Inputs { islands, fragments, horizon, .. } = inputs;
    let params = number(inputs.params as f64);
    let payload = bytes(sizing.payload_bytes);
    let (memory, join) = (&sizing.memory, &sizing.join);
    let rate = bits_per_second(sizing.round.bits_per_second);
    vec![
        Line {
            label: "memory: training, no activations",
            value: bytes(memory.island),
            formula: "16 * N",
            numbers: format!("16 * {params}"),
        },
        Line {
            label: "memory: outer, pending and head",
            value: bytes(memory.account),
            formula: "12 * N",
            numbers: format!("12 * {params}"),
        },
        Line {
            label: "memory: fold, at most",
            value: bytes(memory.fold),
            formula: "24 * N + 24 MiB",
            numbers: format!("24 * {params} + 24 MiB, in whole copies of 4 * {params}"),
        },
        Line {
            label: "memory: payloads being merged",
            value: bytes(memory.merging),
            formula: "M * payload / F",
            numbers: format!("{islands} * {payload} / {fragments}"),
        },
        Line {
            label: "disk, calm to most",
            value: format!("{} to {}", bytes(sizing.disk.calm), bytes(sizing.disk.most)),
            formula: "40 * N + W * payload + 3 * M * payload to 40 * N + W * payload + W * M * payload",
            numbers: format!(
                "40 * {params} + {horizon} * {payload} + 3 or {horizon} * {islands} * {payload}"
            ),
        },
        Line {
            label: "snapshot of all fragments",
            value: bytes(join.snapshot_bytes),
            formula: "snapshot = 8 * N",
            numbers: format!("8 * {params}"),
        },
        Line {
            label: "a new island has caught up in",
            value: join
                .seconds
                .map_or("never: the link carries no more than the rounds".into(), seconds),
            formula: "8 * (snapshot + 3 * M * payload) / (L - rate)",
            numbers: format!(
                "8 * ({} + 3 * {islands} * {payload}) / ({} - {rate})",
                bytes(join.snapshot_bytes),
                bits_per_second(inputs.link.down)
            ),
        },
    ]
}

fn work(inputs: &Inputs, sizing: &Sizing) -> [Line; 3] {
    let Inputs { islands, fragments, .. } = inputs;
    let cycle = seconds(sizing.round_seconds);
    let heartbeat = seconds(inputs.heartbeat_ms as f64 / 1e3);
    [
        Line {
            label: "gossip messages to verify",
            value: format!("{}/s", number(sizing.gossip.messages_per_second)),
            formula: "M / heartbeat + M * F / (H * s)",
            numbers: format!("{islands} / {heartbeat} + {islands} * {fragments} / {cycle}"),
        },
        Line {
            label: "gossip, each way, at most",
            value: bits_per_second(sizing.gossip.bits_per_second),
            formula: "6 * 8 * (M * (143 + 40 * min(F, 16)) / heartbeat + M * F * 158 / (H * s))",
            numbers: format!(
                "6 * 8 * ({islands} * {} / {heartbeat} + {islands} * {fragments} * 158 / {cycle})",
                143 + 40 * (*fragments).min(16)
            ),
        },
        Line {
            label: "threads beside training",
            value: number(sizing.threads),
            formula: "N * (1.88 * M + 4.19) ns / (H * s)",
            numbers: format!(
                "{} * (1.88 * {islands} + 4.19) ns / {cycle}",
                number(inputs.params as f64)
            ),
        },
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
