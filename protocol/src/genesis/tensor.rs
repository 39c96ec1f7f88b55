//! The tensors a run trains.

use serde::{Deserialize, Serialize};

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

impl TensorSpec {
    /// A tensor from its parts.
    pub fn new(name: impl Into<String>, shape: &[u32], kind: TensorKind, init: Init) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), kind, init }
    }

    /// Number of parameters, or the largest number there is if the shape has more.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, &dimension| {
            product.saturating_mul(usize::try_from(dimension).unwrap_or(usize::MAX))
        })
    }
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
