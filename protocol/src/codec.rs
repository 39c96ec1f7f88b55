//! Lossy, deterministic encodings of pseudo-gradients.
//!
//! A payload is a header, a table of chunk lengths and the chunks. Chunks are coded one by one,
//! so a pool can work on many at once, and each ends with a zstd frame that only serves as an
//! entropy coder. Decoding is a pure function of the bytes: a decoded value is one product
//! `scale * level` of 32-bit floats, the same on every machine. The encoder keeps no state: what
//! a codec loses stays with the caller. Why each codec is what it is: docs/decisions/0002-codec.md

mod blocks;
mod entropy;
mod error;
mod float;
mod int4;
mod int8;
mod low;
mod nibbles;
mod payload;
mod scale;
mod scratch;
mod sparse;
mod store;

use serde::{Deserialize, Serialize};

pub use error::{NonFinite, PayloadError};
pub use payload::Payload;

use scratch::Scratch;

use crate::limits::FRAGMENT_ELEMENTS_MAX;
use crate::pool::{self, Pool};

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

/// Elements that are coded as a unit. With this many the symbols of [`Codec::Int4`] fill exactly
/// one zstd block, so that their Huffman table is not shared with the scales.
pub const CHUNK: usize = 1 << 18;

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 5] = [Self::F32, Self::Int8, Self::Int4, Self::Low, Self::Sparse];

    /// What people call it: the same word as in a genesis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Low => "low",
            Self::Sparse => "sparse",
        }
    }

    /// Its byte in a payload's header.
    const fn id(self) -> u8 {
        match self {
            Self::F32 => 0,
            Self::Int8 => 1,
            Self::Int4 => 2,
            Self::Low => 3,
            Self::Sparse => 4,
        }
    }

    /// The most bytes a chunk of so many elements can have.
    fn chunk_bytes_max(self, elements: usize) -> usize {
        match self {
            Self::F32 => float::bytes_max(elements),
            Self::Int8 => int8::bytes_max(elements),
            Self::Int4 => int4::bytes_max(elements),
            Self::Low => low::bytes_max(elements),
            Self::Sparse => sparse::bytes_max(elements),
        }
    }

    /// Writes the chunk of `values` to the front of `slot` and returns how long it is.
    fn encode_chunk(self, values: &[f32], slot: &mut [u8]) -> Result<usize, NonFinite> {
        Scratch::lend(|scratch| match self {
            Self::F32 => float::encode(values, scratch, slot),
            Self::Int8 => int8::encode(values, scratch, slot),
            Self::Int4 => int4::encode(values, scratch, slot),
            Self::Low => low::encode(values, scratch, slot),
            Self::Sparse => sparse::encode(values, scratch, slot),
        })
    }
}

/// The payload of `values`. How many threads the pool has does not change it.
///
/// # Panics
///
/// If there are more than [`FRAGMENT_ELEMENTS_MAX`] values; no fragment has.
pub fn encode(codec: Codec, values: &[f32], pool: &dyn Pool) -> Result<Vec<u8>, NonFinite> {
    assert!(values.len() <= FRAGMENT_ELEMENTS_MAX, "a fragment has fewer elements");
    // Every chunk is written where it must be if all before it are as long as they can be, and
    // then moved forward: a buffer of its own for each would cost more than its encoding.
    let mut bytes = vec![0; payload_bytes_max(codec, values.len())];
    let (header, body) = bytes.split_at_mut(payload::header_bytes(values.len().div_ceil(CHUNK)));
    let slot = codec.chunk_bytes_max(CHUNK);
    let parts = values.chunks(CHUNK).zip(body.chunks_mut(slot)).collect();
    let coded = pool::map(pool, parts, |(values, slot)| codec.encode_chunk(values, slot));
    let mut lengths = Vec::with_capacity(coded.len());
    let mut end = 0;
    for (index, coded) in coded.into_iter().enumerate() {
        let length = coded.map_err(|error| NonFinite { index: index * CHUNK + error.index })?;
        body.copy_within(index * slot..index * slot + length, end);
        end += length;
        lengths.push(length);
    }
    payload::write_header(header, codec, values.len(), &lengths);
    let total = header.len() + end;
    bytes.truncate(total);
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// The most bytes an honest payload of so many elements can have: a header that declares more is
/// refused before anything is fetched.
pub fn payload_bytes_max(codec: Codec, elements: usize) -> usize {
    let whole = elements / CHUNK;
    let rest = elements % CHUNK;
    let last = if rest == 0 { 0 } else { codec.chunk_bytes_max(rest) };
    payload::header_bytes(elements.div_ceil(CHUNK)) + whole * codec.chunk_bytes_max(CHUNK) + last
}
