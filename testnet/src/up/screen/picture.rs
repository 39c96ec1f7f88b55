//! The picture of a swarm: a curve, the whole, each island, what happens.

mod curve;
mod islands;
mod whole;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Gauge, Paragraph};

use super::Scene;
use crate::up::happening::{self, Weight};
use crate::up::units;

/// Draws the scene over all of the frame.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let islands = u16::try_from(scene.recording.islands.len()).unwrap_or(u16::MAX);
    let table = islands.saturating_add(3).min(frame.area().height / 2);
    // The curve has what is over; a few events are enough.
    let events = frame.area().height.saturating_sub(table + whole::HEIGHT + 2) / 2;
    let [head, top, middle, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(whole::HEIGHT),
        Constraint::Length(table),
        Constraint::Length(events.max(EVENTS_MIN)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let [left, right] =
        Layout::horizontal([Constraint::Min(30), Constraint::Length(WHOLE_WIDTH)]).areas(top);
    draw_head(frame, head, scene);
    curve::draw(frame, left, scene.recording);
    whole::draw(frame, right, scene.recording);
    islands::draw(frame, middle, scene.recording);
    draw_happenings(frame, bottom, scene);
    let keys = Line::from(vec![
        " q ".bold(),
        "end now, with summary and report   ".dim(),
        "Ctrl-C ".bold(),
        "stop everything".dim(),
    ]);
    frame.render_widget(keys, foot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let left = match scene.left {
        Some(left) => format!("{} left", units::clock(left)),
        None => units::clock(scene.at),
    };
    let title = Line::from(vec![
        " atoll ".bold().fg(Color::Black).bg(Color::Cyan),
        format!(" {}  ", scene.title).into(),
        Span::from(scene.phase.to_owned()).cyan(),
    ]);
    let [words, gauge] =
        Layout::horizontal([Constraint::Min(20), Constraint::Length(GAUGE_WIDTH)]).areas(area);
    frame.render_widget(title, words);
    let bar = Gauge::default()
        .ratio(scene.done.clamp(0.0, 1.0))
        .label(left)
        .gauge_style(Style::new().fg(Color::Cyan).bg(Color::DarkGray));
    frame.render_widget(bar, gauge);
}

fn draw_happenings(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let rows = usize::from(area.height.saturating_sub(2));
    let all = &scene.recording.happenings;
    let shown = all.iter().skip(all.len().saturating_sub(rows)).map(|it| {
        let (who, colour) = match it.island {
            Some(index) => (happening::island(index), colour(index)),
            None => ("swarm".to_owned(), Color::White),
        };
        let words = match it.weight {
            Weight::Usual => Span::from(it.words.clone()).gray(),
            Weight::Notable => Span::from(it.words.clone()).white(),
            Weight::Inflicted => Span::from(format!("⚡ {}", it.words)).light_magenta().bold(),
            Weight::Wrong => Span::from(it.words.clone()).light_red(),
        };
        Line::from(vec![
            format!("{:>6}  ", units::clock(it.at)).dim(),
            Span::styled(format!("{who:<11}"), Style::new().fg(colour)),
            words,
        ])
    });
    let list = Paragraph::new(shown.collect::<Vec<Line<'_>>>()).block(block("events"));
    frame.render_widget(list, area);
}

fn block(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(Span::styled(format!(" {title} "), Style::new().add_modifier(Modifier::BOLD)))
}

/// The colour of island `index`.
fn colour(index: usize) -> Color {
    COLOURS[index % COLOURS.len()]
}

/// Light ones, which can be read on black; those behind the sixteen are for islands behind the
/// fifth.
const COLOURS: [Color; 8] = [
    Color::LightBlue,
    Color::LightYellow,
    Color::LightGreen,
    Color::LightMagenta,
    Color::LightCyan,
    Color::Indexed(215),
    Color::Indexed(156),
    Color::Indexed(183),
];
const WHOLE_WIDTH: u16 = 40;
const GAUGE_WIDTH: u16 = 24;
/// Three lines and a frame.
const EVENTS_MIN: u16 = 5;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::super::recording::Recording;
    use super::super::super::recording::example::recording;
    use super::*;

    fn drawn(recording: &Recording, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let scene = Scene {
            title: "3 islands, nano",
            phase: "training",
            at: 60.0,
            left: Some(125.0),
            done: 0.4,
            recording,
        };
        terminal.draw(|frame| draw(frame, &scene)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn everything_that_matters_is_in_the_picture() {
        let text = drawn(&recording(), 120, 40);
        for words in [
            "3 islands, nano",
            "2:05 left",
            "loss of the swarm",
            "island 1",
            "island 3",
            "5.20 k",
            "merged",
            "round f0/r11 closed with 3 contributions",
            "v12 13",
            "end now",
            "15.6 k/s",
        ] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
    }

    #[test]
    fn a_small_terminal_shows_versions_bytes_and_fates() {
        let mut recording = recording();
        recording.islands.push(recording.islands[2].clone());
        let text = drawn(&recording, 80, 24);
        for words in [
            "held-out",
            "19.2 MB up, 11.0 MB down",
            "v12   v13",
            "4/4",
            "merged 70% pending 20% fresh 10%",
            "v12 13",
            "island 4",
            "round f0/r11 closed",
            "Ctrl-C",
        ] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
    }

    #[test]
    fn any_size_and_any_moment_can_be_drawn() {
        let empty = Recording::new([1.0; 4], 60.0);
        for (width, height) in [(1, 1), (20, 5), (80, 24), (250, 80)] {
            drawn(&empty, width, height);
            drawn(&recording(), width, height);
        }
        let many = Recording::new([1.0; 64], 60.0);
        assert!(drawn(&many, 100, 30).contains("events"));
    }
}
