//! The way forward: from tokens to the loss.

use atoll_kernels::matrix::{Matrix, MatrixMut};
use atoll_kernels::multiplier::Multiplier;
use atoll_kernels::{cross_entropy, embedding, norm, rope, swiglu};

use super::model::{Block, Model};
use super::workspace::{BlockState, Workspace};

impl Model {
    /// The summed loss of the sequences in work.
    ///
    /// With a gradient, the head's and the last norm's are added to it, and the gradient by the
    /// last block's output is left in `stream_gradient`.
    pub(super) fn head_loss(
        &self,
        parameters: &[f32],
        space: &mut Workspace,
        gradient: Option<&mut [f32]>,
    ) -> f64 {
        self.forward(parameters, space);
        match gradient {
            Some(gradient) => self.head_backward(parameters, space, gradient),
            None => self.head_forward(parameters, space),
        }
    }

    /// Takes the sequences in work through all blocks and the last norm.
    fn forward(&self, parameters: &[f32], space: &mut Workspace) {
        let (width, rows) = (self.shape.width, space.inputs.len());
        let table = &parameters[self.embedding.clone()];
        for layer in 0..self.blocks.len() {
            let (before, after) = space.blocks.split_at_mut(layer + 1);
            let state = &mut before[layer];
            if layer == 0 {
                let input = &mut state.input[..rows * width];
                embedding::forward(table, width, &space.inputs, input);
            }
            let next = match after.first_mut() {
                Some(state) => &mut state.input,
                None => &mut space.output,
            };
            let normed = &mut space.normed[..rows * width];
            let block = &self.blocks[layer];
            let (scores, multiplier) = (&mut space.scores, &mut space.multiplier);
            self.attend(parameters, block, state, normed, scores, multiplier);
            let hidden = &mut space.hidden[..rows * self.shape.hidden];
            let next = &mut next[..rows * width];
            self.feed(parameters, block, state, normed, hidden, next, multiplier);
        }
        if self.blocks.is_empty() {
            embedding::forward(table, width, &space.inputs, &mut space.output[..rows * width]);
        }
        norm::forward(
            &space.output[..rows * width],
            &parameters[self.norm.clone()],
            self.shape.norm_epsilon,
            &mut space.inverse[..rows],
            &mut space.normed[..rows * width],
        );
    }

    /// The attention half of a block, from its input to its middle.
    fn attend(
        &self,
        parameters: &[f32],
        block: &Block,
        state: &mut BlockState,
        normed: &mut [f32],
        scores: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let (shape, attention) = (&self.shape, self.attention());
        let (width, keys, stride) = (shape.width, shape.kv_width(), attention.stride());
        let rows = normed.len() / width;
        let input = &state.input[..rows * width];
        let gain = &parameters[block.attention_norm.clone()];
        let inverse = &mut state.attention_inverse[..rows];
        norm::forward(input, gain, shape.norm_epsilon, inverse, normed);
        let qkv = &mut state.qkv[..rows * stride];
        let normed = Matrix::new(normed, rows, width);
        for (range, from, wide) in [
            (&block.query, 0, width),
            (&block.key, width, keys),
            (&block.value, width + keys, keys),
        ] {
            let weight = Matrix::new(&parameters[range.clone()], wide, width);
            let out = MatrixMut::strided(&mut qkv[from..], rows, wide, stride);
            multiplier.linear(out, 0.0, normed, weight);
        }
        let (attended, heads) = (&mut state.attended[..rows * width], shape.heads);
        let sequences = qkv.chunks_exact_mut(self.sequence * stride);
        let sequences = sequences.zip(attended.chunks_exact_mut(self.sequence * width));
        let log_sums = state.log_sums[..rows * heads].chunks_exact_mut(self.sequence * heads);
        for ((qkv, attended), log_sums) in sequences.zip(log_sums) {
            rope::forward(qkv, stride, heads + shape.kv_heads, &self.cosines, &self.sines);
            attention.forward(qkv, attended, log_sums, scores, multiplier);
        }
        let middle = &mut state.middle[..rows * width];
        middle.copy_from_slice(input);
        let weight = Matrix::new(&parameters[block.output.clone()], width, width);
        let attended = Matrix::new(attended, rows, width);
        multiplier.linear(MatrixMut::new(middle, rows, width), 1.0, attended, weight);
    }

    /// The feed-forward half of a block, from its middle to its output.
    #[expect(clippy::too_many_arguments, reason = "they are all buffers of the same workspace")]
    fn feed(
        &self,
        parameters: &[f32],
        block: &Block,
        state: &mut BlockState,
        normed: &mut [f32],
        hidden: &mut [f32],
        output: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let (width, wide) = (self.shape.width, self.shape.hidden);
        let rows = normed.len() / width;
        let middle = &state.middle[..rows * width];
        let gain = &parameters[block.feed_norm.clone()];
        let inverse = &mut state.feed_inverse[..rows];
        norm::forward(middle, gain, self.shape.norm_epsilon, inverse, normed);
        let gate_up = &mut state.gate_up[..rows * wide * 2];
        let normed = Matrix::new(normed, rows, width);
        for (range, from) in [(&block.gate, 0), (&block.up, wide)] {
            let weight = Matrix::new(&parameters[range.clone()], wide, width);
            let out = MatrixMut::strided(&mut gate_up[from..], rows, wide, 2 * wide);
            multiplier.linear(out, 0.0, normed, weight);
        }
        swiglu::forward(gate_up, wide, hidden);
        output.copy_from_slice(middle);
        let weight = Matrix::new(&parameters[block.down.clone()], width, wide);
        let hidden = Matrix::new(hidden, rows, wide);
        multiplier.linear(MatrixMut::new(output, rows, width), 1.0, hidden, weight);
    }

    /// The loss alone, a block of rows at a time.
    fn head_forward(&self, parameters: &[f32], space: &mut Workspace) -> f64 {
        let (width, vocab) = (self.shape.width, self.shape.vocab);
        let head = Matrix::new(&parameters[self.head.clone()], vocab, width);
        let mut loss = 0.0;
        for (index, targets) in space.targets.chunks(space.logit_rows).enumerate() {
            let (start, rows) = (index * space.logit_rows, targets.len());
            let normed = Matrix::new(&space.normed[start * width..][..rows * width], rows, width);
            let logits = &mut space.logits[..rows * vocab];
            space.multiplier.linear(MatrixMut::new(logits, rows, vocab), 0.0, normed, head);
            loss += cross_entropy::alone(logits, targets);
        }
        loss
    }
}
