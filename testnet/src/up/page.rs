//! The report: one HTML file that needs nothing else.

mod chart;
mod charts;
mod lives;
mod tables;

use std::fmt::Write;

use atoll_protocol::genesis::Genesis;

use super::chaos::Plan;
use super::happening::{self, Weight};
use super::options::Options;
use super::outcome::Outcome;
use super::recording::Recording;
use super::units;

/// All that a report is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub(super) options: &'a Options,
    pub(super) plan: &'a Plan,
    pub(super) genesis: &'a Genesis,
    pub(super) recording: &'a Recording,
    pub(super) outcome: &'a Outcome,
}

impl Page<'_> {
    /// The HTML.
    pub(super) fn render(&self) -> String {
        let mut html = String::new();
        let title = format!(
            "Atoll: {} islands, {}, {}",
            self.options.islands,
            self.options.model,
            units::clock(self.outcome.seconds)
        );
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style></head><body><main>\n",
        );
        html.push_str(&self.head());
        html.push_str(&self.cards());
        for (number, (title, words, mut svg)) in charts::all(self).into_iter().enumerate() {
            if number == 0 {
                svg.push_str(&lives::html(self));
            }
            let _ = writeln!(
                html,
                "<section class=\"chart\"><h2>{title}</h2><p>{words}</p>{svg}</section>"
            );
        }
        html.push_str(&tables::all(self));
        html.push_str(&self.sample());
        html.push_str(&self.events());
        html.push_str(&self.settings());
        html.push_str("</main></body></html>\n");
        html
    }

    fn head(&self) -> String {
        let class = if self.outcome.digests_agree { "good" } else { "bad" };
        let verdict = escape(&self.outcome.verdict());
        let mut head = format!(
            "<header><h1>A swarm of {} islands</h1><p class=\"verdict {class}\">{verdict}</p>",
            self.options.islands
        );
        if let Some(words) = &self.outcome.links {
            let _ = write!(head, "<p>{}</p>", escape(words));
        }
        if !self.plan.is_calm() {
            let _ = write!(head, "<p>{}</p>", escape(&self.outcome.chaos(self.recording)));
        }
        for note in &self.outcome.notes {
            let _ = write!(head, "<p class=\"note\">{}</p>", escape(note));
        }
        head.push_str("</header>\n");
        head
    }

    fn cards(&self) -> String {
        let (recording, outcome) = (self.recording, self.outcome);
        let loss = units::loss(outcome.loss_last);
        let first = units::loss(outcome.loss_first);
        let alone = outcome.alone.map_or_else(|| "-".into(), |it| format!("{:.3}", it.loss));
        let tokens = units::count(recording.tokens());
        let speed = units::rate(outcome.tokens_per_s());
        let share = format!("{:.1} %", recording.training_share() * 100.0);
        let waits = match recording.spared_share().filter(|_| !recording.inflicted.is_empty()) {
            Some(least) => format!("at least {:.1} % where nothing was done", least * 100.0),
            None => "nobody waits for anybody".to_owned(),
        };
        let sent = units::bytes(recording.bytes_up());
        let per_token = recording.bytes_up() as f64 / recording.tokens().max(1) as f64;
        let fates =
            if recording.fates_add_up() { "every fate adds up" } else { "fates do not add up" };
        let cards = [
            (loss, "held-out loss".to_owned(), format!("from {first}")),
            (alone, "one island alone".to_owned(), "same steps, own machine".to_owned()),
            (tokens, "tokens trained".to_owned(), format!("{speed} each second; {fates}")),
            (share, "of the time trained".to_owned(), waits),
            (sent, "sent by all islands".to_owned(), format!("{per_token:.1} bytes per token")),
        ];
        let mut html = String::from("<div class=\"cards\">");
        for (value, name, more) in cards {
            let _ = write!(
                html,
                "<div class=\"card\"><b>{value}</b><span>{name}</span><small>{more}</small></div>"
            );
        }
        html.push_str("</div>\n");
        html
    }

    fn sample(&self) -> String {
        match &self.outcome.sample {
            None => String::new(),
            Some(text) => format!(
                "<section><h2>What the model writes</h2><p>The parameters that all islands agreed \
                 on, at temperature 0.5.</p><pre>{}</pre></section>\n",
                escape(text)
            ),
        }
    }

    fn events(&self) -> String {
        let mut rows = String::new();
        let all = &self.recording.happenings;
        for it in all.iter().skip(all.len().saturating_sub(EVENTS_MAX)) {
            let class = match it.weight {
                Weight::Usual => "",
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
        format!(
            "<section><h2>Events</h2><div class=\"scroll\"><table class=\"events\">{rows}</table>\
             </div></section>\n"
        )
    }

    fn settings(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let program = self.recording.statuses().next().map_or("", |it| it.program.as_str());
        // The tensors follow from the model and are long.
        let toml = self.genesis.to_toml();
        let short = toml.split("\n[[tensor]]").next().unwrap_or_default();
        let plan = match self.plan.is_calm() {
            true => String::new(),
            false => format!(
                "<details><summary>What was done to the swarm: {}</summary><pre>{}</pre></details>",
                escape(&self.plan.name),
                escape(&self.plan.text)
            ),
        };
        format!(
            "<section><h2>Again</h2><pre>{}</pre><p>Real processes on one machine ({cores} cores, \
             {} {}), atoll {}: times and the order of contributions differ from run to run, the \
             agreement does not.</p>{plan}<details><summary>Genesis</summary><pre>{}</pre></details>\
             </section>\n",
            escape(&self.options.command()),
            std::env::consts::OS,
            std::env::consts::ARCH,
            escape(program),
            escape(short),
        )
    }
}

/// The colour of island `index`.
fn rgb(index: usize) -> String {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    format!("rgb({red},{green},{blue})")
}

/// Text as HTML has it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Colours of islands, the same in every chart and table.
const COLOURS: [(u8, u8, u8); 8] = [
    (31, 119, 180),
    (255, 127, 14),
    (44, 160, 44),
    (148, 103, 189),
    (23, 190, 207),
    (227, 119, 194),
    (188, 189, 34),
    (140, 86, 75),
];
/// A report that a browser still scrolls smoothly.
const EVENTS_MAX: usize = 5000;
const STYLE: &str = include_str!("page/style.css");

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::super::outcome::example::outcome;
    use super::super::recording::example::recording;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    pub(super) fn with_page<T>(recording: &Recording, look: impl FnOnce(&Page<'_>) -> T) -> T {
        let line = ["up", "--islands", "3", "--chaos", "storm"];
        let options = Line::try_parse_from(line).unwrap().options;
        let (genesis, plan) =
            (super::super::genesis::swarm(&options, 1_000_000), options.plan().unwrap());
        let outcome = outcome();
        let (options, plan, genesis, outcome) = (&options, &plan, &genesis, &outcome);
        look(&Page { options, plan, genesis, recording, outcome })
    }

    fn rendered(recording: &Recording) -> String {
        with_page(recording, |page| page.render())
    }

    #[test]
    fn a_report_has_all_parts_and_needs_no_network() {
        let html = rendered(&recording());
        for part in [
            "Loss over time",
            "Loss over tokens",
            "Loss over bytes",
            "Versions",
            "Agreement",
            "Participation",
            "Islands",
            "Fragments",
            "Token fates",
            "Receipts",
            "Events",
            "cargo testnet up --islands 3",
            "heartbeat_ms",
            "--chaos storm",
            "lose-bootstrap",
            "The &lt;reef&gt; &amp; the sea",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(html.matches("<svg").count() >= 7, "{}", html.matches("<svg").count());
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        // Names of XML namespaces are never fetched.
        let links = html.replace("http://www.w3.org/", "");
        for outside in ["http://", "https://", "<script src", "<link", "@import", "url("] {
            assert!(!links.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_swarm_of_which_nothing_was_seen_has_a_report() {
        let html = rendered(&Recording::new([1.0; 3], 60.0));
        assert!(html.contains("</html>"));
    }
}
