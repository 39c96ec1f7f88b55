//! The swarm as a whole.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::block;
use crate::up::recording::Recording;
use crate::up::units;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, recording: &Recording) {
    let row = |name: &str, value: String| {
        Line::from(vec![format!(" {name:<9} ").dim(), Span::from(value).white()])
    };
    let loss = format!(
        "{} -> {}",
        units::loss(recording.held_out_first()),
        units::loss(recording.held_out())
    );
    let tokens = units::count(recording.tokens());
    let speed = units::rate(recording.tokens_per_s());
    let (up, down) = (units::bytes(recording.bytes_up()), units::bytes(recording.bytes_down()));
    let mut lines = vec![
        row("held-out", loss),
        row("trained", format!("{tokens} tokens, {speed}/s")),
        row("training", format!("{:.1} % of the time", recording.training_share() * 100.0)),
        row("bytes", format!("{up} up, {down} down")),
    ];
    lines.extend(agreement(recording));
    lines.extend(fates(recording, area.width.saturating_sub(4)));
    frame.render_widget(Paragraph::new(lines).block(block("swarm")), area);
}

/// For each fragment, how many islands have the same bits.
fn agreement(recording: &Recording) -> Vec<Line<'static>> {
    let agreement = recording.agreement();
    if agreement.is_empty() {
        return Vec::new();
    }
    let mut versions = vec![" versions  ".dim()];
    let mut agree = vec![" agree     ".dim()];
    for it in agreement.iter().take(FRAGMENTS_SHOWN) {
        let colour = if it.count == it.of { Color::LightGreen } else { Color::LightYellow };
        versions.push(Span::from(format!("{:<6}", format!("v{}", it.version))));
        let share = format!("{:<6}", format!("{}/{}", it.count, it.of));
        agree.push(Span::styled(share, Style::new().fg(colour)));
    }
    vec![Line::from(versions), Line::from(agree)]
}

/// Where tokens are, as a bar and in numbers.
fn fates(recording: &Recording, width: u16) -> Vec<Line<'static>> {
    let fates = recording.fates();
    if fates.trained == 0 {
        return Vec::new();
    }
    let mut bar = vec![Span::from(" ")];
    let mut words = vec![Span::from(" ")];
    for ((name, tokens), colour) in fates.named().into_iter().zip(COLOURS) {
        let cells = u128::from(tokens) * u128::from(width) / u128::from(fates.trained);
        let cells = usize::try_from(cells).unwrap_or(0);
        bar.push(Span::styled("█".repeat(cells), Style::new().fg(colour)));
        if tokens > 0 {
            let share = tokens as f64 * 100.0 / fates.trained as f64;
            words.push(Span::styled(format!("{name} {share:.0}% "), Style::new().fg(colour)));
        }
    }
    vec![Line::from(bar), Line::from(words)]
}

const COLOURS: [Color; 5] =
    [Color::LightGreen, Color::LightYellow, Color::LightBlue, Color::LightMagenta, Color::LightRed];
/// What fits.
const FRAGMENTS_SHOWN: usize = 4;
/// Rows that all of it takes, with its frame.
pub(super) const HEIGHT: u16 = 10;
