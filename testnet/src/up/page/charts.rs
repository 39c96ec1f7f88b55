//! The charts of a report.

use super::Page;
use super::chart::{Chart, Series, Shape};
use crate::up::recording::{Frame, Point};
use crate::up::units;

/// Each chart with its title and what it shows.
pub(super) fn all(page: &Page<'_>) -> Vec<(&'static str, &'static str, String)> {
    vec![
        (
            "Loss over time",
            "The islands' own losses on text that they see for the first time, and their mean. Dots \
             are losses on held-out text: small ones as an island measured them, the large one for \
             the model that all agreed on. Dashed is where one island alone ended after as many \
             steps. Upright lines are what was done to the swarm: red takes away, green gives back.",
            over_time(page).html(),
        ),
        (
            "Loss over tokens",
            "The same over the tokens that all islands together trained.",
            over(page, "tokens of all islands", |it| it.tokens as f64, units::rate).html(),
        ),
        (
            "Loss over bytes",
            "And over the bytes that all islands together sent.",
            over(page, "bytes sent by all islands", |it| it.bytes_up as f64, bytes).html(),
        ),
        (
            "Versions",
            "The version of the outer state at each island, averaged over the fragments.",
            islands(page, |it| (!it.versions.is_empty()).then(|| it.version()), whole).html(),
        ),
        (
            "Agreement",
            "The share of islands with the same version and the same bits at the same moment, \
             averaged over the fragments; islands are never quite at the same moment until \
             training ends.",
            agreement(page).html(),
        ),
        (
            "Participation",
            "Contributions that each island has signed.",
            islands(page, |it| Some(it.contributions as f64), whole).html(),
        ),
        (
            "Speed",
            "Tokens per second of each island.",
            islands(page, |it| Some(it.tokens_per_s), units::rate).html(),
        ),
    ]
}

fn over_time(page: &Page<'_>) -> Chart {
    let recording = page.recording;
    let mut series: Vec<Series> = (0..recording.islands.len())
        .map(|index| Series::island(index, Shape::Faint, of_island(page, index, |it| it.loss)))
        .collect();
    series.extend(swarm(page, |it| it.at));
    let end = recording.frames.last().map_or(0.0, |it| it.at);
    series.extend(page.outcome.alone.map(|alone| Series {
        name: Some("one island alone".into()),
        colour: ALONE,
        shape: Shape::Dashed,
        points: vec![(0.0, alone.loss), (end, alone.loss)],
    }));
    let marks = recording.inflicted.iter().map(|(at, deed)| (*at, deed.is_bad()));
    Chart {
        x: "time",
        x_label: units::clock,
        y_label: loss,
        x_range: Some((0.0, end)),
        y_range: None,
        wide: true,
        series,
        marks: marks.collect(),
    }
}

fn over(
    page: &Page<'_>,
    x: &'static str,
    of: fn(&Frame) -> f64,
    x_label: fn(f64) -> String,
) -> Chart {
    let series = swarm(page, of);
    Chart {
        x,
        x_label,
        y_label: loss,
        x_range: None,
        y_range: None,
        wide: false,
        series,
        marks: Vec::new(),
    }
}

fn islands(page: &Page<'_>, of: fn(&Point) -> Option<f64>, y_label: fn(f64) -> String) -> Chart {
    let series = (0..page.recording.islands.len())
        .map(|index| Series::island(index, Shape::Line { width: 2 }, of_island(page, index, of)))
        .collect();
    Chart {
        x: "time",
        x_label: units::clock,
        y_label,
        x_range: None,
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
        x: "time",
        x_label: units::clock,
        y_label: |it| format!("{:.0} %", it * 100.0),
        x_range: None,
        y_range: Some((0.0, 1.0)),
        wide: false,
        series: vec![Series { name: None, colour: SWARM, shape, points }],
        marks: Vec::new(),
    }
}

/// The mean loss of the islands, what they measured on held-out text, and the agreed model.
fn swarm(page: &Page<'_>, of: fn(&Frame) -> f64) -> Vec<Series> {
    let frames = &page.recording.frames;
    let mean = frames.iter().filter_map(|it| Some((of(it), it.loss?))).collect();
    let measured = page.recording.islands.iter().flat_map(|it| &it.held_out);
    let measured = measured.filter_map(|(at, loss)| {
        let frame = frames.iter().find(|frame| frame.at >= *at).or(frames.last())?;
        Some((of(frame), *loss))
    });
    let agreed = frames.last().map(of).zip(page.outcome.loss_last);
    let series = |name: &str, colour, shape, points| {
        let name = Some(name.to_owned());
        Series { name, colour, shape, points }
    };
    let mut all = vec![
        series("mean of the islands", SWARM, Shape::Line { width: 3 }, mean),
        series("held out", HELD_OUT, Shape::Dots { size: 3 }, measured.collect()),
        series(
            "agreed model, held out",
            AGREED,
            Shape::Dots { size: 6 },
            agreed.into_iter().collect(),
        ),
    ];
    all.retain(|it| !it.points.is_empty());
    all
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
const HELD_OUT: (u8, u8, u8) = (52, 58, 64);
const AGREED: (u8, u8, u8) = (230, 119, 0);
const ALONE: (u8, u8, u8) = (201, 42, 42);
