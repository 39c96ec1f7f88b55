//! Why the CPU cannot train a model.

use thiserror::Error;

/// Why the CPU cannot train a model.
#[derive(Debug, Error)]
pub enum CpuError {
    /// The layout lacks a tensor of the architecture.
    #[error("the run has no tensor {0}")]
    Missing(String),
    /// A tensor has other sides than the shape says.
    #[error("tensor {name} is {found:?}, the shape says {wanted:?}")]
    Sides {
        /// Which tensor.
        name: String,
        /// Its sides in the layout.
        found: Vec<usize>,
        /// Its sides by the shape.
        wanted: Vec<usize>,
    },
    /// Heads do not divide the width, or have no halves to turn.
    #[error("{heads} heads and {kv_heads} for keys do not fit a width of {width}")]
    Heads {
        /// Width of the residual stream.
        width: usize,
        /// Attention heads.
        heads: usize,
        /// Heads for keys and values.
        kv_heads: usize,
    },
    /// A sequence longer than the context, or empty.
    #[error("a sequence of {sequence} tokens: allowed 1 to {context}")]
    Sequence {
        /// What was asked for.
        sequence: usize,
        /// The longest the shape takes.
        context: usize,
    },
    /// The system gives no threads.
    #[error("{count} threads cannot be started: {reason}")]
    Threads {
        /// How many were asked for.
        count: usize,
        /// What the system said.
        reason: String,
    },
}
