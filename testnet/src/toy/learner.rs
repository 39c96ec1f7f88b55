//! One island's inner training: AdamW on its own stream of the language.

use atoll_node::island::Step;
use atoll_protocol::rng::Rng;
use serde::{Deserialize, Serialize};

use super::language::{SYMBOLS, WALK, index};
use super::network;
use super::task::Task;

/// An island's optimiser and its place in its shard. The parameters live with the caller.
#[derive(Clone, Debug)]
pub struct Learner {
    shard: u64,
    state: LearnerCheckpoint,
    gradient: Vec<f32>,
}

/// All a learner needs to go on as if nothing had happened: moments and data cursor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnerCheckpoint {
    /// Steps taken, which is also the number of batches read.
    steps: u64,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Running products of the decay rates, for the correction of the moments' bias.
    first_missing: f32,
    second_missing: f32,
}

impl Learner {
    /// A learner at the beginning of `shard`.
    ///
    /// All shards speak the same language but not about the same things: the walks of a shard
    /// begin mostly with the symbols that equal the shard's number modulo [`SUBJECTS`], so
    /// that many consecutive shards together are an even sample of the language.
    pub fn new(task: &Task, shard: u64) -> Self {
        let zeros = vec![0.0; task.parameters()];
        let state = LearnerCheckpoint {
            steps: 0,
            first: zeros.clone(),
            second: zeros.clone(),
            first_missing: 1.0,
            second_missing: 1.0,
        };
        Self { shard, state, gradient: zeros }
    }

    /// One AdamW step on the next batch of the shard.
    ///
    /// # Panics
    ///
    /// If `params` are not [`Task::parameters`] many.
    pub fn step(&mut self, task: &Task, params: &mut [f32], learning_rate: f32) -> Step {
        assert_eq!(params.len(), network::PARAMETERS, "parameters of another model");
        self.gradient.fill(0.0);
        let loss = self.read_batch(task, params);
        self.state.steps += 1;
        self.descend(params, learning_rate);
        let square: f32 = self.gradient.iter().map(|it| it * it).sum();
        let gradient_norm = square.sqrt() * BATCH_INVERSE;
        Step { loss, tokens: BATCH, gradient_norm }
    }

    /// Steps taken since the beginning of the shard.
    pub fn steps(&self) -> u64 {
        self.state.steps
    }

    /// The learner's state as of now.
    pub fn checkpoint(&self) -> LearnerCheckpoint {
        self.state.clone()
    }

    /// Goes back to a checkpoint of a learner of this shard.
    pub fn restore(&mut self, checkpoint: LearnerCheckpoint) {
        self.state = checkpoint;
    }

    /// Sums the gradient over the next batch; returns the batch's mean loss.
    fn read_batch(&mut self, task: &Task, params: &[f32]) -> f32 {
        let mut loss = 0.0;
        // Each batch has a generator of its own: the cursor is one number.
        let mut rng = batch_rng(self.shard, self.state.steps);
        for _ in 0..WALKS {
            let mut older = self.subject(&mut rng);
            let mut newer = self.subject(&mut rng);
            for _ in 0..WALK {
                let target = task.language().next(&mut rng, older, newer);
                let pass = network::forward(params, older, newer);
                loss += pass.sum.ln() - pass.logits[target];
                network::backward(params, &mut self.gradient, &pass, (older, newer), target);
                (older, newer) = (newer, target);
            }
        }
        loss * BATCH_INVERSE
    }

    /// A symbol with which a walk of this shard may begin.
    fn subject(&self, rng: &mut Rng) -> usize {
        if rng.ratio(1, 2) {
            return index(rng.below(SYMBOLS as u64));
        }
        let own = self.shard % SUBJECTS;
        index(own + SUBJECTS * rng.below(SYMBOLS as u64 / SUBJECTS))
    }

    fn descend(&mut self, params: &mut [f32], learning_rate: f32) {
        let state = &mut self.state;
        state.first_missing *= FIRST_DECAY;
        state.second_missing *= SECOND_DECAY;
        let first_scale = 1.0 / (1.0 - state.first_missing);
        let second_scale = 1.0 / (1.0 - state.second_missing);
        let keep = 1.0 - learning_rate * WEIGHT_DECAY;
        let moments = state.first.iter_mut().zip(&mut state.second);
        for ((param, sum), (first, second)) in params.iter_mut().zip(&self.gradient).zip(moments) {
            let gradient = sum * BATCH_INVERSE;
            *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * gradient;
            *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * gradient * gradient;
            let stride = *first * first_scale / ((*second * second_scale).sqrt() + EPSILON);
            *param = *param * keep - learning_rate * stride;
        }
    }
}

/// A generator for one batch of one shard.
fn batch_rng(shard: u64, batch: u64) -> Rng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&shard.to_le_bytes());
    seed[8..16].copy_from_slice(&batch.to_le_bytes());
    Rng::from_seed(seed)
}

/// Groups of symbols that shards begin with.
pub const SUBJECTS: u64 = 8;
/// Tokens in a batch.
pub const BATCH: u64 = WALKS * WALK as u64;

const WALKS: u64 = 4;
const BATCH_INVERSE: f32 = 1.0 / 32.0;
const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.99;
const WEIGHT_DECAY: f32 = 0.01;
const EPSILON: f32 = 1e-6;

const _: () = assert!(BATCH == 32);
const _: () = assert!((SYMBOLS as u64).is_multiple_of(SUBJECTS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_learner_goes_on_as_if_nothing_had_happened() {
        let task = Task::new(1);
        let mut learner = Learner::new(&task, 5);
        let mut params = vec![0.1; task.parameters()];
        for _ in 0..10 {
            assert_eq!(learner.step(&task, &mut params, 0.01).tokens, BATCH);
        }
        let (checkpoint, mut again) = (learner.checkpoint(), params.clone());
        let mut other = Learner::new(&task, 5);
        other.restore(checkpoint);
        for _ in 0..10 {
            learner.step(&task, &mut params, 0.01);
            other.step(&task, &mut again, 0.01);
        }
        assert_eq!(params, again);
        assert_eq!(learner.checkpoint(), other.checkpoint());
        assert_eq!(learner.steps(), 20);
    }

    #[test]
    fn shards_begin_with_different_subjects() {
        let task = Task::new(1);
        let own = |shard: u64| {
            let learner = Learner::new(&task, shard);
            let mut rng = Rng::new(9);
            (0..1000).filter(|_| learner.subject(&mut rng) as u64 % SUBJECTS == shard).count()
        };
        assert!((0..SUBJECTS).all(|shard| (450..700).contains(&own(shard))));
    }
}
