//! One token after another, with the keys and values of those before: for sampling.

use atoll_kernels::matrix::{Matrix, MatrixMut};
use atoll_kernels::{embedding, norm, rope, swiglu};

use super::error::CpuError;
use super::model::{Block, Model};
use crate::island::layout::Layout;
use crate::island::shape::Shape;

/// Foretells the next token of one sequence that grows.
#[derive(Debug)]
pub struct Decoder {
    model: Model,
    position: usize,
    /// Keys of each block, turned, a row for each position.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    gate_up: Vec<f32>,
    hidden: Vec<f32>,
    scores: Vec<f32>,
    logits: Vec<f32>,
}

impl Decoder {
    /// A decoder of this shape that has seen nothing.
    pub fn new(shape: Shape, layout: &Layout) -> Result<Self, CpuError> {
        let model = Model::new(shape, layout, shape.context)?;
        let cache = || (0..shape.layers).map(|_| vec![0.0; shape.context * shape.kv_width()]);
        Ok(Self {
            position: 0,
            keys: cache().collect(),
            values: cache().collect(),
            stream: vec![0.0; shape.width],
            normed: vec![0.0; shape.width],
            qkv: vec![0.0; model.attention().stride()],
            attended: vec![0.0; shape.width],
            gate_up: vec![0.0; 2 * shape.hidden],
            hidden: vec![0.0; shape.hidden],
            scores: vec![0.0; shape.context],
            logits: vec![0.0; shape.vocab],
            model,
        })
    }

    /// Tokens seen so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Forgets all tokens.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Takes one more token and shows the logits of the next; none if the context is full.
    ///
    /// # Panics
    /// If the token is outside the vocabulary, or the parameters are of another layout.
    pub fn next(&mut self, parameters: &[f32], token: u32) -> Option<&[f32]> {
        let Shape { context, width, vocab, norm_epsilon, .. } = self.model.shape;
        if self.position == context {
            return None;
        }
        let table = &parameters[self.model.embedding.clone()];
        embedding::forward(table, width, &[token], &mut self.stream);
        for layer in 0..self.model.blocks.len() {
            self.attend(parameters, layer);
            self.feed(parameters, layer);
        }
        let gain = &parameters[self.model.norm.clone()];
        norm::forward(&self.stream, gain, norm_epsilon, &mut [0.0], &mut self.normed);
        let head = Matrix::new(&parameters[self.model.head.clone()], vocab, width);
        row_times(head, &self.normed, &mut self.logits, 0.0);
        self.position += 1;
        Some(&self.logits)
    }

    fn attend(&mut self, parameters: &[f32], layer: usize) {
        let shape = &self.model.shape;
        let Shape { width, heads, kv_heads, norm_epsilon, .. } = *shape;
        let (keys, head_width) = (shape.kv_width(), shape.head_width());
        let Block { attention_norm, query, key, value, .. } = &self.model.blocks[layer];
        let gain = &parameters[attention_norm.clone()];
        norm::forward(&self.stream, gain, norm_epsilon, &mut [0.0], &mut self.normed);
        let parts = [(query, 0, width), (key, width, keys), (value, width + keys, keys)];
        for (range, from, wide) in parts {
            let weight = Matrix::new(&parameters[range.clone()], wide, width);
            row_times(weight, &self.normed, &mut self.qkv[from..from + wide], 0.0);
        }
        let half = head_width / 2;
        let angles = self.position * half..(self.position + 1) * half;
        let (cosines, sines) = (&self.model.cosines[angles.clone()], &self.model.sines[angles]);
        let stride = self.qkv.len();
        rope::forward(&mut self.qkv, stride, heads + kv_heads, cosines, sines);
        let row = self.position * keys..(self.position + 1) * keys;
        self.keys[layer][row.clone()].copy_from_slice(&self.qkv[width..width + keys]);
        self.values[layer][row].copy_from_slice(&self.qkv[width + keys..]);
        for head in 0..heads {
            self.attend_head(layer, head);
        }
        let output = self.model.blocks[layer].output.clone();
        let weight = Matrix::new(&parameters[output], width, width);
        row_times(weight, &self.attended, &mut self.stream, 1.0);
    }

    /// One head's mix of the values of all positions so far.
    fn attend_head(&mut self, layer: usize, head: usize) {
        let shape = &self.model.shape;
        let (wide, keys, seen) = (shape.head_width(), shape.kv_width(), self.position + 1);
        let from = head / (shape.heads / shape.kv_heads) * wide;
        let scores = &mut self.scores[..seen];
        let query = &self.qkv[head * wide..][..wide];
        let all = Matrix::strided(&self.keys[layer][from..], seen, wide, keys);
        row_times(all, query, scores, 0.0);
        let scale = 1.0 / (wide as f32).sqrt();
        let most = scores.iter().fold(f32::NEG_INFINITY, |most, &score| most.max(score));
        let mut total = 0.0;
        for score in scores.iter_mut() {
            *score = ((*score - most) * scale).exp();
            total += *score;
        }
        scores.iter_mut().for_each(|score| *score /= total);
        let all = Matrix::strided(&self.values[layer][from..], seen, wide, keys);
        MatrixMut::new(&mut self.attended[head * wide..][..wide], 1, wide)
            .product(Matrix::new(scores, 1, seen), all);
    }

    fn feed(&mut self, parameters: &[f32], layer: usize) {
        let Shape { width, hidden, norm_epsilon, .. } = self.model.shape;
        let Block { feed_norm, gate, up, down, .. } = &self.model.blocks[layer];
        let gain = &parameters[feed_norm.clone()];
        norm::forward(&self.stream, gain, norm_epsilon, &mut [0.0], &mut self.normed);
        for (range, from) in [(gate, 0), (up, hidden)] {
            let weight = Matrix::new(&parameters[range.clone()], hidden, width);
            row_times(weight, &self.normed, &mut self.gate_up[from..from + hidden], 0.0);
        }
        swiglu::forward(&self.gate_up, hidden, &mut self.hidden);
        let weight = Matrix::new(&parameters[down.clone()], width, hidden);
        row_times(weight, &self.hidden, &mut self.stream, 1.0);
    }
}

/// `output` becomes `keep` times itself plus `weight` times `input`.
fn row_times(weight: Matrix<'_>, input: &[f32], output: &mut [f32], keep: f32) {
    let (wide, len) = (input.len(), output.len());
    MatrixMut::new(output, 1, len).combine(
        keep,
        1.0,
        Matrix::new(input, 1, wide),
        weight.transposed(),
    );
}
