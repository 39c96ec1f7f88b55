//! A swarm in lines: for logs, pipes and machines.

use std::io::{self, Write};

use super::Scene;
use crate::up::happening::{self, Weight};
use crate::up::recording::Recording;
use crate::up::units;

/// Writes a line every few seconds, and one for everything that is worth it.
#[derive(Debug, Default)]
pub(in crate::up) struct Lines {
    phase: String,
    happenings: usize,
    told: Option<f64>,
}

impl Lines {
    pub(super) fn show(&mut self, scene: &Scene<'_>, out: &mut dyn Write) -> io::Result<()> {
        let clock = units::clock(scene.at);
        if self.phase != scene.phase {
            scene.phase.clone_into(&mut self.phase);
            writeln!(out, "{clock:>6}  {}", scene.phase)?;
        }
        let happenings = &scene.recording.happenings;
        for it in happenings.iter().skip(self.happenings).filter(|it| it.weight > Weight::Usual) {
            let clock = units::clock(it.at);
            let who = it.island.map(happening::island).unwrap_or_default();
            writeln!(out, "{clock:>6}  {who} {}", it.words)?;
        }
        self.happenings = happenings.len();
        let due = self.told.is_none_or(|told| scene.at - told >= EVERY);
        if due && scene.left.is_some() && scene.recording.tokens() > 0 {
            self.told = Some(scene.at);
            writeln!(out, "{clock:>6}  {}", line(scene.recording))?;
        }
        out.flush()
    }
}

fn line(recording: &Recording) -> String {
    let agreement = recording.agreement();
    let versions: Vec<String> = agreement.iter().map(|it| it.version.to_string()).collect();
    let least = agreement.iter().min_by_key(|it| it.count).map_or((0, 0), |it| (it.count, it.of));
    let losses: Vec<String> = recording.islands.iter().map(|it| units::loss(it.loss())).collect();
    format!(
        "loss {}  held-out {}  {} tokens/s  versions {} ({}/{} agree)  training {:.3}  up {}",
        losses.join(" "),
        units::loss(recording.held_out()),
        units::rate(recording.tokens_per_s()),
        versions.join(" "),
        least.0,
        least.1,
        recording.training_share(),
        units::bytes(recording.bytes_up()),
    )
}

/// Seconds between two lines.
const EVERY: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::super::super::recording::example::recording;
    use super::*;

    #[test]
    fn a_line_comes_every_few_seconds_and_news_once() {
        let mut recording = recording();
        recording.note(59.0, Some(1), "lost island 3", Weight::Notable);
        let mut scene = Scene {
            title: "",
            phase: "training",
            at: 60.0,
            left: Some(30.0),
            done: 0.5,
            recording: &recording,
        };
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        lines.show(&scene, &mut out).unwrap();
        lines.show(&scene, &mut out).unwrap();
        scene.at = 66.0;
        lines.show(&scene, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let told: Vec<&str> = text.lines().collect();
        assert_eq!(told.len(), 4, "{text}");
        assert_eq!(told[0], "  1:00  training");
        assert_eq!(told[1], "  0:59  island 2 lost island 3");
        assert!(told[2].contains("versions 12 13 (3/3 agree)"), "{text}");
    }
}
