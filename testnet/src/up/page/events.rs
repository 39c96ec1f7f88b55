//! What happened, line by line.

use std::fmt::Write;

use super::escape;
use crate::up::happening::{self, Happening, Weight};
use crate::up::recording::Recording;
use crate::up::units;

/// All events that a browser can still scroll through; the usual ones are shown on demand.
pub(super) fn html(recording: &Recording) -> String {
    let all = &recording.happenings;
    let mut rows = String::new();
    for it in chosen(all, EVENTS_MAX) {
        let class = match it.weight {
            Weight::Usual => "usual",
            Weight::Notable => "notable",
            Weight::Inflicted => "inflicted",
            Weight::Wrong => "wrong",
        };
        let who = it.island.map_or_else(|| "swarm".into(), happening::island);
        let _ = write!(
            rows,
            "<tr class=\"{class}\"><td>{}</td><td>{who}</td><td>{}</td></tr>",
            units::clock(it.at),
            escape(&it.words)
        );
    }
    let left_out = match all.len().saturating_sub(EVENTS_MAX) {
        0 => String::new(),
        count => format!("<p>{count} older ones are left out; --csv has them all.</p>"),
    };
    format!(
        "<section><h2>Events</h2>{left_out}<input type=\"checkbox\" id=\"every\"><label \
         for=\"every\">every round and every measurement, too</label><div class=\"scroll\"><table \
         class=\"events\">{rows}</table></div></section>\n"
    )
}

/// At most so many, in order: usual ones go first, and then the oldest.
fn chosen(all: &[Happening], most: usize) -> Vec<&Happening> {
    let usual = |it: &&Happening| it.weight == Weight::Usual;
    let room = most.saturating_sub(all.iter().filter(|it| !usual(it)).count());
    let mut skipped = all.iter().filter(usual).count().saturating_sub(room);
    let mut chosen: Vec<&Happening> = Vec::new();
    for it in all {
        if it.weight == Weight::Usual && skipped > 0 {
            skipped -= 1;
        } else {
            chosen.push(it);
        }
    }
    chosen.split_off(chosen.len().saturating_sub(most))
}

/// A report that a browser still scrolls smoothly.
const EVENTS_MAX: usize = 5000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_events_are_left_out_first() {
        let happening = |at: u32, weight| Happening {
            at: f64::from(at),
            island: None,
            words: String::new(),
            weight,
        };
        let weights = [Weight::Wrong, Weight::Usual, Weight::Usual, Weight::Notable, Weight::Usual];
        let all: Vec<Happening> = (0..).zip(weights).map(|(at, it)| happening(at, it)).collect();
        let times = |most| chosen(&all, most).iter().map(|it| it.at).collect::<Vec<f64>>();
        assert_eq!(times(9), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(times(4), [0.0, 2.0, 3.0, 4.0]);
        assert_eq!(times(3), [0.0, 3.0, 4.0]);
        assert_eq!(times(1), [3.0]);
    }
}
