//! Each island in one row.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use super::{block, colour};
use crate::up::happening;
use crate::up::recording::{Recording, Seen};
use crate::up::status::Status;
use crate::up::units;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, recording: &Recording) {
    let rows = recording.islands.iter().enumerate().map(|(index, seen)| {
        let name = Cell::from(happening::island(index)).style(Style::new().fg(colour(index)));
        let mut cells = vec![name];
        match (&seen.ended, &seen.status) {
            (Some(ended), _) => {
                cells.push(Cell::from(ended.clone()).style(Style::new().fg(Color::LightRed)));
            }
            (None, Some(status)) => cells.extend(numbers(seen, status)),
            (None, None) => cells.push(Cell::from("joining")),
        }
        Row::new(cells)
    });
    let titles = COLUMNS.map(|(title, _)| title);
    let widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
    let header =
        Row::new(titles).style(Style::new().fg(Color::DarkGray).add_modifier(Modifier::BOLD));
    let table = Table::new(rows, widths).header(header).column_spacing(1).block(block("islands"));
    frame.render_widget(table, area);
}

fn numbers(seen: &Seen, status: &Status) -> Vec<Cell<'static>> {
    let held_out = seen.held_out.last().map(|(_, loss)| *loss);
    let versions: Vec<String> = status.fragments.iter().map(|it| it.version.to_string()).collect();
    let reachable = match status.gauges.reachable.answer.as_str() {
        "yes" | "no" => status.gauges.reachable.answer.clone(),
        _ => "?".to_owned(),
    };
    vec![
        Cell::from(units::loss(seen.loss())),
        Cell::from(units::loss(held_out)),
        Cell::from(status.training.step.to_string()),
        Cell::from(units::rate(status.training.tokens_per_s)),
        Cell::from(format!("{:.1} %", seen.training_share() * 100.0)),
        Cell::from(status.gauges.alive.to_string()),
        Cell::from(reachable),
        Cell::from(dots(&status.gauges.merged_in_last_round.fragments)),
        Cell::from(status.gauges.staleness.to_string()),
        Cell::from(units::bytes(status.bytes.up())),
        Cell::from(units::bytes(status.bytes.down())),
        Cell::from(format!("v{}", versions.join(" "))),
    ]
}

/// One dot for each fragment: whether the last round holds a contribution.
fn dots(merged: &[bool]) -> Line<'static> {
    let dot = |merged: &bool| match merged {
        true => Span::styled("●", Style::new().fg(Color::LightGreen)),
        false => Span::styled("○", Style::new().fg(Color::DarkGray)),
    };
    merged.iter().take(DOTS_MAX).map(dot).collect()
}

const COLUMNS: [(&str, u16); 13] = [
    ("", 9),
    ("loss", 6),
    ("held-out", 8),
    ("step", 6),
    ("tokens/s", 8),
    ("training", 8),
    ("alive", 5),
    ("reach", 5),
    ("merged", 6),
    ("behind", 6),
    ("sent", 8),
    ("received", 8),
    ("versions", 20),
];
const DOTS_MAX: usize = 6;
