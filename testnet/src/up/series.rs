//! The series and the events of a report as comma-separated values.

use std::fmt::Write;
use std::path::{Path, PathBuf};

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

/// One line for each event; an event without an island concerns the whole swarm.
pub(super) fn events(recording: &Recording) -> String {
    let mut text = String::from("seconds,island,weight,event\n");
    for it in &recording.happenings {
        let island = it.island.map(|index| (index + 1).to_string()).unwrap_or_default();
        let weight = format!("{:?}", it.weight).to_lowercase();
        let words = it.words.replace('"', "\"\"");
        let _ = writeln!(text, "{:.3},{island},{weight},\"{words}\"", it.at);
    }
    text
}

/// Where the events go: beside the series, `run.csv` and `run-events.csv`.
pub(super) fn events_file(series: &Path) -> PathBuf {
    let stem = series.file_stem().unwrap_or_default().to_string_lossy();
    let ending = series.extension().map_or_else(String::new, |it| format!(".{}", it.display()));
    series.with_file_name(format!("{stem}-events{ending}"))
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
    use super::super::happening::Weight;
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

    #[test]
    fn events_are_beside_the_series() {
        assert_eq!(events_file(Path::new("a/run.csv")), Path::new("a/run-events.csv"));
        assert_eq!(events_file(Path::new("run")), Path::new("run-events"));
        let mut recording = Recording::new([1.0], 60.0);
        recording.note(1.5, Some(0), "said \"no\", twice", Weight::Wrong);
        recording.note(2.0, None, "heals", Weight::Inflicted);
        let lines = "1.500,1,wrong,\"said \"\"no\"\", twice\"\n2.000,,inflicted,\"heals\"\n";
        assert!(events(&recording).ends_with(lines), "{}", events(&recording));
    }
}
