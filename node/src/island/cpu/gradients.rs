//! The gradient of a step in the making, in parts that are filled apart.

use std::sync::Arc;

use super::threads::Threads;

/// The summed gradient of all tokens since the last step.
///
/// A part is always filled from the same sequences, whichever thread takes it, so that bits do not
/// depend on timing. Several threads have two parts each, as long as those are small: beside a busy
/// neighbour the thread that has a core to itself takes three of four.
#[derive(Debug)]
pub struct Gradients {
    parts: Vec<Vec<f32>>,
    threads: Arc<Threads>,
    tokens: usize,
    finite: bool,
}

impl Gradients {
    pub(super) fn new(elements: usize, threads: Arc<Threads>) -> Self {
        let each = if threads.count() > 1 && elements <= SPLIT_ELEMENTS_MAX { 2 } else { 1 };
        let parts = (0..threads.count() * each).map(|_| vec![0.0; elements]).collect();
        Self { parts, threads, tokens: 0, finite: true }
    }

    /// Number of parameters.
    pub fn elements(&self) -> usize {
        self.parts.first().map_or(0, Vec::len)
    }

    /// Tokens learned from since the last step.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The mean gradient per token, gathered: for comparisons, not for training.
    pub fn mean(&self) -> Vec<f32> {
        let scale = 1.0 / self.tokens.max(1) as f32;
        let mut mean = vec![0.0; self.elements()];
        for part in &self.parts {
            mean.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        mean.iter_mut().for_each(|value| *value *= scale);
        mean
    }

    /// Forgets everything since the last step.
    pub fn clear(&mut self) {
        for part in &mut self.parts {
            part.fill(0.0);
        }
        self.begin();
    }

    /// Counts tokens whose gradient was added, and whether their loss was a number.
    pub(super) fn learned(&mut self, tokens: usize, finite: bool) {
        self.tokens += tokens;
        self.finite &= finite;
    }

    /// Counts from zero, after the optimiser has cleared the parts.
    pub(super) fn begin(&mut self) {
        self.tokens = 0;
        self.finite = true;
    }

    /// Whether every loss so far was a number.
    pub(super) fn finite(&self) -> bool {
        self.finite
    }

    pub(super) fn parts(&mut self) -> (&Threads, &mut [Vec<f32>]) {
        (&self.threads, &mut self.parts)
    }
}

/// Parameters up to which a thread's part of the gradient is split: beyond that, adding the parts
/// up and the memory for them cost more than an idle thread.
const SPLIT_ELEMENTS_MAX: usize = 1 << 24;
