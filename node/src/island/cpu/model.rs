//! A decoder's fixed numbers: its shape, its tensors' places and its angles.

use std::ops::Range;

use atoll_kernels::attention::Attention;
use atoll_kernels::rope;

use super::error::CpuError;
use crate::island::layout::Layout;
use crate::island::shape::Shape;

/// A decoder's fixed numbers.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) shape: Shape,
    pub(super) sequence: usize,
    pub(super) embedding: Range<usize>,
    pub(super) blocks: Vec<Block>,
    pub(super) norm: Range<usize>,
    /// The embedding's place if the head is tied.
    pub(super) head: Range<usize>,
    pub(super) cosines: Vec<f32>,
    pub(super) sines: Vec<f32>,
}

/// The places of one block's tensors.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) attention_norm: Range<usize>,
    pub(super) query: Range<usize>,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    pub(super) output: Range<usize>,
    pub(super) feed_norm: Range<usize>,
    pub(super) gate: Range<usize>,
    pub(super) up: Range<usize>,
    pub(super) down: Range<usize>,
}

impl Model {
    pub(super) fn new(shape: Shape, layout: &Layout, sequence: usize) -> Result<Self, CpuError> {
        let Shape { width, heads, kv_heads, context, .. } = shape;
        let fits = heads > 0
            && kv_heads > 0
            && width.is_multiple_of(2 * heads)
            && heads.is_multiple_of(kv_heads);
        if !fits {
            return Err(CpuError::Heads { width, heads, kv_heads });
        }
        if sequence == 0 || sequence > context {
            return Err(CpuError::Sequence { sequence, context });
        }
        let embedding = place(layout, "model.embed_tokens.weight", &[shape.vocab, width])?;
        let head = if shape.tied {
            embedding.clone()
        } else {
            place(layout, "lm_head.weight", &[shape.vocab, width])?
        };
        let blocks = (0..shape.layers).map(|layer| Block::new(&shape, layout, layer));
        let angles = sequence * shape.head_width() / 2;
        let (mut cosines, mut sines) = (vec![0.0; angles], vec![0.0; angles]);
        rope::angles(shape.rope_theta, shape.head_width(), &mut cosines, &mut sines);
        Ok(Self {
            shape,
            sequence,
            embedding,
            blocks: blocks.collect::<Result<_, _>>()?,
            norm: place(layout, "model.norm.weight", &[width])?,
            head,
            cosines,
            sines,
        })
    }

    /// The attention of one sequence.
    pub(super) fn attention(&self) -> Attention {
        Attention {
            heads: self.shape.heads,
            kv_heads: self.shape.kv_heads,
            head_width: self.shape.head_width(),
            rows: self.sequence,
        }
    }
}

impl Block {
    fn new(shape: &Shape, layout: &Layout, layer: usize) -> Result<Self, CpuError> {
        let Shape { width, hidden, .. } = *shape;
        let keys = shape.kv_width();
        let find = |name: &str, sides: &[usize]| {
            place(layout, &format!("model.layers.{layer}.{name}.weight"), sides)
        };
        Ok(Self {
            attention_norm: find("input_layernorm", &[width])?,
            query: find("self_attn.q_proj", &[width, width])?,
            key: find("self_attn.k_proj", &[keys, width])?,
            value: find("self_attn.v_proj", &[keys, width])?,
            output: find("self_attn.o_proj", &[width, width])?,
            feed_norm: find("post_attention_layernorm", &[width])?,
            gate: find("mlp.gate_proj", &[hidden, width])?,
            up: find("mlp.up_proj", &[hidden, width])?,
            down: find("mlp.down_proj", &[width, hidden])?,
        })
    }
}

fn place(layout: &Layout, name: &str, sides: &[usize]) -> Result<Range<usize>, CpuError> {
    let tensor = layout.tensor(name).ok_or_else(|| CpuError::Missing(name.to_owned()))?;
    if tensor.shape != sides {
        return Err(CpuError::Sides {
            name: name.to_owned(),
            found: tensor.shape.clone(),
            wanted: sides.to_vec(),
        });
    }
    Ok(tensor.range.clone())
}
