//! The genesis: everything the swarm must share, and nothing one node may choose.
//!
//! Human-readable TOML in, canonical bytes out; `RunId` is the hash of those bytes.

use serde::{Deserialize, Serialize};

use crate::codec::Codec;
use crate::id::NodeId;

/// The immutable, shared description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// What people call the run.
    pub name: String,
    /// The tensors, in name order, and how they begin.
    pub tensors: Vec<TensorSpec>,
    /// Seed of the initial parameters.
    pub init_seed: u64,
    /// Number of fragments.
    pub fragments: u16,
    /// When rounds open, close and are forgotten.
    pub rounds: Rounds,
    /// The outer optimiser.
    pub outer: Outer,
    /// How a cut becomes one pseudo-gradient.
    pub merge: Merge,
    /// How pseudo-gradients are encoded.
    pub codec: Codec,
    /// Who may contribute.
    pub roster: RosterPolicy,
}

/// One tensor of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// Unique name; tensors are always walked in name order.
    pub name: String,
    /// Dimensions.
    pub shape: Vec<u32>,
    /// What it is, which decides how `rda` merges it.
    pub kind: TensorKind,
    /// How it begins.
    pub init: Init,
}

/// What a tensor is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorKind {
    /// A weight matrix.
    Matrix,
    /// An embedding or output head.
    Embedding,
    /// A norm's gain, a bias.
    Vector,
}

/// Initial values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// All zero.
    Zeros,
    /// All one.
    Ones,
    /// Bell-shaped around zero with this standard deviation.
    Normal(f32),
}

/// When rounds open, close and are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Own steps between captures of a fragment (H).
    pub steps: u32,
    /// Own steps an island must have to answer a round that another opened (h_min).
    pub steps_min: u32,
    /// Fewest contributions that let a round close.
    pub quorum_min: u32,
    /// Share of the live islands that must have contributed, in percent.
    pub quorum_percent: u32,
    /// Shortest grace window after quorum.
    pub grace_ms_min: u64,
    /// Longest grace window after quorum.
    pub grace_ms_max: u64,
    /// Rounds kept open for late contributions (W).
    pub horizon: u32,
    /// Silence after which an island no longer counts for quorum.
    pub alive_ms: u64,
    /// Silence after which an island's agreement is no longer awaited for stability.
    pub forget_ms: u64,
    /// Time between a node's frontiers.
    pub heartbeat_ms: u64,
}

/// The outer optimiser: Nesterov SGD on merged pseudo-gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outer {
    /// Outer learning rate (eta).
    pub learning_rate: f32,
    /// Outer momentum (mu).
    pub momentum: f32,
}

/// How a cut becomes one pseudo-gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The rule.
    pub rule: MergeRule,
    /// A contribution's weight is at most this many times the cut's median tokens.
    pub weight_cap: u32,
    /// A contribution's norm is clipped to this multiple of the cut's median norm.
    pub clip: f32,
    /// Largest norm a payload may have to be admitted at all.
    pub norm_max: f32,
}

/// The rule that merges a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeRule {
    /// Token-weighted mean.
    Mean,
    /// Radial-directional averaging for matrices, mean for the rest.
    Rda,
    /// Mean of each element without its extremes.
    TrimmedMean,
    /// Mean around a robust centre, with distances clipped.
    CenteredClip,
}

/// Who may contribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RosterPolicy {
    /// Anyone. Caps and robust merging carry the weight.
    Open,
    /// The listed nodes.
    Closed {
        /// Who.
        nodes: Vec<NodeId>,
        /// Keys that may revoke.
        stewards: Vec<NodeId>,
    },
    /// Whoever holds an invitation signed by a steward.
    Invite {
        /// Keys that may invite and revoke.
        stewards: Vec<NodeId>,
    },
}
