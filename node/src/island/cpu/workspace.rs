//! Everything one thread writes to while it takes sequences through the model and back.

use atoll_kernels::multiplier::{Multiplier, Precision};

use super::model::Model;

/// One thread's buffers, for as many sequences as it takes at a time.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Most sequences taken at a time.
    pub(super) sequences: usize,
    /// Tokens in work.
    pub(super) inputs: Vec<u32>,
    /// What follows each of them.
    pub(super) targets: Vec<u32>,
    pub(super) blocks: Vec<BlockState>,
    /// What leaves the last block.
    pub(super) output: Vec<f32>,
    pub(super) inverse: Vec<f32>,
    /// A norm's output, of whichever norm is in work.
    pub(super) normed: Vec<f32>,
    /// Logits of as many rows as [`LOGITS`] allows.
    pub(super) logits: Vec<f32>,
    /// Rows of logits in work at a time.
    pub(super) logit_rows: usize,
    /// Inside a feed-forward block: what enters its last product.
    pub(super) hidden: Vec<f32>,
    pub(super) scores: Vec<f32>,
    pub(super) multiplier: Multiplier,
    /// The gradient by the residual stream.
    pub(super) stream_gradient: Vec<f32>,
    /// The gradient by a norm's output or an attention's output.
    pub(super) inner_gradient: Vec<f32>,
    pub(super) qkv_gradient: Vec<f32>,
}

/// What a block keeps from the way forward for the way back.
#[derive(Debug)]
pub(super) struct BlockState {
    pub(super) input: Vec<f32>,
    pub(super) attention_inverse: Vec<f32>,
    pub(super) qkv: Vec<f32>,
    pub(super) attended: Vec<f32>,
    pub(super) log_sums: Vec<f32>,
    pub(super) middle: Vec<f32>,
    pub(super) feed_inverse: Vec<f32>,
    pub(super) gate_up: Vec<f32>,
}

impl Workspace {
    pub(super) fn new(model: &Model, precision: Precision) -> Self {
        let shape = &model.shape;
        let sequences = (ROWS / model.sequence).max(1);
        let rows = sequences * model.sequence;
        let attention = model.attention();
        let logit_rows = (LOGITS / shape.vocab.max(1)).clamp(16, rows.max(16));
        let block = |_| BlockState {
            input: vec![0.0; rows * shape.width],
            attention_inverse: vec![0.0; rows],
            qkv: vec![0.0; rows * attention.stride()],
            attended: vec![0.0; rows * shape.width],
            log_sums: vec![0.0; rows * shape.heads],
            middle: vec![0.0; rows * shape.width],
            feed_inverse: vec![0.0; rows],
            gate_up: vec![0.0; rows * shape.hidden * 2],
        };
        let panel = PANEL.max(64 * shape.width.max(shape.hidden));
        Self {
            sequences,
            inputs: Vec::with_capacity(rows),
            targets: Vec::with_capacity(rows),
            blocks: (0..shape.layers).map(block).collect(),
            output: vec![0.0; rows * shape.width],
            inverse: vec![0.0; rows],
            normed: vec![0.0; rows * shape.width],
            logits: vec![0.0; logit_rows * shape.vocab],
            logit_rows,
            hidden: vec![0.0; rows * shape.hidden],
            scores: vec![0.0; attention.scratch()],
            multiplier: Multiplier::new(precision, panel),
            stream_gradient: vec![0.0; rows * shape.width],
            inner_gradient: vec![0.0; rows * shape.width],
            qkv_gradient: vec![0.0; rows * attention.stride()],
        }
    }

    /// Takes up these sequences, each `sequence` tokens and one more long.
    pub(super) fn take(&mut self, tokens: &[u32], sequence: usize) {
        self.inputs.clear();
        self.targets.clear();
        for whole in tokens.chunks_exact(sequence + 1) {
            self.inputs.extend_from_slice(&whole[..sequence]);
            self.targets.extend_from_slice(&whole[1..]);
        }
    }
}

/// Rows taken at a time: enough that products do not spend their time on packing weights, few
/// enough that activations stay near the cores.
const ROWS: usize = 512;
/// Elements of a weight that are turned at a time: half of a usual second cache.
const PANEL: usize = 128 << 10;
/// Most logits that a thread holds at a time: 32 MiB.
const LOGITS: usize = 8 << 20;
