//! The island that Atoll brings along: a Llama-architecture decoder, its data, and its optimiser.

use std::path::Path;
use std::sync::Arc;

use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{FragmentId, NodeId, RunId};

use super::checkpoint::{self, Position};
use super::compute::Compute;
use super::data::{Cursor, Dataset, Feed, HeldOut};
use super::device::{Device, MemoryNeed};
use super::layout::Layout;
use super::precision::Precision;
use super::settings::Settings;
use super::shape::Shape;
use super::{Island, IslandError, Pause, Step};

/// What an island may choose for itself.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Where it computes.
    pub device: Device,
    /// Threads, on a CPU.
    pub threads: usize,
    /// What products are computed in, on a CPU.
    pub precision: Precision,
    /// Batches that make one step.
    pub accumulate: usize,
}

/// An island that trains the model of a genesis.
#[derive(Debug)]
pub struct Learner {
    genesis: Genesis,
    layout: Layout,
    compute: Compute,
    feed: Feed,
    held_out: HeldOut,
    batches: Vec<Vec<u32>>,
    /// Where the batches of the step under way begin; none between steps.
    under_way: Option<Cursor>,
    steps: u64,
    tokens: u64,
}

impl Learner {
    /// An island with these parameters, in the order of the genesis' layout, and empty moments.
    pub fn new(
        genesis: &Genesis,
        island: &NodeId,
        dataset: &Arc<Dataset>,
        choices: &Choices,
        parameters: Vec<f32>,
    ) -> Result<Self, IslandError> {
        let shape = Shape::of(&genesis.model).ok_or(IslandError::Custom)?;
        let layout = Layout::new(genesis);
        let (sequence, batch) = (genesis.data.sequence as usize, genesis.data.batch as usize);
        if parameters.len() != layout.elements() {
            let (given, wanted) = (parameters.len(), layout.elements());
            return Err(IslandError::Parameters { given, wanted });
        }
        preflight(choices, &shape, &layout, batch, sequence)?;
        let run = genesis.run_id();
        let feed = Feed::new(dataset, &run, island, sequence, batch)?;
        let held_out = HeldOut::new(dataset, &run, sequence, HELD_OUT_SEQUENCES)?;
        let compute = Compute::new(
            &choices.device,
            shape,
            &layout,
            sequence,
            choices.threads,
            choices.precision,
            Settings::of(&genesis.inner),
            parameters,
        )?;
        let batches = vec![Vec::new(); choices.accumulate.max(1)];
        let genesis = genesis.clone();
        let (under_way, steps, tokens) = (None, 0, 0);
        Ok(Self { genesis, layout, compute, feed, held_out, batches, under_way, steps, tokens })
    }

    /// The run it trains.
    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// Where each parameter lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Tokens learned from.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// How often it has been through its text; none if the text never ends.
    pub fn passes(&self) -> Option<f64> {
        self.feed.passes()
    }

    /// A copy of all parameters, in the order of the layout.
    pub fn parameters(&self) -> Result<Vec<f32>, IslandError> {
        Ok(self.compute.state()?.parameters)
    }

    /// Logits of the token after `tokens`; `seen` of them were given to the call before.
    pub fn next_logits(&mut self, tokens: &[u32], seen: usize) -> Result<Vec<f32>, IslandError> {
        self.compute.next_logits(tokens, seen)
    }

    /// Reads the text as an island of another run would: whoever compares runs lets all of them
    /// learn from the same.
    pub fn read_as(
        &mut self,
        run: &RunId,
        island: &NodeId,
        dataset: &Arc<Dataset>,
    ) -> Result<(), IslandError> {
        let (sequence, batch) =
            (self.genesis.data.sequence as usize, self.genesis.data.batch as usize);
        self.feed = Feed::new(dataset, run, island, sequence, batch)?;
        self.held_out = HeldOut::new(dataset, run, sequence, HELD_OUT_SEQUENCES)?;
        Ok(())
    }

    /// Mean loss over every `stride`-th of the held-out sequences.
    fn loss_of_every(&mut self, stride: usize) -> Result<f64, IslandError> {
        let sequences: Vec<u64> = (0..self.held_out.count()).step_by(stride).collect();
        let (mut sum, mut tokens) = (0.0, Vec::new());
        for batch in sequences.chunks(self.genesis.data.batch.max(1) as usize) {
            tokens.clear();
            for &index in batch {
                self.held_out.read(index, &mut tokens)?;
            }
            sum += self.compute.loss(&tokens)? * batch.len() as f64;
        }
        Ok(sum / sequences.len() as f64)
    }

    /// Takes parameters and moments of a checkpoint, but begins the data anew.
    pub fn restore_without_position(&mut self, from: &Path) -> Result<(), IslandError> {
        let (state, position) = checkpoint::read(from, &self.genesis, &self.layout)?;
        self.compute.restore(state)?;
        (self.steps, self.tokens) = (position.steps, position.tokens);
        Ok(())
    }
}

impl Island for Learner {
    fn advance(
        &mut self,
        learning_rate: f32,
        pause: Pause<'_>,
    ) -> Result<Option<Step>, IslandError> {
        let before = match self.under_way.take() {
            Some(before) => before,
            None => {
                let before = self.feed.cursor();
                for batch in &mut self.batches {
                    self.feed.next(batch)?;
                }
                before
            }
        };
        let outcome = match self.compute.advance(&self.batches, learning_rate, self.steps, pause) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                self.under_way = Some(before);
                return Ok(None);
            }
            Err(error) => {
                self.feed.seek(before)?;
                return Err(error);
            }
        };
        let sequence = u64::from(self.genesis.data.sequence);
        let sequences = self.genesis.data.batch as usize * self.batches.len();
        let tokens = sequences as u64 * sequence;
        self.steps += 1;
        self.tokens += tokens;
        Ok(Some(Step { loss: outcome.loss, tokens, gradient_norm: outcome.gradient_norm }))
    }

    fn read(
        &mut self,
        fragment: FragmentId,
        look: &mut dyn FnMut(&[f32]),
    ) -> Result<(), IslandError> {
        self.compute.read(fragment, look)
    }

    fn change(
        &mut self,
        fragment: FragmentId,
        change: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), IslandError> {
        self.compute.change(fragment, change)
    }

    fn evaluate(&mut self) -> Result<f64, IslandError> {
        self.loss_of_every(1)
    }

    fn glance(&mut self) -> Result<f64, IslandError> {
        self.loss_of_every(GLANCE)
    }

    fn save(&mut self, into: &Path) -> Result<(), IslandError> {
        let cursor = self.under_way.unwrap_or_else(|| self.feed.cursor());
        let position = Position { steps: self.steps, tokens: self.tokens, cursor };
        self.compute.show(|parameters, moments| {
            checkpoint::write(into, &self.genesis, &self.layout, parameters, moments, &position)
        })
    }

    fn restore(&mut self, from: &Path) -> Result<(), IslandError> {
        let (state, position) = checkpoint::read(from, &self.genesis, &self.layout)?;
        let before = self.feed.cursor();
        self.feed.seek(position.cursor)?;
        if let Err(error) = self.compute.restore(state) {
            self.feed.seek(before)?;
            return Err(error);
        }
        self.under_way = None;
        (self.steps, self.tokens) = (position.steps, position.tokens);
        Ok(())
    }
}

/// Refuses a model that cannot fit before it takes minutes to find out.
fn preflight(
    choices: &Choices,
    shape: &Shape,
    layout: &Layout,
    batch: usize,
    sequence: usize,
) -> Result<(), IslandError> {
    // Our own kernels take one sequence at a time on each thread.
    let at_once = if choices.device.is_cpu() { choices.threads.min(batch) } else { batch };
    MemoryNeed::new(shape, layout.elements(), at_once, sequence).check(&choices.device)?;
    Ok(())
}

/// Held-out sequences in one evaluation: enough that its noise is small against what a minute of
/// training gains, and a few steps' worth of time.
const HELD_OUT_SEQUENCES: u64 = 64;
/// A glance is at every so many of them.
const GLANCE: usize = 4;
