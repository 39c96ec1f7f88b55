//! The charts of a report.

use super::chart::{Axis, Chart, Series, Shape};
use super::{BAD, Page, Rgb, grid, lives};
use crate::up::recording::{Frame, Mark, Point};
use crate::up::units;

/// A part of the report with something to look at.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) words: String,
    pub(super) html: String,
    /// Over the whole width of the page.
    pub(super) wide: bool,
}

/// Everything there is to look at, in order.
pub(super) fn all(page: &Page<'_>) -> Vec<Part> {
    let part = |title, words: &str, chart: &Chart| Part {
        title,
        words: words.to_owned(),
        html: chart.html(),
        wide: false,
    };
    let tokens = Axis::new("tokens of all islands", units::rate);
    let bytes = Axis::new("bytes sent by all islands", bytes);
    vec![
        loss_over_time(page),
        part(
            "Loss over tokens",
            "The same over the tokens that all islands together trained.",
            &over(page, tokens, |it| it.tokens as f64),
        ),
        part(
            "Loss over bytes",
            "And over the bytes that all islands together sent.",
            &over(page, bytes, |it| it.bytes_up as f64),
        ),
        grid::part(page),
        part(
            "Receipts",
            "Contributions that the islands have signed, and those that every peer has merged.",
            &receipts(page),
        ),
        part(
            "Agreement",
            "The share of islands with the same version and bits at one moment, averaged over the \
             fragments; never quite all until training ends.",
            &agreement(page),
        ),
        part(
            "Versions",
            "The version of the outer state at each island, averaged over the fragments.",
            &islands(page, Axis::new("version", whole), |it| {
                (!it.versions.is_empty()).then(|| it.version())
            }),
        ),
        part("Bytes", "What all islands together have sent and received.", &traffic(page)),
        part(
            "Speed",
            "Tokens that each island trains in a second.",
            &islands(page, Axis::new("tokens per second", units::rate), |it| Some(it.tokens_per_s)),
        ),
        part(
            "Training",
            "The share of the time that each island could train in which it did: nobody waits.",
            &islands(page, Axis::new("share of the time", percent).from(0.0, 1.0), |it| {
                (it.tokens > 0).then_some(it.training_share)
            }),
        ),
    ]
}

fn loss_over_time(page: &Page<'_>) -> Part {
    let recording = page.recording;
    let own = |index: usize| Series::island(index, true, of_island(page, index, |it| it.loss));
    let mut series: Vec<Series> = (0..recording.islands.len()).map(own).collect();
    series.extend(swarm(page, |it| it.at));
    let end = recording.end();
    series.extend(page.outcome.alone.map(|alone| {
        let points = vec![(0.0, alone.loss), (end, alone.loss)];
        Series::new("one island alone", ALONE, Shape::Dashed { width: 2 }, points)
    }));
    let chart = Chart { wide: true, ..over_time(page, Axis::new("loss", loss), series) };
    let mut words = "The thick line is the swarm's loss on held-out text; the thin ones are the \
                     islands' own losses on text that they see for the first time."
        .to_owned();
    if page.outcome.alone.is_some() {
        words.push_str(
            " Dashed is where one island ended that took as many steps on a machine of its own.",
        );
    }
    if !recording.inflicted.is_empty() {
        words.push_str(
            " Upright lines are what was done to the swarm: red takes away, green gives back.",
        );
    }
    let html = format!("{}{}", chart.html(), lives::html(page));
    Part { title: "Loss over time", words, html, wide: true }
}

fn over(page: &Page<'_>, x: Axis, of: fn(&Frame) -> f64) -> Chart {
    Chart::new(x, Axis::new("loss", loss), swarm(page, of))
}

/// A chart over the time from the first process to the last, with what happened.
fn over_time(page: &Page<'_>, y: Axis, series: Vec<Series>) -> Chart {
    let recording = page.recording;
    let x = Axis::new("time", units::clock).from(0.0, recording.end());
    let done = recording.inflicted.iter();
    let mut marks: Vec<(f64, Rgb)> =
        done.map(|(at, deed)| (*at, if deed.is_bad() { BAD } else { GOOD })).collect();
    let mut last = f64::MIN;
    for (at, _, mark) in recording.marks.iter().filter(|it| it.2 != Mark::Installed) {
        // All islands notice the same within a moment.
        if at - last > MOMENT {
            marks.push((*at, if *mark == Mark::Equivocated { FOUND_OUT } else { BAD }));
            last = *at;
        }
    }
    Chart { marks, ..Chart::new(x, y, series) }
}

fn islands(page: &Page<'_>, y: Axis, of: fn(&Point) -> Option<f64>) -> Chart {
    let one = |index: usize| Series::island(index, false, of_island(page, index, of));
    let series = (0..page.recording.islands.len()).map(one).collect();
    let y = if y.range.is_some() { y } else { y.from(0.0, 0.0) };
    over_time(page, y, series)
}

fn agreement(page: &Page<'_>) -> Chart {
    let line = Shape::Line { width: 2 };
    let series = Series { name: None, ..of_swarm(page, "", SWARM, line, |it| it.agreement) };
    over_time(page, Axis::new("islands that agree", percent).from(0.0, 1.0), vec![series])
}

fn receipts(page: &Page<'_>) -> Chart {
    let line = Shape::Line { width: 2 };
    let series = vec![
        of_swarm(page, "signed", AGREED, line, |it| it.contributions as f64),
        of_swarm(page, "merged by every peer", SWARM, line, |it| it.merged_by_all as f64),
    ];
    over_time(page, Axis::new("contributions", whole).from(0.0, 0.0), series)
}

fn traffic(page: &Page<'_>) -> Chart {
    let line = Shape::Line { width: 2 };
    let series = vec![
        of_swarm(page, "sent", SWARM, line, |it| it.bytes_up as f64),
        of_swarm(page, "received", AGREED, line, |it| it.bytes_down as f64),
    ];
    over_time(page, Axis::new("bytes", bytes).from(0.0, 0.0), series)
}

/// The swarm's loss on held-out text, the islands' own, and that of the model at the end.
fn swarm(page: &Page<'_>, of: fn(&Frame) -> f64) -> Vec<Series> {
    let frames = &page.recording.frames;
    let own = frames.iter().filter_map(|it| Some((of(it), it.loss?))).collect();
    let held_out = page.recording.held_out_curve(of);
    let last = frames.last().map(of).zip(page.outcome.loss_last).into_iter().collect();
    let mut all = vec![
        Series::new("swarm, own text", OWN, Shape::Line { width: 1 }, own),
        Series::new("swarm, held-out text", SWARM, Shape::Line { width: 4 }, held_out),
        Series::new("at the end", AGREED, Shape::Dots { size: 6 }, last),
    ];
    all.retain(|it| !it.points.is_empty());
    all
}

fn of_swarm(
    page: &Page<'_>,
    name: &str,
    colour: Rgb,
    shape: Shape,
    of: fn(&Frame) -> f64,
) -> Series {
    let points = page.recording.frames.iter().map(|it| (it.at, of(it))).collect();
    Series::new(name, colour, shape, points)
}

fn of_island(page: &Page<'_>, index: usize, of: fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let frames = page.recording.frames.iter();
    frames.filter_map(|it| Some((it.at, of(it.islands.get(index)?)?))).collect()
}

fn loss(loss: f64) -> String {
    format!("{loss:.1}")
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn bytes(bytes: f64) -> String {
    format!("{}B", units::rate(bytes))
}

const SWARM: Rgb = (11, 114, 133);
const OWN: Rgb = (134, 142, 150);
const AGREED: Rgb = (230, 119, 0);
const ALONE: Rgb = (201, 42, 42);
const GOOD: Rgb = (47, 158, 68);
const FOUND_OUT: Rgb = (112, 72, 232);
/// Seconds.
const MOMENT: f64 = 2.0;
