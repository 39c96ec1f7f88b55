//! The way back: from the loss to the gradient by every parameter.

use std::ops::Range;

use atoll_kernels::matrix::{Matrix, MatrixMut};
use atoll_kernels::multiplier::Multiplier;
use atoll_kernels::{cross_entropy, embedding, norm, rope, swiglu};

use super::model::Model;
use super::workspace::{BlockState, Workspace};

impl Model {
    /// The loss, the gradients of the head and the last norm, and the gradient by the last block's
    /// output; a block of rows at a time, so that not all logits exist at once.
    pub(super) fn head_backward(
        &self,
        parameters: &[f32],
        space: &mut Workspace,
        gradient: &mut [f32],
    ) -> f64 {
        let (width, vocab, all) = (self.shape.width, self.shape.vocab, space.inputs.len());
        let head = Matrix::new(&parameters[self.head.clone()], vocab, width);
        let mut loss = 0.0;
        for (index, targets) in space.targets.chunks(space.logit_rows).enumerate() {
            let (start, rows) = (index * space.logit_rows, targets.len());
            let normed = Matrix::new(&space.normed[start * width..][..rows * width], rows, width);
            let logits = &mut space.logits[..rows * vocab];
            space.multiplier.linear(MatrixMut::new(logits, rows, vocab), 0.0, normed, head);
            loss += cross_entropy::with_gradient(logits, targets);
            let logits = Matrix::new(logits, rows, vocab);
            let out = MatrixMut::new(&mut gradient[self.head.clone()], vocab, width);
            space.multiplier.add_product(out, logits.transposed(), normed);
            let inner = &mut space.inner_gradient[start * width..][..rows * width];
            space.multiplier.product(MatrixMut::new(inner, rows, width), logits, head);
        }
        let stream = &mut space.stream_gradient[..all * width];
        stream.fill(0.0);
        norm::backward(
            &space.output[..all * width],
            &parameters[self.norm.clone()],
            &space.inverse[..all],
            &space.inner_gradient[..all * width],
            stream,
            &mut gradient[self.norm.clone()],
        );
        loss
    }

    /// Carries the gradient by the last block's output back to the embedding.
    pub(super) fn backward(&self, parameters: &[f32], space: &mut Workspace, gradient: &mut [f32]) {
        for layer in (0..self.blocks.len()).rev() {
            self.feed_backward(parameters, layer, space, gradient);
            self.attend_backward(parameters, layer, space, gradient);
        }
        let (width, rows) = (self.shape.width, space.inputs.len());
        let stream = &space.stream_gradient[..rows * width];
        let table = &mut gradient[self.embedding.clone()];
        embedding::backward(table, width, &space.inputs, stream);
    }

    /// From a block's output to its middle.
    fn feed_backward(
        &self,
        parameters: &[f32],
        layer: usize,
        space: &mut Workspace,
        gradient: &mut [f32],
    ) {
        let (width, wide, rows) = (self.shape.width, self.shape.hidden, space.inputs.len());
        let (block, state) = (&self.blocks[layer], &mut space.blocks[layer]);
        let hidden = &mut space.hidden[..rows * wide];
        let gate_up = &mut state.gate_up[..rows * wide * 2];
        let stream = &mut space.stream_gradient[..rows * width];
        let upper = Matrix::new(stream, rows, width);
        let down = Matrix::new(&parameters[block.down.clone()], width, wide);
        space.multiplier.product(MatrixMut::new(hidden, rows, wide), upper, down);
        swiglu::backward(gate_up, wide, hidden);
        let out = MatrixMut::new(&mut gradient[block.down.clone()], width, wide);
        let entered = Matrix::new(hidden, rows, wide);
        space.multiplier.add_product(out, upper.transposed(), entered);

        let middle = &state.middle[..rows * width];
        let gain = &parameters[block.feed_norm.clone()];
        let normed = &mut space.normed[..rows * width];
        norm::again(middle, gain, &state.feed_inverse[..rows], normed);
        let inner = &mut space.inner_gradient[..rows * width];
        let gates = [(&block.gate, 0, wide), (&block.up, wide, wide)];
        let multiplier = &mut space.multiplier;
        self.linear_backward(parameters, &gates, gate_up, normed, inner, gradient, multiplier);
        let gain_gradient = &mut gradient[block.feed_norm.clone()];
        norm::backward(middle, gain, &state.feed_inverse[..rows], inner, stream, gain_gradient);
    }

    /// From a block's middle to its input.
    fn attend_backward(
        &self,
        parameters: &[f32],
        layer: usize,
        space: &mut Workspace,
        gradient: &mut [f32],
    ) {
        let (width, keys, rows) = (self.shape.width, self.shape.kv_width(), space.inputs.len());
        let (block, state) = (&self.blocks[layer], &space.blocks[layer]);
        let stream = &mut space.stream_gradient[..rows * width];
        let inner = &mut space.inner_gradient[..rows * width];
        let upper = Matrix::new(stream, rows, width);
        let multiplier = &mut space.multiplier;
        multiplier.add_product(
            MatrixMut::new(&mut gradient[block.output.clone()], width, width),
            upper.transposed(),
            Matrix::new(&state.attended[..rows * width], rows, width),
        );
        let output = Matrix::new(&parameters[block.output.clone()], width, width);
        multiplier.product(MatrixMut::new(inner, rows, width), upper, output);
        let qkv_gradient = &mut space.qkv_gradient[..rows * self.attention().stride()];
        self.attention_backward(state, inner, qkv_gradient, &mut space.scores, multiplier);

        let input = &state.input[..rows * width];
        let gain = &parameters[block.attention_norm.clone()];
        let normed = &mut space.normed[..rows * width];
        norm::again(input, gain, &state.attention_inverse[..rows], normed);
        let projections = [
            (&block.query, 0, width),
            (&block.key, width, keys),
            (&block.value, width + keys, keys),
        ];
        self.linear_backward(
            parameters,
            &projections,
            qkv_gradient,
            normed,
            inner,
            gradient,
            multiplier,
        );
        let gain_gradient = &mut gradient[block.attention_norm.clone()];
        let inverse = &state.attention_inverse[..rows];
        norm::backward(input, gain, inverse, inner, stream, gain_gradient);
    }

    /// Through the attention of each sequence and the turning of its queries and keys.
    fn attention_backward(
        &self,
        state: &BlockState,
        output_gradient: &[f32],
        qkv_gradient: &mut [f32],
        scores: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let attention = self.attention();
        let (width, stride, heads) = (self.shape.width, attention.stride(), self.shape.heads);
        let sequences = qkv_gradient.chunks_exact_mut(self.sequence * stride).enumerate();
        for (index, lower) in sequences {
            let start = index * self.sequence;
            attention.backward(
                &state.qkv[start * stride..][..self.sequence * stride],
                &state.attended[start * width..][..self.sequence * width],
                &state.log_sums[start * heads..][..self.sequence * heads],
                &output_gradient[start * width..][..self.sequence * width],
                lower,
                scores,
                multiplier,
            );
            let turned = heads + self.shape.kv_heads;
            rope::backward(lower, stride, turned, &self.cosines, &self.sines);
        }
    }

    /// Through products that share their input: adds to their gradients and writes that by the
    /// input to `inner`. A part is a weight's place, where its outputs begin in a row of `upper`,
    /// and how many they are.
    #[expect(clippy::too_many_arguments, reason = "they are all operands of the same products")]
    fn linear_backward(
        &self,
        parameters: &[f32],
        parts: &[(&Range<usize>, usize, usize)],
        upper: &[f32],
        normed: &[f32],
        inner: &mut [f32],
        gradient: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let width = self.shape.width;
        let rows = normed.len() / width;
        let stride = upper.len() / rows;
        let normed = Matrix::new(normed, rows, width);
        for (index, &(range, from, wide)) in parts.iter().enumerate() {
            let upper = Matrix::strided(&upper[from..], rows, wide, stride);
            let out = MatrixMut::new(&mut gradient[range.clone()], wide, width);
            multiplier.add_product(out, upper.transposed(), normed);
            let keep = if index == 0 { 0.0 } else { 1.0 };
            let weight = Matrix::new(&parameters[range.clone()], wide, width);
            multiplier.combine(MatrixMut::new(inner, rows, width), keep, 1.0, upper, weight);
        }
    }
}
