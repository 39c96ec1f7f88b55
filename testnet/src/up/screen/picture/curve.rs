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

/// The swarm's loss on held-out text as a thick line, and each island's own losses as dots.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, recording: &Recording) {
    let own = recording.islands.iter().enumerate().map(|(index, _)| {
        let points = recording.frames.iter();
        points.filter_map(|it| Some((it.at, it.islands.get(index)?.loss?))).collect()
    });
    let own: Vec<Vec<(f64, f64)>> = own.collect();
    let held_out = recording.held_out_curve(|it| it.at);
    let losses = own.iter().chain([&held_out]).flatten().map(|(_, loss)| *loss);
    let (low, high) =
        losses.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    let (low, high) = if low > high { (0.0, 6.0) } else { (low - 0.1, high + 0.1) };
    let end = recording.end().max(1.0);
    let mut sets: Vec<Dataset<'_>> = own
        .iter()
        .enumerate()
        .map(|(index, points)| {
            let style = Style::new().fg(colour(index));
            Dataset::default().marker(Marker::Braille).style(style).data(points)
        })
        .collect();
    // Last, so that nothing hides it.
    let line = Dataset::default().marker(Marker::HalfBlock).graph_type(GraphType::Line);
    sets.push(line.style(Style::new().fg(Color::White)).data(&held_out));
    let dim = Style::new().fg(Color::DarkGray);
    let middle = f64::midpoint(low, high);
    let title = match area.width {
        ..60 => "held-out loss (line), islands' own",
        _ => "loss of the swarm on held-out text (line), of each island on its own",
    };
    let chart = Chart::new(sets)
        .block(block(title))
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
