//! What people see of a running node.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Driver;

/// What is known of the island's training.
#[derive(Debug)]
pub struct Training {
    /// Whether the island goes on from a checkpoint.
    pub(super) resumed: bool,
    loss: Option<f32>,
    smoothed: Option<f32>,
    held_out: Option<f64>,
    tokens: u64,
    steps: u64,
    step_ms: u32,
    evaluate_every: Duration,
    evaluation_due: Instant,
    evaluating: bool,
    /// Wall time that the island was to step in, up to `since`.
    wall: Duration,
    since: Option<Instant>,
}

impl Training {
    pub(super) fn new(evaluate_every: Duration) -> Self {
        Self {
            resumed: false,
            loss: None,
            smoothed: None,
            held_out: None,
            tokens: 0,
            steps: 0,
            step_ms: 0,
            evaluate_every,
            evaluation_due: Instant::now(),
            evaluating: false,
            wall: Duration::ZERO,
            since: None,
        }
    }

    pub(super) fn stepped(&mut self, steps: u32, tokens: u64, step_ms: u32, loss: f32) {
        self.steps += u64::from(steps);
        self.tokens += u64::from(steps) * tokens;
        self.step_ms = step_ms;
        self.loss = Some(loss);
        let before = self.smoothed.unwrap_or(loss);
        self.smoothed = Some(before + (loss - before) * SMOOTHING);
    }

    pub(super) fn evaluated(&mut self, loss: f64, took: Duration) {
        self.held_out = Some(loss);
        self.evaluating = false;
        // Measuring stops the island, so it may take one part in two hundred at most.
        self.evaluation_due = Instant::now() + self.evaluate_every.max(took * 200);
    }

    pub(super) fn evaluation_is_due(&self) -> bool {
        !self.evaluating && self.steps > 0 && Instant::now() >= self.evaluation_due
    }

    pub(super) fn evaluating(&mut self) {
        self.evaluating = true;
    }

    pub(super) fn going(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn halted(&mut self) {
        self.wall += self.since.take().map(|since| since.elapsed()).unwrap_or_default();
    }

    fn wall(&self) -> Duration {
        self.wall + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Driver {
    /// Tokens that the swarm has merged, averaged over the fragments.
    pub(super) fn swarm_tokens(&self) -> u64 {
        let merged = self.fragments().zip(&self.parts).map(|(fragment, part)| {
            let base = self.engine.status(fragment).map_or(0, |status| status.base_weight);
            base + part.cut_tokens
        });
        merged.sum::<u64>() / self.parts.len().max(1) as u64
    }
}

/// How much of a new loss enters the smoothed one.
const SMOOTHING: f32 = 0.05;
