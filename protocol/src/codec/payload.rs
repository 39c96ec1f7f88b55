use super::error::PayloadError;
use super::scratch::Scratch;
use super::store::{Add, Replace, Store};
use super::{CHUNK, Codec, float, int4, int8, low, sparse};
use crate::limits::FRAGMENT_ELEMENTS_MAX;
use crate::pool::{self, Pool};

/// An opened payload: its header and chunk table are good, no chunk was looked into yet.
///
/// Any bytes give values, all of them finite, or an error, and never use more memory than the
/// number of elements implies.
///
/// Header: the tag `ATPL`, the format's version (1 byte), the codec (1), the number of elements
/// (4) and of chunks (4), then the length of every chunk (4 each); integers are little-endian.
#[derive(Clone, Debug)]
pub struct Payload<'a> {
    codec: Codec,
    elements: usize,
    chunks: Vec<&'a [u8]>,
}

impl<'a> Payload<'a> {
    /// Opens a payload that must be of this codec and have so many elements.
    pub fn open(bytes: &'a [u8], codec: Codec, elements: usize) -> Result<Self, PayloadError> {
        if elements > FRAGMENT_ELEMENTS_MAX {
            return Err(PayloadError::TooManyElements(elements));
        }
        let count = elements.div_ceil(CHUNK);
        let needed = header_bytes(count);
        let Some((header, body)) = bytes.split_at_checked(needed) else {
            return Err(PayloadError::Truncated { bytes: bytes.len(), needed });
        };
        let (fixed, table) = header.split_at(FIXED_BYTES);
        check_fixed(fixed, codec, elements, count)?;
        Ok(Self { codec, elements, chunks: split(body, table, codec, elements)? })
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Decodes chunk `index`, the elements from `index * CHUNK` on. `out` must have exactly its
    /// length; after an error it is as it was.
    pub fn decode_chunk(&self, index: usize, out: &mut [f32]) -> Result<(), PayloadError> {
        self.store_chunk(index, out, Replace)
    }

    /// Adds `weight` times chunk `index` to `acc`: bit for bit what [`Self::decode_chunk`] and
    /// `acc[i] += weight * x[i]` give. After an error `acc` is as it was.
    pub fn accumulate_chunk(
        &self,
        index: usize,
        weight: f32,
        acc: &mut [f32],
    ) -> Result<(), PayloadError> {
        self.store_chunk(index, acc, Add { weight })
    }

    /// Decodes everything. After an error other chunks may have been written to `out`.
    pub fn decode(&self, out: &mut [f32], pool: &dyn Pool) -> Result<(), PayloadError> {
        if out.len() != self.elements {
            return Err(PayloadError::Slice { expected: self.elements, found: out.len() });
        }
        let parts = out.chunks_mut(CHUNK).enumerate().collect();
        pool::map(pool, parts, |(index, part)| self.decode_chunk(index, part)).into_iter().collect()
    }

    fn store_chunk(
        &self,
        index: usize,
        out: &mut [f32],
        store: impl Store,
    ) -> Result<(), PayloadError> {
        let chunk = *self.chunks.get(index).ok_or(PayloadError::NoSuchChunk(index))?;
        let expected = chunk_elements(self.elements, index);
        if out.len() != expected {
            return Err(PayloadError::Slice { expected, found: out.len() });
        }
        Scratch::lend(|scratch| match self.codec {
            Codec::F32 => float::decode(chunk, scratch, out, store),
            Codec::Int8 => int8::decode(chunk, scratch, out, store),
            Codec::Int4 => int4::decode(chunk, scratch, out, store),
            Codec::Low => low::decode(chunk, scratch, out, store),
            Codec::Sparse => sparse::decode(chunk, scratch, out, store),
        })
    }
}

/// Bytes before the first of so many chunks.
pub(super) const fn header_bytes(chunks: usize) -> usize {
    FIXED_BYTES + chunks * LENGTH_BYTES
}

/// Fills the header of a payload whose chunks have these lengths.
pub(super) fn write_header(header: &mut [u8], codec: Codec, elements: usize, lengths: &[usize]) {
    let mut bytes = Vec::with_capacity(header.len());
    bytes.extend(TAG);
    bytes.extend([VERSION, codec.id()]);
    bytes.extend(number(elements));
    bytes.extend(number(lengths.len()));
    bytes.extend(lengths.iter().flat_map(|&length| number(length)));
    header.copy_from_slice(&bytes);
}

fn check_fixed(
    fixed: &[u8],
    codec: Codec,
    elements: usize,
    chunks: usize,
) -> Result<(), PayloadError> {
    let &[t0, t1, t2, t3, version, id, e0, e1, e2, e3, c0, c1, c2, c3] = fixed else {
        return Err(PayloadError::Truncated { bytes: fixed.len(), needed: FIXED_BYTES });
    };
    if [t0, t1, t2, t3] != TAG {
        return Err(PayloadError::Tag([t0, t1, t2, t3]));
    }
    if version != VERSION {
        return Err(PayloadError::Version(version));
    }
    if id != codec.id() {
        return Err(PayloadError::Codec { expected: codec.id(), found: id });
    }
    let found = u32::from_le_bytes([e0, e1, e2, e3]) as usize;
    if found != elements {
        return Err(PayloadError::Elements { expected: elements, found });
    }
    let found = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
    if found != chunks {
        return Err(PayloadError::Chunks { expected: chunks, found });
    }
    Ok(())
}

fn split<'a>(
    body: &'a [u8],
    table: &[u8],
    codec: Codec,
    elements: usize,
) -> Result<Vec<&'a [u8]>, PayloadError> {
    let (entries, _) = table.as_chunks();
    let mut chunks = Vec::with_capacity(entries.len());
    let mut rest = body;
    let mut total = 0;
    for (index, &entry) in entries.iter().enumerate() {
        let bytes = u32::from_le_bytes(entry) as usize;
        let max = codec.chunk_bytes_max(chunk_elements(elements, index));
        if bytes > max {
            return Err(PayloadError::ChunkBytes { index, bytes, max });
        }
        // Going on after the end costs nothing and lets the error name the whole length.
        total += bytes;
        let (chunk, after) = rest.split_at(bytes.min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    if total != body.len() {
        let header = header_bytes(entries.len());
        return Err(PayloadError::Length { bytes: header + body.len(), expected: header + total });
    }
    Ok(chunks)
}

/// Elements of chunk `index`, which must be one of the chunks.
fn chunk_elements(elements: usize, index: usize) -> usize {
    (elements - index * CHUNK).min(CHUNK)
}

fn number(value: usize) -> [u8; LENGTH_BYTES] {
    u32::try_from(value).expect("limits keep every count of a payload below 2^32").to_le_bytes()
}

/// How every payload begins.
const TAG: [u8; 4] = *b"ATPL";
/// Raised when any byte after it changes its meaning.
const VERSION: u8 = 1;
/// Tag, version, codec, elements, chunks.
const FIXED_BYTES: usize = 14;
/// Bytes of one entry of the chunk table.
const LENGTH_BYTES: usize = 4;
