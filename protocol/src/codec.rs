//! Lossy, deterministic encodings of pseudo-gradients.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::pool::Pool;

/// How a pseudo-gradient is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// 32-bit floats, no loss.
    F32,
    /// Block-scaled 8-bit integers.
    Int8,
    /// Block-scaled 4-bit integers: the default.
    Int4,
    /// Entropy-coded near 2 bits.
    Low,
    /// The largest values only, 2 bits each.
    Sparse,
}

/// Elements that are encoded and decoded as a unit.
pub const CHUNK: usize = 1 << 17;

/// A value that is not finite cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("element {index} is not finite")]
pub struct NonFinite {
    /// Where.
    pub index: usize,
}

/// Why bytes are not a payload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// Not as long as the elements need.
    #[error("{bytes} bytes, expected {expected}")]
    Length {
        /// Bytes found.
        bytes: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// A chunk that cannot be decoded.
    #[error("chunk {index} is malformed")]
    Chunk {
        /// Which.
        index: usize,
    },
}

/// The payload that encodes `values`.
pub fn encode(codec: Codec, values: &[f32], pool: &dyn Pool) -> Result<Vec<u8>, NonFinite> {
    let _ = (codec, pool);
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(NonFinite { index });
    }
    Ok(bytemuck::cast_slice(values).to_vec())
}

/// An encoded pseudo-gradient.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    elements: usize,
}

impl<'a> Payload<'a> {
    /// The payload in `bytes`.
    pub fn open(bytes: &'a [u8], codec: Codec, elements: usize) -> Result<Self, PayloadError> {
        let _ = codec;
        if bytes.len() != elements * 4 {
            return Err(PayloadError::Length { bytes: bytes.len(), expected: elements * 4 });
        }
        Ok(Self { bytes, elements })
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.elements.div_ceil(CHUNK)
    }

    /// Decodes one chunk.
    pub fn decode_chunk(&self, index: usize, out: &mut [f32]) -> Result<(), PayloadError> {
        let bytes = &self.bytes[index * CHUNK * 4..][..out.len() * 4];
        bytemuck::cast_slice_mut::<f32, u8>(out).copy_from_slice(bytes);
        Ok(())
    }

    /// Adds `weight` times one chunk.
    pub fn accumulate_chunk(
        &self,
        index: usize,
        weight: f32,
        acc: &mut [f32],
    ) -> Result<(), PayloadError> {
        let bytes = &self.bytes[index * CHUNK * 4..][..acc.len() * 4];
        for (sum, value) in acc.iter_mut().zip(bytes.chunks_exact(4)) {
            *sum += weight * f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        }
        Ok(())
    }

    /// Decodes everything.
    pub fn decode(&self, out: &mut [f32], pool: &dyn Pool) -> Result<(), PayloadError> {
        let parts = out.chunks_mut(CHUNK).enumerate().collect();
        crate::pool::map(pool, parts, |(index, part)| self.decode_chunk(index, part))
            .into_iter()
            .collect()
    }
}
