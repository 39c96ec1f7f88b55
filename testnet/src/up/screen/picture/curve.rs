//! The losses over time.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::{block, colour};
use crate::up::recording::Recording;
use crate::up::units;

/// The islands' own losses as dots and their mean as a line; held-out losses as large dots.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, recording: &Recording) {
    let own = recording.islands.iter().enumerate().map(|(index, _)| {
        let points = recording.frames.iter();
        points.filter_map(|it| Some((it.at, it.islands.get(index)?.loss?))).collect()
    });
    let own: Vec<Vec<(f64, f64)>> = own.collect();
    let mean: Vec<(f64, f64)> =
        recording.frames.iter().filter_map(|it| Some((it.at, it.loss?))).collect();
    let held_out: Vec<(f64, f64)> =
        recording.islands.iter().flat_map(|it| it.held_out.iter().copied()).collect();
    let losses = own.iter().chain([&held_out]).flatten().map(|(_, loss)| *loss);
    let (low, high) =
        losses.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    let (low, high) = if low > high { (0.0, 6.0) } else { (low - 0.1, high + 0.1) };
    let end = recording.frames.last().map_or(1.0, |it| it.at.max(1.0));
    let mut sets: Vec<Dataset<'_>> = own
        .iter()
        .enumerate()
        .map(|(index, points)| {
            let style = Style::new().fg(colour(index));
            Dataset::default().marker(Marker::Braille).style(style).data(points)
        })
        .collect();
    let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
    sets.push(line.style(Style::new().fg(Color::White)).data(&mean));
    let dots = Dataset::default().marker(Marker::Dot).style(Style::new().fg(Color::LightRed));
    sets.push(dots.data(&held_out));
    let dim = Style::new().fg(Color::DarkGray);
    let middle = f64::midpoint(low, high);
    let chart = Chart::new(sets)
        .block(block("loss of the swarm (line) and of each island; held-out loss (•)"))
        .legend_position(None)
        .x_axis(
            Axis::default()
                .style(dim)
                .bounds([0.0, end])
                .labels([0.0, end / 2.0, end].map(|it| Span::from(units::clock(it)))),
        )
        .y_axis(
            Axis::default()
                .style(dim)
                .bounds([low, high])
                .labels([low, middle, high].map(|it| Span::from(format!("{it:.2}")))),
        );
    frame.render_widget(chart, area);
}
