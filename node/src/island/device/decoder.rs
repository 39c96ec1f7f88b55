//! The forward pass of the decoder.

use candle_core::{D, Device, Result, Tensor, Var};

use super::operations::{cross_entropy, masked_softmax, scale};
use crate::island::layout::Layout;
use crate::island::shape::Shape;

/// The forward pass of the decoder over variables that live elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    shape: Shape,
    embedding: Tensor,
    blocks: Vec<Block>,
    norm: Tensor,
    head: Tensor,
    tables: Tables,
}

/// The weights of one block.
#[derive(Clone, Debug)]
struct Block {
    attention_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    feed_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// Constants for the longest sequence; a shorter one takes a part of them.
#[derive(Clone, Debug)]
struct Tables {
    /// Cosines and sines of positions, for keys.
    key: [Tensor; 2],
    /// The same times the scale of attention scores, for queries: the scale costs nothing then.
    query: [Tensor; 2],
    /// Zero up to the diagonal, minus infinity behind it.
    mask: Tensor,
}

impl Decoder {
    /// A decoder over `variables`, which are in the layout's order of names.
    pub(super) fn new(
        shape: Shape,
        layout: &Layout,
        variables: &[Var],
        device: &Device,
    ) -> Result<Self> {
        let find = |name: &str| -> Result<Tensor> {
            let index = layout.tensors().binary_search_by(|place| place.name.as_str().cmp(name));
            let missing = |_| candle_core::Error::Msg(format!("the layout has no tensor {name}"));
            Ok(variables[index.map_err(missing)?].as_tensor().clone())
        };
        let block = |layer: usize| -> Result<Block> {
            let part = |part: &str| find(&format!("model.layers.{layer}.{part}.weight"));
            Ok(Block {
                attention_norm: part("input_layernorm")?,
                query: part("self_attn.q_proj")?,
                key: part("self_attn.k_proj")?,
                value: part("self_attn.v_proj")?,
                output: part("self_attn.o_proj")?,
                feed_norm: part("post_attention_layernorm")?,
                gate: part("mlp.gate_proj")?,
                up: part("mlp.up_proj")?,
                down: part("mlp.down_proj")?,
            })
        };
        let embedding = find("model.embed_tokens.weight")?;
        let head = if shape.tied { embedding.clone() } else { find("lm_head.weight")? };
        Ok(Self {
            embedding,
            blocks: (0..shape.layers).map(block).collect::<Result<_>>()?,
            norm: find("model.norm.weight")?,
            head,
            tables: Tables::new(&shape, device)?,
            shape,
        })
    }

    /// Logits `[rows * sequence, vocab]` of `rows` sequences, one after another in `inputs`.
    pub(super) fn logits(&self, inputs: &Tensor, rows: usize) -> Result<Tensor> {
        linear(&self.hidden(inputs, rows)?, &self.head)
    }

    /// Logits `[1, vocab]` of the last position of a single sequence.
    pub(super) fn last_logits(&self, inputs: &Tensor) -> Result<Tensor> {
        let hidden = self.hidden(inputs, 1)?;
        linear(&hidden.narrow(0, hidden.dim(0)? - 1, 1)?, &self.head)
    }

    /// Mean loss over all positions in nats.
    pub(super) fn loss(&self, inputs: &Tensor, targets: &Tensor, rows: usize) -> Result<Tensor> {
        cross_entropy(&self.logits(inputs, rows)?, targets)?.mean_all()
    }

    /// What the head sees, `[rows * sequence, width]`.
    fn hidden(&self, inputs: &Tensor, rows: usize) -> Result<Tensor> {
        let sequence = inputs.dim(0)? / rows;
        let tables = self.tables.first(sequence)?;
        let mut stream = self.embedding.index_select(inputs, 0)?;
        for block in &self.blocks {
            let normed = self.normed(&stream, &block.attention_norm)?;
            stream = (stream + self.attention(block, &normed, rows, &tables)?)?;
            let normed = self.normed(&stream, &block.feed_norm)?;
            stream = (stream + feed_forward(block, &normed)?)?;
        }
        self.normed(&stream, &self.norm)
    }

    /// Root-mean-square norm times `weight`.
    fn normed(&self, values: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let epsilon = f64::from(self.shape.norm_epsilon);
        let mean = values.sqr()?.mean_keepdim(D::Minus1)?;
        let inverse = (mean + epsilon)?.sqrt()?.recip()?;
        values.broadcast_mul(&inverse)?.broadcast_mul(weight)
    }

    fn attention(
        &self,
        block: &Block,
        normed: &Tensor,
        rows: usize,
        tables: &Tables,
    ) -> Result<Tensor> {
        let Shape { heads, kv_heads, width, .. } = self.shape;
        let (sequence, side) = (normed.dim(0)? / rows, self.shape.head_width());
        let split = |weight: &Tensor, heads: usize| {
            linear(normed, weight)?.reshape((rows, sequence, heads, side))?.transpose(1, 2)
        };
        // Query heads that share a key head follow one another, so they can stand as one longer
        // sequence before it, and nothing has to be repeated.
        let group = (rows * kv_heads, heads / kv_heads * sequence, side);
        let query = rotated(&split(&block.query, heads)?, &tables.query)?.reshape(group)?;
        let shared = (rows * kv_heads, sequence, side);
        let key = rotated(&split(&block.key, kv_heads)?, &tables.key)?.reshape(shared)?;
        let value = split(&block.value, kv_heads)?.contiguous()?.reshape(shared)?;
        let scores = query.matmul(&key.t()?)?.reshape((rows * heads, sequence, sequence))?;
        let shares = masked_softmax(&scores, &tables.mask)?;
        let mixed = shares.reshape((group.0, group.1, sequence))?.matmul(&value)?;
        let joined = mixed.reshape((rows, heads, sequence, side))?.transpose(1, 2)?;
        linear(&joined.contiguous()?.reshape((rows * sequence, width))?, &block.output)
    }
}

impl Tables {
    fn new(shape: &Shape, device: &Device) -> Result<Self> {
        let (context, side) = (shape.context, shape.head_width());
        let mut angles = Vec::with_capacity(context * side);
        for position in 0..context {
            for _ in 0..2 {
                angles.extend((0..side / 2).map(|pair| angle(position, pair, side, shape)));
            }
        }
        let score_scale = (side as f64).sqrt().recip();
        let table = |f: fn(f64) -> f64, scale: f64| {
            let values: Vec<f32> = angles.iter().map(|&angle| narrow(f(angle) * scale)).collect();
            Tensor::from_vec(values, (context, side), device)
        };
        let behind = |at: usize| if at % context > at / context { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..context * context).map(behind).collect();
        Ok(Self {
            key: [table(f64::cos, 1.0)?, table(f64::sin, 1.0)?],
            query: [table(f64::cos, score_scale)?, table(f64::sin, score_scale)?],
            mask: Tensor::from_vec(mask, (context, context), device)?,
        })
    }

    /// The part for sequences of this length.
    fn first(&self, sequence: usize) -> Result<Self> {
        let part = |table: &Tensor| table.narrow(0, 0, sequence);
        let pair = |tables: &[Tensor; 2]| {
            Ok::<_, candle_core::Error>([part(&tables[0])?, part(&tables[1])?])
        };
        let mask = part(&self.mask)?.narrow(1, 0, sequence)?.contiguous()?;
        Ok(Self { key: pair(&self.key)?, query: pair(&self.query)?, mask })
    }
}

/// The angle of a pair at a position, rounded where Hugging Face's code rounds: at large
/// positions its f32 angles differ visibly from exact ones, and weights were trained with them.
fn angle(position: usize, pair: usize, side: usize, shape: &Shape) -> f64 {
    let exponent = (2 * pair) as f64 / side as f64;
    let frequency = narrow(f64::from(shape.rope_theta).powf(exponent).recip());
    f64::from(position as f32 * frequency)
}

/// Rotary positions in the manner of Hugging Face: the first half of a head pairs with the
/// second. `values` is `[rows, heads, sequence, side]`.
fn rotated(values: &Tensor, [cosines, sines]: &[Tensor; 2]) -> Result<Tensor> {
    let half = values.dim(D::Minus1)? / 2;
    let first = values.narrow(D::Minus1, 0, half)?;
    let second = values.narrow(D::Minus1, half, half)?;
    let turned = Tensor::cat(&[&second.neg()?, &first], D::Minus1)?;
    scale(values, cosines)? + scale(&turned, sines)?
}

fn feed_forward(block: &Block, normed: &Tensor) -> Result<Tensor> {
    let gate = linear(normed, &block.gate)?.silu()?;
    linear(&(gate * linear(normed, &block.up)?)?, &block.down)
}

/// `values` times the transpose of `weight`, which has one row for each output.
fn linear(values: &Tensor, weight: &Tensor) -> Result<Tensor> {
    values.matmul(&weight.t()?)
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
fn narrow(value: f64) -> f32 {
    value as f32
}
