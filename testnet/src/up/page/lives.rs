//! Who was there when, below the losses and on the same axis.

use std::fmt::Write;

use super::{Page, escape, rgb};
use crate::up::chaos::Deed;
use crate::up::happening;
use crate::up::recording::{Presence, Recording, Seen};
use crate::up::units;

/// The bars of all islands and what was done to them; nothing for a swarm that was left alone.
pub(super) fn html(page: &Page<'_>) -> String {
    let recording = page.recording;
    let end = recording.frames.last().map_or(0.0, |it| it.at);
    if recording.inflicted.is_empty() || end <= 0.0 {
        return String::new();
    }
    let mut html = String::from("<div class=\"lives\">");
    for (index, seen) in recording.islands.iter().enumerate() {
        let track = island(seen, index, end);
        html.push_str(&row(&happening::island(index), &track, &cuts(recording, Some(index), end)));
    }
    html.push_str(&row("bootstrap", &bootstrap(recording, end), ""));
    let _ = write!(html, "<p class=\"key\">{KEY}</p></div>");
    html
}

fn row(name: &str, track: &str, cuts: &str) -> String {
    format!("<div class=\"life\"><b>{name}</b><div class=\"track\">{track}{cuts}</div></div>")
}

fn island(seen: &Seen, index: usize, end: f64) -> String {
    let until = seen.lives.iter().skip(1).map(|(at, _)| *at).chain([end]);
    let mut track = String::new();
    for ((from, presence), until) in seen.lives.iter().zip(until) {
        let (class, words) = match presence {
            Presence::Here => ("here", "there"),
            Presence::Frozen => ("frozen", "frozen"),
            Presence::Away => ("away", "killed or restarting"),
            Presence::Awaited | Presence::Left | Presence::Ended(_) => continue,
        };
        let colour = if class == "here" { rgb(index) } else { String::new() };
        track.push_str(&span(class, &colour, *from, until.min(end), end, words));
    }
    track
}

/// From when to when this island, or any, was cut off.
fn cuts(recording: &Recording, index: Option<usize>, end: f64) -> String {
    let mut cut = None;
    let mut html = String::new();
    for (at, deed) in &recording.inflicted {
        match deed {
            Deed::Partition(side) if index.is_none_or(|it| side.contains(&it)) => cut = Some(*at),
            Deed::Heal => {
                if let Some(from) = cut.take() {
                    html.push_str(&span("cut", "", from, *at, end, "cut off from the rest"));
                }
            }
            _ => {}
        }
    }
    if let Some(from) = cut {
        html.push_str(&span("cut", "", from, end, end, "cut off from the rest"));
    }
    html
}

fn bootstrap(recording: &Recording, end: f64) -> String {
    let (mut from, mut track) = (Some(0.0), String::new());
    for (at, deed) in &recording.inflicted {
        match deed {
            Deed::LoseBootstrap => {
                let since = from.take().unwrap_or(*at);
                track.push_str(&span("here", GREY, since, *at, end, "there"));
            }
            Deed::RestoreBootstrap => from = Some(*at),
            _ => {}
        }
    }
    if let Some(since) = from {
        track.push_str(&span("here", GREY, since, end, end, "there"));
    }
    track
}

fn span(class: &str, colour: &str, from: f64, until: f64, end: f64, words: &str) -> String {
    let (left, width) = (from / end * 100.0, (until - from).max(0.0) / end * 100.0);
    let colour = if colour.is_empty() { String::new() } else { format!(";background:{colour}") };
    let title = format!("{words} from {} to {}", units::clock(from), units::clock(until));
    format!(
        "<i class=\"{class}\" style=\"left:{left:.2}%;width:{width:.2}%{colour}\" title=\"{}\"></i>",
        escape(&title)
    )
}

const GREY: &str = "#adb5bd";
const KEY: &str = "<i class=\"here\"></i>there <i class=\"away\"></i>killed, comes back \
                   <i class=\"frozen\"></i>frozen <i class=\"cut\"></i>cut off from the rest";

#[cfg(test)]
mod tests {
    use super::super::tests::with_page;
    use super::*;
    use crate::up::recording::example::recording;

    #[test]
    fn bars_end_where_islands_go_and_begin_where_they_come() {
        let mut recording = recording();
        with_page(&recording, |page| assert_eq!(html(page), ""));
        recording.inflict(20.0, &Deed::Kill(1));
        recording.turns(20.0, 1, Presence::Away);
        recording.turns(30.0, 1, Presence::Here);
        recording.inflict(40.0, &Deed::Partition(vec![0]));
        recording.inflict(45.0, &Deed::LoseBootstrap);
        let html = with_page(&recording, html);
        assert_eq!(html.matches("class=\"life\"").count(), 4);
        assert!(html.contains("title=\"killed or restarting from 0:20 to 0:30\""), "{html}");
        assert!(html.contains("title=\"cut off from the rest from 0:40 to 0:59\""), "{html}");
        assert!(html.contains("title=\"there from 0:00 to 0:45\""), "{html}");
    }
}
