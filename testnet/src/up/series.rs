//! The series of a report as comma-separated values.

use std::fmt::Write;

use super::recording::Recording;

/// One line for each island at each moment.
pub(super) fn csv(recording: &Recording) -> String {
    let fragments = recording.fragments();
    let mut text = COLUMNS.join(",");
    for fragment in 0..fragments {
        let _ = write!(text, ",version_f{fragment}");
    }
    text.push('\n');
    for frame in &recording.frames {
        for (index, point) in frame.islands.iter().enumerate() {
            let optional = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
            let mut cells = vec![
                format!("{:.3}", frame.at),
                (index + 1).to_string(),
                point.step.to_string(),
                point.tokens.to_string(),
                format!("{:.1}", point.tokens_per_s),
                optional(point.loss),
                optional(point.held_out),
                format!("{:.4}", point.training_share),
                point.bytes_up.to_string(),
                point.bytes_down.to_string(),
                point.alive.to_string(),
                point.staleness.to_string(),
                format!("{:.2}", point.merged_share),
                point.contributions.to_string(),
                format!("{:.3}", frame.agreement),
            ];
            let version = |fragment: usize| point.versions.get(fragment).map(u32::to_string);
            cells.extend((0..fragments).map(|it| version(it).unwrap_or_default()));
            text.push_str(&cells.join(","));
            text.push('\n');
        }
    }
    text
}

const COLUMNS: [&str; 15] = [
    "seconds",
    "island",
    "step",
    "tokens",
    "tokens_per_s",
    "loss",
    "held_out_loss",
    "training_share",
    "bytes_up",
    "bytes_down",
    "alive",
    "staleness",
    "merged_in_last_round",
    "contributions",
    "agreement",
];

#[cfg(test)]
mod tests {
    use super::super::recording::example::recording;
    use super::*;

    #[test]
    fn every_line_has_every_column() {
        let text = csv(&recording());
        let widths: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths.len(), 1 + 3 * 120);
        assert!(widths.iter().all(|width| *width == COLUMNS.len() + 2));
        assert!(
            text.lines().nth(1).unwrap().starts_with("0.000,1,0,0,5200.0,5.5,5.5,0.98"),
            "{text}"
        );
    }
}
