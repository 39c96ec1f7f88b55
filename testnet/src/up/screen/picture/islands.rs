//! Each island in one row.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use super::{block, colour};
use crate::up::happening;
use crate::up::recording::{Presence, Recording, Seen};
use crate::up::status::Status;
use crate::up::units;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, recording: &Recording) {
    let rows = recording.islands.iter().enumerate().map(|(index, seen)| {
        let name = Cell::from(happening::island(index)).style(Style::new().fg(colour(index)));
        let mut cells = vec![name];
        if let Some((words, colour)) = absence(&seen.presence) {
            cells.push(Cell::from(words).style(Style::new().fg(colour)));
        } else if let Some(status) = &seen.status {
            cells.extend(numbers(seen, status));
        } else {
            cells.push(Cell::from("joins"));
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

/// Why there are no numbers.
fn absence(presence: &Presence) -> Option<(&str, Color)> {
    match presence {
        Presence::Here => None,
        Presence::Awaited => Some(("later", Color::DarkGray)),
        Presence::Frozen => Some(("frozen", Color::LightCyan)),
        Presence::Away => Some(("killed", Color::LightRed)),
        Presence::Left => Some(("left", Color::DarkGray)),
        Presence::Ended(words) => Some((words, Color::LightRed)),
    }
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
        Cell::from(seen.steps().to_string()),
        Cell::from(units::rate(status.training.tokens_per_s)),
        Cell::from(format!("{:.1} %", seen.training_share() * 100.0)),
        Cell::from(status.gauges.alive.to_string()),
        Cell::from(reachable),
        Cell::from(dots(&status.gauges.merged_in_last_round.fragments)),
        Cell::from(status.gauges.staleness.to_string()),
        Cell::from(units::bytes(seen.bytes_up())),
        Cell::from(units::bytes(seen.bytes_down())),
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
