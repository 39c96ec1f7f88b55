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
        let bar = std::io::stderr().is_terminal().then(|| bar(learner, minutes, steps));
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
        let text = format!(
            "step {}  loss {smooth:.4}  held-out {:.4}  {speed:.0} tokens/s  rate {rate:.1e}",
            learner.steps(),
            self.held_out
        );
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.position(learner));
                bar.set_message(text);
            }
            None => eprintln!(
                "{:6.0} s  {text}{}",
                self.began.elapsed().as_secs_f64(),
                self.left(learner)
            ),
        }
    }

    /// The held-out loss was measured.
    pub(crate) fn evaluated(&mut self, loss: f64) {
        self.held_out = loss;
    }

    /// Nothing more will come.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish();
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
             {speed:.0} tokens/s{}\nsaved in {dir}\nnext: atoll sample --dir {dir}, atoll train \
             --resume --dir {dir}, atoll export --dir {dir} FOLDER",
            self.first_loss,
            learner.steps() - self.first_steps,
            passes.unwrap_or_default(),
            dir = dir.display(),
        );
    }

    fn tokens(&self, learner: &Learner) -> u64 {
        learner.tokens() - self.first_tokens
    }

    /// Tenths of a second, or steps, whichever the session is measured in.
    fn position(&self, learner: &Learner) -> u64 {
        match (self.minutes, self.steps) {
            (None, Some(_)) => learner.steps() - self.first_steps,
            _ => tenths(self.began.elapsed().as_secs_f64()),
        }
    }

    fn left(&self, learner: &Learner) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let done = (learner.steps() - self.first_steps).max(1);
        let by_time = self.minutes.map(|it| (it * 60.0 - elapsed).max(0.0));
        let by_steps =
            self.steps.map(|it| it.saturating_sub(learner.steps()) as f64 * elapsed / done as f64);
        match (by_time, by_steps) {
            (Some(a), Some(b)) => format!("  {:.0} s left", a.min(b)),
            (Some(left), None) | (None, Some(left)) => format!("  {left:.0} s left"),
            (None, None) => String::new(),
        }
    }
}

fn bar(learner: &Learner, minutes: Option<f64>, steps: Option<u64>) -> ProgressBar {
    let (bar, template) = match (minutes, steps) {
        (Some(minutes), _) => {
            (ProgressBar::new(tenths(minutes * 60.0)), "{bar:24} {eta:>4} left  {msg}")
        }
        (None, Some(steps)) => {
            let left = steps.saturating_sub(learner.steps());
            (ProgressBar::new(left), "{bar:24} {eta:>4} left  {msg}")
        }
        (None, None) => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a template of known fields"))
}

fn tenths(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds * 10.0).map_or(0, |it| it.as_secs())
}

/// Weight of a step's loss in the mean that is shown: about the last twenty count.
const SMOOTHING: f32 = 0.05;
const BAR_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);
