//! The report: one HTML file that needs nothing else.

mod chart;
mod charts;
mod events;
mod grid;
mod lives;
mod settings;
mod tables;

use std::fmt::Write;

use atoll_protocol::genesis::Genesis;

use super::chaos::Plan;
use super::happening;
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

/// Red, green and blue.
type Rgb = (u8, u8, u8);

impl Page<'_> {
    /// The HTML.
    pub(super) fn render(&self) -> String {
        let mut html = String::new();
        let title = format!("Atoll: {} islands, {}", self.options.islands, self.options.model);
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style></head><body><main>\n",
        );
        html.push_str(&self.head());
        html.push_str(&self.cards());
        for part in charts::all(self) {
            let class = if part.wide { "chart wide" } else { "chart" };
            let _ = writeln!(
                html,
                "<section class=\"{class}\"><h2>{}</h2><p>{}</p>{}</section>",
                part.title, part.words, part.html
            );
        }
        html.push_str(&tables::all(self));
        html.push_str(&self.sample());
        html.push_str(&events::html(self.recording));
        html.push_str(&settings::html(self));
        html.push_str("</main></body></html>\n");
        html
    }

    fn head(&self) -> String {
        let (class, sign) =
            if self.outcome.digests_agree { ("good", "✔") } else { ("bad", "✘") };
        let verdict = escape(&self.outcome.verdict());
        let about = [
            format!(
                "{} with {} parameters",
                self.options.model,
                settings::parameters(self.genesis)
            ),
            format!("{} of training", units::clock(self.outcome.seconds)),
            settings::text(self.options),
            settings::date(),
        ];
        let mut head = format!(
            "<header><p class=\"brand\">atoll</p><h1>A swarm of {} islands</h1><p>{}</p><p \
             class=\"verdict {class}\"><b>{sign}</b> {verdict}</p>",
            self.options.islands,
            escape(&about.join(" · "))
        );
        if let Some(words) = &self.outcome.links {
            let _ = write!(head, "<p>{}</p>", escape(words));
        }
        if !self.plan.is_calm() {
            let words = escape(&self.outcome.chaos(self.recording));
            let _ = write!(head, "<p>Done to it ({}): {words}</p>", escape(&self.plan.name));
        }
        for (warning, islands) in &self.recording.warnings {
            let names: Vec<String> = islands.iter().map(|it| happening::island(*it)).collect();
            let words = format!("{}: {}; {}", names.join(", "), warning.message, warning.hint);
            let _ = write!(head, "<p class=\"note\">⚠ {}</p>", escape(&words));
        }
        for note in &self.outcome.notes {
            let _ = write!(head, "<p class=\"note\">⚠ {}</p>", escape(note));
        }
        head.push_str("</header>\n");
        head
    }

    fn cards(&self) -> String {
        let (recording, outcome) = (self.recording, self.outcome);
        let first = units::loss(outcome.loss_first);
        let alone = outcome.alone.map_or_else(|| "-".into(), |it| format!("{:.3}", it.loss));
        let share = format!("{:.1} %", recording.training_share() * 100.0);
        let waits = match recording.spared_share().filter(|_| !recording.inflicted.is_empty()) {
            Some(least) => format!("at least {:.1} % where nothing was done", least * 100.0),
            None => "nobody waits for anybody".to_owned(),
        };
        let per_token = recording.bytes_up() as f64 / recording.tokens().max(1) as f64;
        let received = units::bytes(recording.bytes_down());
        let fates = if recording.fates_add_up() { "every fate known" } else { "fates missing!" };
        let speed = units::rate(outcome.tokens_per_s());
        let mut cards = vec![
            (
                units::loss(outcome.loss_last),
                "held-out loss",
                format!("from {first}; {}", outcome.loss_of.words()),
            ),
            (alone, "one island alone", "as many steps, a machine of its own".to_owned()),
            (speed, "tokens per second", format!("{} in all", units::count(recording.tokens()))),
            (share, "of the time trained", waits),
            (
                units::bytes(recording.bytes_up()),
                "sent by all islands",
                format!("{per_token:.1} bytes per token; {received} received"),
            ),
            (
                units::percent(recording.fates().merged, recording.fates().trained),
                "of the tokens merged",
                fates.to_owned(),
            ),
        ];
        if let Some(words) = outcome.liars(recording) {
            let found = format!("{} of {}", recording.liars_found_out(), recording.liars.len());
            cards.push((found, "liars found out", words));
        }
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
                "<section><h2>What the model writes</h2><p>At temperature 0.5, with the parameters \
                 whose loss is above.</p><pre>{}</pre></section>\n",
                escape(text)
            ),
        }
    }
}

/// The colour of island `index`.
fn rgb(index: usize) -> String {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    format!("rgb({red},{green},{blue})")
}

/// What a line or a row is known by: a line, dashes, a dot or a ring.
fn swatch(kind: &str, (red, green, blue): Rgb) -> String {
    format!("<i class=\"{kind}\" style=\"color:rgb({red},{green},{blue})\"></i>")
}

/// Text as HTML has it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Colours of islands, the same in every chart and table.
const COLOURS: [Rgb; 8] = [
    (34, 139, 230),
    (247, 140, 30),
    (55, 178, 77),
    (151, 117, 250),
    (21, 170, 191),
    (230, 73, 128),
    (160, 160, 20),
    (160, 110, 85),
];
const BAD: Rgb = (224, 49, 49);
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
            "Bytes",
            "Training",
            "parameters",
            "loopback",
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
