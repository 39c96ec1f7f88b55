//! Why a device cannot do what was asked.

use super::memory::{MemoryNeed, Readable};
use crate::island::IslandError;

/// Why a device cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No device has this name.
    #[error("there is no device `{0}`\nhint: use auto, cpu, cuda:N or metal")]
    Unknown(String),
    /// The binary has no code for this kind of device.
    #[error("this binary was built without {0}: rebuild with --features {0}")]
    NotBuilt(&'static str),
    /// The machine has fewer cards than the number asked for implies.
    #[error("cuda:{asked} asked, but this machine has {present}")]
    Absent {
        /// The card's number, from 0.
        asked: usize,
        /// How many cards there are.
        present: usize,
    },
    /// The device is there but does not start.
    #[error("{device} does not start: {reason}")]
    Start {
        /// Which device.
        device: String,
        /// What its driver said.
        reason: String,
    },
    /// The model would not fit.
    #[error(
        "training needs about {} ({need}), but {device} has {} free\nhint: {}",
        Readable(need.total()), Readable(*available), need.advice()
    )]
    NotEnoughMemory {
        /// Which device.
        device: String,
        /// What the parts need.
        need: MemoryNeed,
        /// Bytes that are free.
        available: u64,
    },
    /// The device ran out of memory on the way.
    #[error("{device} is out of memory: {reason}\nhint: {advice}")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// What its driver said.
        reason: String,
        /// Which setting to lower.
        advice: String,
    },
    /// The batch is no whole number of rows, or has none.
    #[error("{tokens} tokens are no batch of rows of {row}")]
    Batch {
        /// Tokens given.
        tokens: usize,
        /// Tokens in a row.
        row: usize,
    },
    /// A sequence is longer than the model's context.
    #[error("a sequence of {sequence} tokens is longer than the model's context of {context}")]
    TooLong {
        /// Tokens in the sequence.
        sequence: usize,
        /// The model's longest.
        context: usize,
    },
    /// A token that the vocabulary does not have.
    #[error("token {token} is outside the vocabulary of {vocab}")]
    Token {
        /// The token.
        token: u32,
        /// Entries of the vocabulary.
        vocab: usize,
    },
    /// A slice that is not as long as what it stands for.
    #[error("{what} has {given} values where {expected} are needed")]
    Length {
        /// What the slice stands for.
        what: &'static str,
        /// Values needed.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// A fragment that the run does not have.
    #[error("the run has no fragment {0}")]
    Fragment(usize),
    /// The loss or the gradient is no number any more; nothing was changed.
    #[error("the loss is {loss} and the norm of the gradient {gradient_norm}")]
    Diverged {
        /// Mean loss of the batch.
        loss: f32,
        /// Norm of the gradient.
        gradient_norm: f32,
    },
    /// Anything else the device reports.
    #[error("{0}")]
    Failed(String),
}

impl DeviceError {
    /// What candle reported, with running out of memory told apart.
    pub(super) fn from_candle(error: &candle_core::Error, device: &str, advice: &str) -> Self {
        let reason = error.to_string();
        if is_out_of_memory(&reason) {
            let (device, advice) = (device.to_owned(), advice.to_owned());
            return Self::OutOfMemory { device, reason, advice };
        }
        Self::Failed(reason)
    }
}

impl From<DeviceError> for IslandError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error.to_string())
    }
}

/// CUDA's, cuBLAS's and Metal's ways of saying it; candle wraps them as text.
fn is_out_of_memory(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    OUT_OF_MEMORY.iter().any(|sign| reason.contains(sign))
}

const OUT_OF_MEMORY: [&str; 6] = [
    "out of memory",
    "out_of_memory",
    "outofmemory",
    "cublas_status_alloc_failed",
    "failed to create metal resource",
    "failed to allocate",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_names_the_setting_to_lower() {
        let reason =
            "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")\nhint: unrelated".to_owned();
        let error = candle_core::Error::Msg(reason);
        let error = DeviceError::from_candle(&error, "cuda:0", "lower the batch (now 8)");
        assert!(matches!(error, DeviceError::OutOfMemory { .. }));
        let text = error.to_string();
        assert!(text.starts_with("cuda:0 is out of memory"), "{text}");
        assert!(text.ends_with("hint: lower the batch (now 8)"), "{text}");
        let other = candle_core::Error::Msg("invalid argument".into());
        let other = DeviceError::from_candle(&other, "cuda:0", "");
        assert!(matches!(other, DeviceError::Failed(_)));
    }
}
