//! The model of real nodes as a lesson.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use atoll_node::island::data::{Dataset, Source, Tokenizer};
use atoll_node::island::device::DeviceChoice;
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::{Choices, Learner};
use atoll_node::island::precision::Precision;
use atoll_node::island::{Island, IslandError};
use atoll_protocol::genesis::{Genesis, Model as Shape};
use atoll_protocol::id::{NodeId, RunId};
use atoll_protocol::outer::OuterState;

use crate::lesson::Lesson;
use crate::sim;

/// The model of a genesis, on the built-in corpus.
#[derive(Debug)]
pub(crate) struct Model {
    genesis: Genesis,
    /// The run as whose islands all read: variants of one seed read the same text.
    text: RunId,
    peak: f32,
    dataset: Arc<Dataset>,
    choices: Choices,
    pieces: u32,
    judge: Mutex<Learner>,
}

impl Model {
    /// The model of `genesis` on the text of the run `text`; every step of an island takes so many
    /// batches.
    pub(crate) fn new(
        genesis: &Genesis,
        text: RunId,
        peak: f32,
        accumulate: usize,
    ) -> Result<Self> {
        Self::in_pieces(genesis, text, peak, accumulate, 1)
    }

    /// The same, with batches cut into so many pieces, which must divide them.
    pub(crate) fn in_pieces(
        genesis: &Genesis,
        text: RunId,
        peak: f32,
        accumulate: usize,
        pieces: u32,
    ) -> Result<Self> {
        let mut genesis = genesis.clone();
        genesis.data.batch /= pieces;
        let accumulate = accumulate * pieces as usize;
        let Shape::Llama { vocab, .. } = genesis.model else { bail!("not a model of ours") };
        let source = Source::Generated { seed: genesis.init_seed };
        let nowhere = std::env::temp_dir();
        let dataset = Dataset::open(&source, Tokenizer::byte(), vocab, &nowhere, &mut |_| ())?;
        let dataset = Arc::new(dataset);
        let (device, precision) = (DeviceChoice::Cpu.resolve()?, Precision::quickest());
        let choices = Choices { device, threads: 1, precision, accumulate };
        let judge = learner(&genesis, &text, &sim::node_id(0, 0), &dataset, &choices)?;
        let judge = Mutex::new(judge);
        Ok(Self { genesis, text, peak, dataset, choices, pieces, judge })
    }
}

fn learner(
    genesis: &Genesis,
    text: &RunId,
    node: &NodeId,
    dataset: &Arc<Dataset>,
    choices: &Choices,
) -> Result<Learner, IslandError> {
    let parameters = Layout::new(genesis).initial(genesis);
    let mut learner = Learner::new(genesis, node, dataset, choices, parameters)?;
    learner.read_as(text, node, dataset)?;
    Ok(learner)
}

impl Lesson for Model {
    fn island(&self, seed: u64, number: u64) -> Result<Box<dyn Island>, IslandError> {
        let node = sim::node_id(seed, usize::try_from(number).unwrap_or(usize::MAX));
        let learner = learner(&self.genesis, &self.text, &node, &self.dataset, &self.choices)?;
        Ok(Box::new(learner))
    }

    fn batch(&self) -> u64 {
        let data = &self.genesis.data;
        let batches = self.choices.accumulate as u64;
        batches * u64::from(data.batch) * u64::from(data.sequence)
    }

    fn pieces(&self) -> u32 {
        self.pieces
    }

    fn rate(&self, tokens: u64) -> f32 {
        let schedule = &self.genesis.schedule;
        schedule.learning_rate(tokens) / schedule.peak * self.peak
    }

    fn loss(&self, states: &[&OuterState]) -> f64 {
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        for state in states {
            let changed =
                judge.change(state.fragment(), &mut |part| part.copy_from_slice(state.params()));
            if changed.is_err() {
                return f64::NAN;
            }
        }
        judge.evaluate().unwrap_or(f64::NAN)
    }
}
