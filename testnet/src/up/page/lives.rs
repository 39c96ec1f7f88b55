//! Who was there when, below the losses and on the same axis.

use std::fmt::Write;

use super::{Page, escape, rgb};
use crate::up::chaos::Deed;
use crate::up::happening;
use crate::up::recording::{Mark, Presence, Recording, Seen};
use crate::up::units;

/// The bars of all islands and what was done to them; nothing for a swarm that was left alone.
pub(super) fn html(page: &Page<'_>) -> String {
    let recording = page.recording;
    let end = recording.end();
    if recording.inflicted.is_empty() || end <= 0.0 {
        return String::new();
    }
    let mut html = String::from("<div class=\"lives\">");
    for (index, seen) in recording.islands.iter().enumerate() {
        let mut track = island(seen, index, end);
        let cut = |deed: &Deed| matches!(deed, Deed::Partition(side) if side.contains(&index));
        track.push_str(&spans(recording, CUT, cut, |it| *it == Deed::Heal));
        let thin = |deed: &Deed| matches!(deed, Deed::Throttle(it, _) if *it == index);
        track.push_str(&spans(recording, THIN, thin, |it| *it == Deed::Unthrottle(index)));
        track.push_str(&marks(recording, index, end));
        html.push_str(&row(&happening::island(index), &track));
    }
    for (number, liar) in (1..).zip(&recording.liars) {
        let until = recording.trained.unwrap_or(end);
        let mut track = span("liar", "", liar.at, until, end, "there");
        if let Some(at) = liar.found_out.values().copied().min_by(f64::total_cmp) {
            track.push_str(&mark("equivocated", "✖", at, end, "found out"));
        }
        html.push_str(&row(&format!("liar {number}"), &track));
    }
    html.push_str(&row("bootstrap", &bootstrap(recording, end)));
    let _ = write!(html, "<p class=\"key\">{KEY}</p></div>");
    html
}

fn row(name: &str, track: &str) -> String {
    format!("<div class=\"life\"><b>{name}</b><div class=\"track\">{track}</div></div>")
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

/// From when to when something was so: since a deed of one kind until one of another.
fn spans(
    recording: &Recording,
    (class, words): (&str, &str),
    begins: impl Fn(&Deed) -> bool,
    ends: impl Fn(&Deed) -> bool,
) -> String {
    let (mut since, mut html, end) = (None, String::new(), recording.end());
    for (at, deed) in &recording.inflicted {
        if begins(deed) {
            since = since.or(Some(*at));
        } else if ends(deed)
            && let Some(from) = since.take()
        {
            html.push_str(&span(class, "", from, *at, end, words));
        }
    }
    html.push_str(&since.map(|from| span(class, "", from, end, end, words)).unwrap_or_default());
    html
}

/// What an island noticed.
fn marks(recording: &Recording, index: usize, end: f64) -> String {
    let mut html = String::new();
    let (mut before, mut last) = (None, f64::MIN);
    for (at, _, kind) in recording.marks.iter().filter(|it| it.1 == index) {
        // Fragments come one right after the other.
        if before == Some(*kind) && at - last < MOMENT {
            continue;
        }
        (before, last) = (Some(*kind), *at);
        let (class, sign, words) = match kind {
            Mark::Equivocated => ("equivocated", "✖", "found out who signed twice"),
            Mark::Diverged => ("diverged", "◆", "met another history"),
            Mark::Installed => ("installed", "▼", "took an outer state from peers"),
        };
        html.push_str(&mark(class, sign, *at, end, words));
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

fn mark(class: &str, sign: &str, at: f64, end: f64, words: &str) -> String {
    let (left, title) = (at / end * 100.0, format!("{words} at {}", units::clock(at)));
    format!("<s class=\"{class}\" style=\"left:{left:.2}%\" title=\"{title}\">{sign}</s>")
}

const CUT: (&str, &str) = ("cut", "cut off from the rest");
const THIN: (&str, &str) = ("thin", "its link was thin");
const GREY: &str = "#adb5bd";
/// Seconds.
const MOMENT: f64 = 3.0;
const KEY: &str = "<span><i class=\"here\"></i>there</span><span><i class=\"away\"></i>killed, comes \
                   back</span><span><i class=\"frozen\"></i>frozen</span><span><i class=\"cut\"></i>\
                   cut off</span><span><i class=\"thin\"></i>thin link</span><span><i \
                   class=\"liar\"></i>liar</span><span><s class=\"installed\">▼</s>took an outer \
                   state from peers</span><span><s class=\"equivocated\">✖</s>found a liar out\
                   </span><span><s class=\"diverged\">◆</s>met another history</span>";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::with_page;
    use super::*;
    use crate::up::recording::SeenLiar;
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

    #[test]
    fn liars_and_thin_links_are_shown() {
        let mut recording = recording();
        recording.inflict(10.0, &Deed::Throttle(1, 1e6));
        recording.inflict(15.0, &Deed::Unthrottle(1));
        let node = Some("ff".repeat(32));
        recording.liars.push(SeenLiar { node: node.clone(), ..SeenLiar::new(12.0) });
        recording.trained = Some(50.0);
        recording.event(20.0, 2, &json!({ "event": "equivocated", "node": node }));
        let html = with_page(&recording, html);
        assert_eq!(html.matches("class=\"life\"").count(), 5);
        for words in [
            "title=\"its link was thin from 0:10 to 0:15\"",
            "title=\"there from 0:12 to 0:50\"",
            "title=\"found out at 0:20\"",
            "title=\"found out who signed twice at 0:20\"",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }
}
