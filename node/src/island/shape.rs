//! The shape of a Llama-architecture decoder, in the numbers loops use.

use atoll_protocol::genesis::Model;

/// The shape of a Llama-architecture decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Entries of the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads for keys and values.
    pub kv_heads: usize,
    /// Width inside a feed-forward block.
    pub hidden: usize,
    /// Longest sequence in tokens.
    pub context: usize,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// Base of the rotary position angles.
    pub rope_theta: f32,
    /// What norms add before they divide.
    pub norm_epsilon: f32,
}

impl Shape {
    /// The shape of `model`; none if only the islands know how it computes.
    pub fn of(model: &Model) -> Option<Self> {
        let Model::Llama {
            vocab,
            width,
            layers,
            heads,
            kv_heads,
            hidden,
            context,
            tied,
            rope_theta,
            norm_epsilon,
        } = *model
        else {
            return None;
        };
        Some(Self {
            vocab: vocab as usize,
            width: width as usize,
            layers: layers as usize,
            heads: heads as usize,
            kv_heads: kv_heads as usize,
            hidden: hidden as usize,
            context: context as usize,
            tied,
            rope_theta,
            norm_epsilon,
        })
    }

    /// Width of one attention head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// Width of all keys, or of all values, of one token.
    pub fn kv_width(&self) -> usize {
        self.head_width() * self.kv_heads
    }
}
