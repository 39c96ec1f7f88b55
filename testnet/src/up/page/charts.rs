//! The charts of a report.

use super::Page;
use super::chart::{Chart, Series, Shape};
use crate::up::happening::Weight;
use crate::up::recording::{Frame, Point};
use crate::up::units;

/// Each chart with its title and what it shows.
pub(super) fn all(page: &Page<'_>) -> Vec<(&'static str, &'static str, String)> {
    vec![
        (
            "Loss over time",
            "Held-out loss of the swarm (the mean of what each island measured last), every \
             measurement as a dot, each island's own training loss faint; dashed is where one \
             island alone ended after as many steps.",
            over_time(page).svg(),
        ),
        (
            "Loss over tokens",
            "The same over the tokens that all islands together trained.",
            over(page, "tokens of all islands", |it| it.tokens as f64, units::rate).svg(),
        ),
        (
            "Loss over bytes",
            "And over the bytes that all islands together sent.",
            over(page, "bytes sent by all islands", |it| it.bytes_up as f64, bytes).svg(),
        ),
        (
            "Versions",
            "The version of the outer state at each island, averaged over the fragments.",
            islands(page, |it| (!it.versions.is_empty()).then(|| it.version()), whole).svg(),
        ),
        (
            "Agreement",
            "The share of islands with the same version and the same bits at the same moment, \
             averaged over the fragments; islands are never quite at the same moment until \
             training ends.",
            agreement(page).svg(),
        ),
        (
            "Participation",
            "Contributions that each island has signed.",
            islands(page, |it| Some(it.contributions as f64), whole).svg(),
        ),
        (
            "Speed",
            "Tokens per second of each island.",
            islands(page, |it| Some(it.tokens_per_s), units::rate).svg(),
        ),
    ]
}

fn over_time(page: &Page<'_>) -> Chart {
    let recording = page.recording;
    let mut series: Vec<Series> = Vec::new();
    for index in 0..recording.islands.len() {
        let own = of_island(page, index, |it| it.loss);
        series.push(Series { name: String::new(), ..Series::island(index, Shape::Faint, own) });
    }
    for (index, seen) in recording.islands.iter().enumerate() {
        series.push(Series::island(index, Shape::Dots, seen.held_out.clone()));
    }
    series.push(swarm(page, |it| it.at));
    let end = recording.frames.last().map_or(0.0, |it| it.at);
    series.extend(page.outcome.alone.map(|alone| Series {
        name: "one island alone".into(),
        colour: ALONE,
        shape: Shape::Dashed,
        points: vec![(0.0, alone.loss), (end, alone.loss)],
    }));
    series.retain(|it| !it.points.is_empty());
    let wrong = recording.happenings.iter().filter(|it| it.weight == Weight::Wrong);
    Chart {
        x: "minutes",
        x_label: units::clock,
        y_label: loss,
        y_range: None,
        wide: true,
        series,
        marks: wrong.map(|it| it.at).collect(),
    }
}

fn over(
    page: &Page<'_>,
    x: &'static str,
    of: fn(&Frame) -> f64,
    x_label: fn(f64) -> String,
) -> Chart {
    let own = page.recording.frames.iter().filter_map(|it| Some((of(it), it.loss?)));
    let own = Series {
        name: "training loss".into(),
        colour: OWN,
        shape: Shape::Faint,
        points: own.collect(),
    };
    let series = vec![own, swarm(page, of)];
    Chart { x, x_label, y_label: loss, y_range: None, wide: false, series, marks: Vec::new() }
}

fn islands(page: &Page<'_>, of: fn(&Point) -> Option<f64>, y_label: fn(f64) -> String) -> Chart {
    let series = (0..page.recording.islands.len())
        .map(|index| Series::island(index, Shape::Line { width: 2 }, of_island(page, index, of)))
        .collect();
    Chart {
        x: "minutes",
        x_label: units::clock,
        y_label,
        y_range: Some((0.0, 0.0)),
        wide: false,
        series,
        marks: Vec::new(),
    }
}

fn agreement(page: &Page<'_>) -> Chart {
    let points = page.recording.frames.iter().map(|it| (it.at, it.agreement)).collect();
    let shape = Shape::Line { width: 2 };
    Chart {
        x: "minutes",
        x_label: units::clock,
        y_label: |it| format!("{:.0} %", it * 100.0),
        y_range: Some((0.0, 1.0)),
        wide: false,
        series: vec![Series { name: "islands that agree".into(), colour: SWARM, shape, points }],
        marks: Vec::new(),
    }
}

/// The swarm's held-out loss; its last point is the model that all agreed on.
fn swarm(page: &Page<'_>, of: fn(&Frame) -> f64) -> Series {
    let frames = &page.recording.frames;
    let measured = frames.iter().filter_map(|it| Some((of(it), it.held_out?)));
    let last = frames.last().map(of).zip(page.outcome.loss_last);
    Series {
        name: "swarm, held out".into(),
        colour: SWARM,
        shape: Shape::Line { width: 3 },
        points: measured.chain(last).collect(),
    }
}

fn of_island(page: &Page<'_>, index: usize, of: fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let frames = page.recording.frames.iter();
    frames.filter_map(|it| Some((it.at, of(it.islands.get(index)?)?))).collect()
}

fn loss(loss: f64) -> String {
    format!("{loss:.2}")
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn bytes(bytes: f64) -> String {
    format!("{}B", units::rate(bytes))
}

const SWARM: (u8, u8, u8) = (11, 114, 133);
const OWN: (u8, u8, u8) = (92, 107, 122);
const ALONE: (u8, u8, u8) = (201, 42, 42);
