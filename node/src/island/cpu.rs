//! Training on a plain CPU: our own forward and backward pass over the flat parameters.
//!
//! Threads share nothing but the parameters: each takes a part of the sequences through the whole
//! model, with products that stay in one thread, and adds to that part's own gradient. Results
//! depend on the machine and on the number of threads, never on timing.

mod backward;
pub mod decoder;
pub mod error;
mod forward;
pub mod gradients;
mod model;
pub mod optimiser;
mod threads;
mod workspace;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_kernels::multiplier::Precision;

use self::error::CpuError;
use self::gradients::Gradients;
use self::model::Model;
use self::threads::Threads;
use self::workspace::Workspace;
use super::Pause;
use super::layout::Layout;
use super::shape::Shape;

/// A Llama-architecture decoder that learns from sequences of one length.
///
/// All memory is taken at the start. It does not hold the parameters: those are lent to it.
#[derive(Debug)]
pub struct Llama {
    model: Model,
    workspaces: Vec<Workspace>,
    /// What each part of the gradient has seen of the sequences that are in work.
    seen: Vec<Seen>,
    gradients: Gradients,
}

impl Llama {
    /// A decoder of this shape for sequences of `sequence` tokens, on so many threads.
    pub fn new(
        shape: Shape,
        layout: &Layout,
        sequence: usize,
        threads: usize,
    ) -> Result<Self, CpuError> {
        let model = Model::new(shape, layout, sequence)?;
        let threads = Arc::new(Threads::new(threads)?);
        let workspace = |_| Workspace::new(&model, Precision::F32);
        let workspaces = (0..threads.count()).map(workspace).collect();
        let mut gradients = Gradients::new(layout.elements(), threads);
        let seen = vec![Seen::default(); gradients.parts().1.len()];
        Ok(Self { model, workspaces, seen, gradients })
    }

    /// The same, with products of another precision than f32.
    #[must_use]
    pub fn in_precision(mut self, precision: Precision) -> Self {
        for workspace in &mut self.workspaces {
            *workspace = Workspace::new(&self.model, precision);
        }
        self
    }

    /// Tokens from which one sequence learns; it is one token longer, the last to be foretold.
    pub fn sequence(&self) -> usize {
        self.model.sequence
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.workspaces.len()
    }

    /// Adds the gradient of these sequences to [`Llama::gradients`] and returns their mean loss in
    /// nats per token.
    ///
    /// Sequences stand one after another, each [`Llama::sequence`] tokens and one more long. A step
    /// may call this several times: every token counts the same.
    ///
    /// # Panics
    /// If there are no or no whole sequences, a token is outside the vocabulary, or the parameters
    /// are not as many as the layout's.
    pub fn gradient(&mut self, parameters: &[f32], tokens: &[u32]) -> f32 {
        self.gradient_until(parameters, tokens, &|| false).expect("nothing stops it")
    }

    /// The same, but stops when `pause` says so after some of the sequences, and gives nothing then:
    /// called again with the same sequences it goes on with the others. The parameters may have
    /// changed meanwhile.
    ///
    /// # Panics
    /// As [`Llama::gradient`].
    pub fn gradient_until(
        &mut self,
        parameters: &[f32],
        tokens: &[u32],
        pause: Pause<'_>,
    ) -> Option<f32> {
        self.check(parameters, tokens);
        let model = &self.model;
        let stop = AtomicBool::new(false);
        let (threads, parts) = self.gradients.parts();
        let items = assign(parts, &mut self.seen, tokens, model.sequence + 1);
        threads.run(&mut self.workspaces, items, |space, (gradient, seen, tokens)| {
            for piece in tokens[seen.tokens..].chunks(space.sequences * (model.sequence + 1)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                space.take(piece, model.sequence);
                seen.loss += model.head_loss(parameters, space, Some(gradient));
                model.backward(parameters, space, gradient);
                seen.tokens += piece.len();
                if pause() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        if self.seen.iter().map(|seen| seen.tokens).sum::<usize>() < tokens.len() {
            return None;
        }
        let total: f64 = self.seen.iter().map(|seen| seen.loss).sum();
        self.seen.fill(Seen::default());
        let learned = tokens.len() / (model.sequence + 1) * model.sequence;
        self.gradients.learned(learned, total.is_finite());
        Some(narrow(total / learned as f64))
    }

    /// Forgets sequences whose gradient was not asked for to the end, and all gradients.
    pub fn give_up(&mut self) {
        self.seen.fill(Seen::default());
        self.gradients.clear();
    }

    /// The mean loss of these sequences in nats per token, without learning from them.
    ///
    /// # Panics
    /// As [`Llama::gradient`].
    pub fn loss(&mut self, parameters: &[f32], tokens: &[u32]) -> f64 {
        self.check(parameters, tokens);
        let model = &self.model;
        let (threads, parts) = self.gradients.parts();
        let mut losses = vec![0.0; parts.len()];
        let items = assign(parts, &mut losses, tokens, model.sequence + 1);
        threads.run(&mut self.workspaces, items, |space, (_, loss, tokens)| {
            for piece in tokens.chunks(space.sequences * (model.sequence + 1)) {
                space.take(piece, model.sequence);
                *loss += model.head_loss(parameters, space, None);
            }
        });
        let total: f64 = losses.iter().sum();
        total / (tokens.len() / (model.sequence + 1) * model.sequence) as f64
    }

    /// What the optimiser takes its step with.
    pub fn gradients(&mut self) -> &mut Gradients {
        &mut self.gradients
    }

    fn check(&self, parameters: &[f32], tokens: &[u32]) {
        let stride = self.model.sequence + 1;
        assert_eq!(parameters.len(), self.gradients.elements(), "parameters of another layout");
        assert!(!tokens.is_empty() && tokens.len().is_multiple_of(stride), "no whole sequences");
    }
}

/// What a part of the gradient has seen of its sequences.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// So many tokens of them, the last of each sequence included.
    tokens: usize,
    /// Summed loss.
    loss: f64,
}

/// What is worked on apart: a part of the gradient, what is counted of it, and the sequences it is
/// made from.
type Item<'a, C> = (&'a mut Vec<f32>, &'a mut C, &'a [u32]);

fn assign<'a, C: Send>(
    parts: &'a mut [Vec<f32>],
    counts: &'a mut [C],
    mut tokens: &'a [u32],
    stride: usize,
) -> impl Iterator<Item = Item<'a, C>> + Send {
    let (sequences, parts_count) = (tokens.len() / stride, parts.len());
    parts.iter_mut().zip(counts).enumerate().map(move |(index, (part, count))| {
        let mine = sequences / parts_count + usize::from(index < sequences % parts_count);
        let (mine, rest) = tokens.split_at(mine * stride);
        tokens = rest;
        (part, count, mine)
    })
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}
