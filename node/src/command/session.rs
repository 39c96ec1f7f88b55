//! What a person sees while an island trains: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use atoll_node::island::Step;
use atoll_node::island::learner::Learner;
use indicatif::{ProgressBar, ProgressStyle};

/// A training session, as it is shown.
pub(crate) struct Session {
    bar: Option<ProgressBar>,
    minutes: Option<f64>,
    steps: Option<u64>,
    began: Instant,
    told: Instant,
    first_steps: u64,
    first_tokens: u64,
    first_loss: f64,
    held_out: f64,
    smooth: Option<f32>,
}

impl Session {
    pub(crate) fn new(
        learner: &Learner,
        minutes: Option<f64>,
        steps: Option<u64>,
        first_loss: f64,
    ) -> Self {
        let genesis = learner.genesis();
        eprintln!(
            "{} parameters, {} sequences of {} tokens in a batch, {} steps so far",
            learner.layout().elements(),
            genesis.data.batch,
            genesis.data.sequence,
            learner.steps()
        );
        let limited = minutes.is_some() || steps.is_some();
        let bar = std::io::stderr().is_terminal().then(|| bar(limited));
        let now = Instant::now();
        Self {
            bar,
            minutes,
            steps,
            began: now,
            told: now,
            first_steps: learner.steps(),
            first_tokens: learner.tokens(),
            first_loss,
            held_out: first_loss,
            smooth: None,
        }
    }

    /// A step was made.
    pub(crate) fn stepped(&mut self, learner: &Learner, step: &Step, rate: f32) {
        let smooth = self.smooth.map_or(step.loss, |old| old + SMOOTHING * (step.loss - old));
        self.smooth = Some(smooth);
        let interval = if self.bar.is_some() { BAR_EVERY } else { LINE_EVERY };
        if self.told.elapsed() < interval {
            return;
        }
        self.told = Instant::now();
        let speed = self.tokens(learner) as f64 / self.began.elapsed().as_secs_f64();
        let elapsed = duration(self.began.elapsed());
        let left = self.left(learner).map(|left| format!("{} left", duration(left)));
        let text = numbers(smooth, speed, self.held_out, learner.steps());
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{}  {text}", left.unwrap_or(elapsed)));
                bar.set_position(self.position(learner));
            }
            None => {
                let left = left.map(|left| format!("  {left}")).unwrap_or_default();
                eprintln!("{elapsed:>6}  {text}  rate {rate:.1e}{left}");
            }
        }
    }

    /// The held-out loss was measured.
    pub(crate) fn evaluated(&mut self, loss: f64) {
        self.held_out = loss;
    }

    /// Nothing more will come.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// What the session came to.
    pub(crate) fn summary(&self, learner: &Learner, loss: f64, dir: &Path, json: bool) {
        let seconds = self.began.elapsed().as_secs_f64();
        let tokens = self.tokens(learner);
        let speed = tokens as f64 / seconds;
        if json {
            let object = serde_json::json!({
                "loss_first": self.first_loss, "loss_last": loss, "steps": learner.steps(),
                "tokens": learner.tokens(), "seconds": seconds, "tokens_per_s": speed,
                "parameters": learner.layout().elements(), "dir": dir,
            });
            let _ = writeln!(std::io::stdout(), "{object}");
            return;
        }
        let passes = learner.passes().map(|it| format!(", {it:.1} passes through the text"));
        eprintln!(
            "held-out loss {:.4} -> {loss:.4} in {seconds:.0} s, {} steps, {tokens} tokens, \
             {speed:.0} tokens/s{}\nsaved in {dir}\n\
             next: atoll sample --dir {dir}\n      \
             atoll train --resume --dir {dir}\n      \
             atoll export --dir {dir} FOLDER",
            self.first_loss,
            learner.steps() - self.first_steps,
            passes.unwrap_or_default(),
            dir = dir.display(),
        );
    }

    fn tokens(&self, learner: &Learner) -> u64 {
        learner.tokens() - self.first_tokens
    }

    /// How much of the bar is full: the share of the limit that will be reached first.
    fn position(&self, learner: &Learner) -> u64 {
        let elapsed = self.began.elapsed();
        let Some(left) = self.left(learner) else { return 0 };
        let share = elapsed.as_secs_f64() / (elapsed + left).as_secs_f64().max(f64::EPSILON);
        Duration::try_from_secs_f64(share * BAR_LENGTH as f64).map_or(0, |it| it.as_secs())
    }

    /// The time until the first limit is reached; none without limits.
    fn left(&self, learner: &Learner) -> Option<Duration> {
        let elapsed = self.began.elapsed().as_secs_f64();
        let done = (learner.steps() - self.first_steps).max(1);
        let by_time = self.minutes.map(|it| (it * 60.0 - elapsed).max(0.0));
        let by_steps =
            self.steps.map(|it| it.saturating_sub(learner.steps()) as f64 * elapsed / done as f64);
        let left = by_time.into_iter().chain(by_steps).reduce(f64::min)?;
        Some(Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX / 2))
    }
}

/// A message that is too long for the terminal is cut, so a bar is never more than one line.
fn bar(limited: bool) -> ProgressBar {
    let (bar, template) = if limited {
        (ProgressBar::new(BAR_LENGTH), "{bar:8} {wide_msg}")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {wide_msg}")
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a template of known fields"))
}

/// What is worth knowing about a step, the most important first.
fn numbers(loss: f32, speed: f64, held_out: f64, steps: u64) -> String {
    format!("loss {loss:.3}  {speed:.0} tokens/s  held-out {held_out:.3}  step {steps}")
}

/// Two numbers at most: `42s`, `3m07s`, `2h05m`, `3d04h`.
fn duration(it: Duration) -> String {
    let seconds = it.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, ..) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Weight of a step's loss in the mean that is shown: about the last twenty count.
const SMOOTHING: f32 = 0.05;
const BAR_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Parts into which a bar is divided.
const BAR_LENGTH: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fits_eighty_columns() {
        let left = duration(Duration::from_secs(86_399));
        let text = format!("{left} left  {}", numbers(12.345, 999_999.0, 12.345, 999_999));
        assert!("######## ".len() + text.len() <= 80, "{text}");
    }

    #[test]
    fn durations_are_short() {
        let cases = [(0, "0s"), (59, "59s"), (187, "3m07s"), (7_500, "2h05m"), (273_600, "3d04h")];
        for (seconds, text) in cases {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
