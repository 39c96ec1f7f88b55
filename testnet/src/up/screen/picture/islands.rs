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
    let is_shown = |column: &&Column| !column.wide || area.width >= WIDE;
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_shown).collect();
    let rows = recording.islands.iter().enumerate().map(|(index, seen)| {
        let name = Cell::from(happening::island(index)).style(Style::new().fg(colour(index)));
        let mut cells = vec![name];
        if let Some((words, colour)) = absence(&seen.presence) {
            cells.push(Cell::from(words).style(Style::new().fg(colour)));
        } else if let Some(status) = &seen.status {
            cells.extend(columns.iter().skip(1).map(|it| (it.cell)(seen, status)));
        } else {
            cells.push(Cell::from("joins"));
        }
        Row::new(cells)
    });
    let titles: Vec<&str> = columns.iter().map(|it| it.title).collect();
    let widths: Vec<Constraint> = columns.iter().map(|it| it.constraint()).collect();
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

/// One thing that is shown of every island.
struct Column {
    title: &'static str,
    width: u16,
    /// Only shown where there is room.
    wide: bool,
    cell: fn(&Seen, &Status) -> Cell<'static>,
}

impl Column {
    /// The last one takes what is left.
    fn constraint(&self) -> Constraint {
        if self.title == VERSIONS { Constraint::Fill(1) } else { Constraint::Length(self.width) }
    }
}

const fn column(
    title: &'static str,
    width: u16,
    wide: bool,
    cell: fn(&Seen, &Status) -> Cell<'static>,
) -> Column {
    Column { title, width, wide, cell }
}

fn held_out(seen: &Seen) -> String {
    units::loss(seen.held_out.last().map(|(_, loss)| *loss))
}

fn reachable(status: &Status) -> String {
    match status.gauges.reachable.answer.as_str() {
        "yes" | "no" => status.gauges.reachable.answer.clone(),
        _ => "?".to_owned(),
    }
}

fn versions(status: &Status) -> String {
    let versions: Vec<String> = status.fragments.iter().map(|it| it.version.to_string()).collect();
    format!("v{}", versions.join(" "))
}

/// One dot for each fragment: whether the last round holds a contribution.
fn dots(merged: &[bool]) -> Line<'static> {
    let dot = |merged: &bool| match merged {
        true => Span::styled("●", Style::new().fg(Color::LightGreen)),
        false => Span::styled("○", Style::new().fg(Color::DarkGray)),
    };
    merged.iter().take(DOTS_MAX).map(dot).collect()
}

const COLUMNS: [Column; 13] = [
    column("", 9, false, |_, _| Cell::default()),
    column("loss", 6, false, |seen, _| Cell::from(units::loss(seen.loss()))),
    column("held-out", 8, false, |seen, _| Cell::from(held_out(seen))),
    column("step", 6, true, |seen, _| Cell::from(seen.steps().to_string())),
    column("tokens/s", 8, false, |_, it| Cell::from(units::rate(it.training.tokens_per_s))),
    column("training", 8, false, |seen, _| {
        Cell::from(format!("{:.1} %", seen.training_share() * 100.0))
    }),
    column("alive", 5, true, |_, it| Cell::from(it.gauges.alive.to_string())),
    column("reach", 5, true, |_, it| Cell::from(reachable(it))),
    column("merged", 6, true, |_, it| Cell::from(dots(&it.gauges.merged_in_last_round.fragments))),
    column("behind", 6, true, |_, it| Cell::from(it.gauges.staleness.to_string())),
    column("sent", 7, false, |seen, _| Cell::from(units::bytes(seen.bytes_up()))),
    column("received", 8, false, |seen, _| Cell::from(units::bytes(seen.bytes_down()))),
    column(VERSIONS, 0, false, |_, it| Cell::from(versions(it))),
];
const VERSIONS: &str = "versions";
const DOTS_MAX: usize = 6;
/// Columns of a terminal that has room for all of it.
const WIDE: u16 = 110;
