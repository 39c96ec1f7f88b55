//! The summary for people.

use std::io::{self, Write};

use crossterm::style::{StyledContent, Stylize, style};

use super::Outcome;
use crate::up::recording::{Agreement, Recording, mean};
use crate::up::units;

impl Outcome {
    /// Prints what the swarm came to, in colour if somebody sees it.
    pub(in crate::up) fn print(
        &self,
        recording: &Recording,
        colour: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let paint = Paint(colour);
        let mut page = Page { paint, out };
        page.verdict(self.digests_agree, &self.verdict())?;
        page.fragments(&self.agreement)?;
        page.losses(self, recording)?;
        page.row("trained", &trained(self, recording))?;
        page.row("bytes", &bytes(recording))?;
        page.row("fates", &fates(recording))?;
        if let Some(words) = &self.links {
            page.row("links", words)?;
        }
        if !recording.inflicted.is_empty() {
            page.row("chaos", &self.chaos(recording))?;
        }
        if let Some(words) = self.liars(recording) {
            page.row("liars", &words)?;
        }
        for (warning, islands) in &recording.warnings {
            let count = islands.len();
            page.row(
                "warning",
                &format!("{} ({count} islands): {}", warning.message, warning.hint),
            )?;
        }
        for note in &self.notes {
            page.row("note", note)?;
        }
        page.sample(self.sample.as_deref())?;
        page.row("report", &self.report.display().to_string())?;
        if let Some(folder) = &self.folder {
            page.row("folder", &folder.display().to_string())?;
        }
        Ok(())
    }
}

/// Colours, or none.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, words: &str, paint: fn(StyledContent<&str>) -> StyledContent<&str>) -> String {
        if self.0 { paint(style(words)).to_string() } else { words.to_owned() }
    }

    fn soft(self, words: &str) -> String {
        self.with(words, |it| it.dark_grey())
    }

    /// Columns that there are.
    fn width(self) -> usize {
        let size = crossterm::terminal::size().ok().filter(|_| self.0);
        size.map_or(usize::MAX, |(columns, _)| usize::from(columns).max(WIDTH_MIN))
    }

    fn bold(self, words: &str) -> String {
        self.with(words, |it| it.bold())
    }
}

struct Page<'a> {
    paint: Paint,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    /// A name and words, which go on below where the terminal ends.
    fn row(&mut self, name: &str, words: &str) -> io::Result<()> {
        let name = self.paint.soft(&format!("{name:<12}"));
        let width = self.paint.width().saturating_sub(MARGIN);
        let mut lines: Vec<String> = vec![String::new()];
        for word in words.split(' ') {
            let line = lines.last_mut().expect("there is one from the beginning");
            let used = visible(line);
            if used > 0 && used + 1 + visible(word) > width {
                lines.push(word.to_owned());
            } else {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
        }
        writeln!(self.out, "  {name}{}", lines.join(&format!("\n{:MARGIN$}", "")))
    }

    fn verdict(&mut self, good: bool, words: &str) -> io::Result<()> {
        let line = match good {
            true => self.paint.with(&format!("✔ {words}"), |it| it.green().bold()),
            false => self.paint.with(&format!("✘ {words}"), |it| it.red().bold()),
        };
        writeln!(self.out, "\n{line}\n")
    }

    fn fragments(&mut self, all: &[Agreement]) -> io::Result<()> {
        let one = |(number, it): (usize, &Agreement)| {
            let digest = it.digest.get(..DIGEST).unwrap_or(&it.digest);
            let count = match it.count == it.of {
                true => String::new(),
                false => format!(" ({} of {})", it.count, it.of),
            };
            format!("f{number} v{} {digest}{count}", it.version)
        };
        let words: Vec<String> = all.iter().enumerate().map(one).collect();
        for (index, line) in words.chunks(FRAGMENTS).enumerate() {
            self.row(if index == 0 { "digests" } else { "" }, &line.join("   "))?;
        }
        Ok(())
    }

    fn losses(&mut self, outcome: &Outcome, recording: &Recording) -> io::Result<()> {
        let (first, last) = (units::loss(outcome.loss_first), units::loss(outcome.loss_last));
        let curve = curve(recording);
        let curve = self.paint.with(&curve, |it| it.cyan());
        let last = self.paint.bold(&last);
        let about = self.paint.soft(&format!("held out, {}", outcome.loss_of.words()));
        self.row("loss", &format!("{first} {curve} {last}  {about}"))?;
        let Some(alone) = &outcome.alone else { return Ok(()) };
        let versus = match outcome.loss_last.map(|loss| alone.loss - loss) {
            Some(better @ 0.0005..) => format!("the swarm is {better:.3} better"),
            Some(worse @ ..-0.0005) => format!("the swarm is {:.3} worse", -worse),
            _ => "the swarm is as good".to_owned(),
        };
        let steps = alone.steps;
        let about = format!(
            "alone, as many steps as the fastest ({steps}), a machine of its own: {versus}"
        );
        let loss = self.paint.bold(&format!("{:.3}", alone.loss));
        let about = self.paint.soft(&about);
        self.row("one island", &format!("{loss}  {about}"))
    }

    fn sample(&mut self, sample: Option<&str>) -> io::Result<()> {
        let Some(sample) = sample else { return Ok(()) };
        writeln!(self.out, "\n  {}", self.paint.soft("the swarm's model writes"))?;
        let lines = sample.lines().map(printable).filter(|line| !line.trim().is_empty());
        for line in lines.take(SAMPLE_LINES) {
            writeln!(self.out, "    {}", self.paint.with(&line, |it| it.italic()))?;
        }
        writeln!(self.out)
    }
}

fn trained(outcome: &Outcome, recording: &Recording) -> String {
    format!(
        "{} tokens in {}, {} tokens/s; {:.1} % of the time went into training",
        units::count(outcome.tokens_in_training),
        units::clock(outcome.seconds),
        units::rate(outcome.tokens_per_s()),
        recording.training_share() * 100.0
    )
}

fn bytes(recording: &Recording) -> String {
    let (up, down) = (recording.bytes_up(), recording.bytes_down());
    let each = up as f64 / recording.tokens().max(1) as f64;
    let (up, down) = (units::bytes(up), units::bytes(down));
    format!("{up} sent, {down} received; {each:.1} sent for each token")
}

/// Where tokens are, averaged over the fragments.
fn fates(recording: &Recording) -> String {
    let (fates, fragments) = (recording.fates(), recording.fragments().max(1) as u64);
    let parts: Vec<String> = fates
        .named()
        .iter()
        .map(|(name, tokens)| format!("{} {name}", units::count(tokens / fragments)))
        .collect();
    let verdict = if recording.fates_add_up() { "adds up" } else { "does NOT add up" };
    let lost = match recording.lost_tokens() {
        lost if lost > 0 && !recording.inflicted.is_empty() => {
            format!("; {} more went with killed processes", units::count(lost))
        }
        _ => String::new(),
    };
    format!(
        "{} trained = {} ({verdict}{lost})",
        units::count(fates.trained / fragments),
        parts.join(" + ")
    )
}

/// The swarm's loss on held-out text over time, from left to right.
fn curve(recording: &Recording) -> String {
    let losses: Vec<f64> = recording.frames.iter().filter_map(|it| it.held_out).collect();
    let (low, high) =
        losses.iter().fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    let part = losses.len().div_ceil(CURVE_WIDTH).max(1);
    let bar = |losses: &[f64]| {
        let share =
            (mean(losses.iter().copied()).unwrap_or(low) - low) / (high - low).max(f64::EPSILON);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is between 0 and 1"
        )]
        let level = (share * (BARS.len() - 1) as f64).round() as usize;
        BARS[level.min(BARS.len() - 1)]
    };
    losses.chunks(part).map(bar).collect()
}

/// Columns that a word takes: colours take none.
fn visible(word: &str) -> usize {
    let mut hidden = false;
    let shown = word.chars().filter(|it| {
        let counts = !hidden && *it != '\u{1b}';
        hidden = (hidden || *it == '\u{1b}') && *it != 'm';
        counts
    });
    shown.count()
}

/// Text that does nothing to a terminal.
fn printable(line: &str) -> String {
    line.chars().map(|it| if it.is_control() || it == '\u{fffd}' { '·' } else { it }).collect()
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const CURVE_WIDTH: usize = 32;
/// What is left of a row's words.
const MARGIN: usize = 14;
/// Narrower terminals break lines as they like.
const WIDTH_MIN: usize = 60;
/// Digits of a digest that people compare.
const DIGEST: usize = 12;
/// Fragments in a line.
const FRAGMENTS: usize = 4;
/// What fits on a screen below the rest.
const SAMPLE_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use crate::up::recording::example::recording;

    fn printed(outcome: &Outcome, colour: bool) -> String {
        let mut out = Vec::new();
        outcome.print(&recording(), colour, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_read_how_it_ended() {
        let text = printed(&example::outcome(), false);
        for words in [
            "✔ 3 of 3 islands have the same bits of all 2 fragments, 2.5 s after training ended",
            "digests     f0 v12 0c0c0c0c0c0c   f1 v13 0d0d0d0d0d0d",
            "loss        5.500 █",
            "held out, of the model that all agreed on",
            "one island  2.250  alone, as many steps as the fastest (238), a machine of its own: the \
             swarm is 0.500 better",
            "trained     600 k tokens in 1:00, 10.0 k tokens/s",
            "3.00 k trained = 2.10 k merged + 600 pending + 300 fresh + 0 re-issued + 0 orphaned (adds up)",
            "report      atoll-report.html",
        ] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "no colours where nobody sees them");
        assert!(printed(&example::outcome(), true).contains("\u{1b}["));
    }

    #[test]
    fn colours_take_no_room() {
        assert_eq!(visible("\u{1b}[1mab\u{1b}[0mc"), 3);
        assert_eq!(visible("m→m"), 3);
    }

    #[test]
    fn a_sample_does_nothing_to_a_terminal() {
        let sample = Some("a\u{1b}[2Jb\u{7}\n\n\u{fffd}c".to_owned());
        let text = printed(&Outcome { sample, ..example::outcome() }, false);
        assert!(text.contains("    a·[2Jb·\n    ·c\n"), "{text}");
    }
}
