//! Who took part in which round.

use std::fmt::Write;

use super::charts::Part;
use super::{Page, rgb};
use crate::up::happening;
use crate::up::units;

/// One row for each island, one column for each round that closed, in the order in which they did.
pub(super) fn part(page: &Page<'_>) -> Part {
    let rounds = page.recording.closed_rounds();
    let skipped = rounds.len().saturating_sub(ROUNDS_MAX);
    let mut words = "Each column is a round of a fragment, in the order in which they closed; an \
                     island's cell is full if the round holds a contribution of it."
        .to_owned();
    if skipped > 0 {
        let _ = write!(words, " The last {ROUNDS_MAX} of {} rounds.", rounds.len());
    }
    let shown = &rounds[skipped..];
    if shown.is_empty() {
        let html = "<p>No round closed.</p>".to_owned();
        return Part { title: TITLE, words, html, wide: true };
    }
    let islands = page.recording.islands.len();
    let width = (PLANE / shown.len() as f64).min(WIDEST);
    let height = ROW * islands as f64 + FOOT;
    let mut svg = format!("<svg viewBox=\"0 0 1040 {height}\" class=\"grid\">");
    for index in 0..islands {
        let y = ROW * index as f64;
        let (name, middle) = (happening::island(index), y + ROW * 0.68);
        let _ = write!(svg, "<text x=\"58\" y=\"{middle}\" text-anchor=\"end\">{name}</text>");
        for (column, (round, about, closed)) in shown.iter().enumerate() {
            let x = LEFT + width * column as f64;
            let fill = match about.authors.contains(&index) {
                true => format!("fill=\"{}\"", rgb(index)),
                false => "class=\"none\"".to_owned(),
            };
            let _ = write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{:.0}\" {fill}><title>{round}, \
                 closed at {}</title></rect>",
                (width - GAP).max(width * 0.7),
                ROW - GAP * 2.0,
                units::clock(*closed)
            );
        }
    }
    // A clock below, as often as there is room for.
    let every = shown.len().div_ceil(CLOCKS).max(CLOCK_COLUMNS);
    for (column, (.., closed)) in shown.iter().enumerate().step_by(every) {
        let (x, y) = (LEFT + width * column as f64, height - 4.0);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y}\">{}</text>", units::clock(*closed));
    }
    svg.push_str("</svg>");
    Part { title: TITLE, words, html: svg, wide: true }
}

const TITLE: &str = "Participation";
/// More are too thin to be seen, and too much for a browser with many islands.
const ROUNDS_MAX: usize = 300;
/// Where the plane of a wide chart begins, and how wide it is.
const LEFT: f64 = 74.0;
const PLANE: f64 = 958.0;
const WIDEST: f64 = 24.0;
const ROW: f64 = 18.0;
const GAP: f64 = 2.0;
const FOOT: f64 = 18.0;
/// Clocks that have room below, and the widest columns that one takes.
const CLOCKS: usize = 16;
const CLOCK_COLUMNS: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::tests::with_page;
    use super::*;
    use crate::up::recording::Recording;
    use crate::up::recording::example::recording;

    #[test]
    fn a_cell_for_every_island_and_round() {
        let part = with_page(&recording(), part);
        assert_eq!(part.html.matches("<rect").count(), 3 * 12, "{}", part.html);
        assert_eq!(part.html.matches("class=\"none\"").count(), 0);
        let none = with_page(&Recording::new([1.0], 60.0), super::part);
        assert!(none.html.contains("No round closed"));
    }
}
