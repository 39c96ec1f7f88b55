use thiserror::Error;

/// A value that cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("value {index} is not finite")]
pub struct NonFinite {
    /// Where it is; the first, if there are several.
    pub index: usize,
}

/// Why bytes are not a payload of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// The bytes end before the header and the chunk table do.
    #[error("{bytes} bytes, the header and chunk table need {needed}")]
    Truncated {
        /// Bytes there are.
        bytes: usize,
        /// Bytes needed at least.
        needed: usize,
    },
    /// The bytes do not begin like a payload.
    #[error("begins with {0:02x?}, not with the payload tag")]
    Tag([u8; 4]),
    /// Another version of the format.
    #[error("payload format {0} is not known")]
    Version(u8),
    /// Encoded by another codec than the run's.
    #[error("codec {found}, expected {expected}")]
    Codec {
        /// Number of the codec expected.
        expected: u8,
        /// Number in the header.
        found: u8,
    },
    /// The header declares another number of elements than the fragment has.
    #[error("{found} elements, expected {expected}")]
    Elements {
        /// Elements of the fragment.
        expected: usize,
        /// Elements in the header.
        found: usize,
    },
    /// More elements than any fragment has.
    #[error("{0} elements are more than a fragment may have")]
    TooManyElements(usize),
    /// The header declares another number of chunks than its elements make.
    #[error("{found} chunks, expected {expected}")]
    Chunks {
        /// Chunks that the elements make.
        expected: usize,
        /// Chunks in the header.
        found: usize,
    },
    /// A chunk that is longer than an honest one can be.
    #[error("chunk {index} has {bytes} bytes, at most {max} allowed")]
    ChunkBytes {
        /// Which chunk.
        index: usize,
        /// Its bytes.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The chunk table describes fewer or more bytes than there are.
    #[error("{bytes} bytes, the chunk table makes {expected}")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Bytes that the table makes.
        expected: usize,
    },
    /// A chunk that the payload does not have was asked for.
    #[error("no chunk {0}")]
    NoSuchChunk(usize),
    /// The caller's slice does not have the chunk's length.
    #[error("slice of {found} elements, expected {expected}")]
    Slice {
        /// Elements of the chunk or payload.
        expected: usize,
        /// Elements of the slice.
        found: usize,
    },
    /// A chunk ends before its fixed part does.
    #[error("chunk of {bytes} bytes, its fixed part has {needed}")]
    ShortChunk {
        /// Bytes of the chunk.
        bytes: usize,
        /// Bytes of its fixed part.
        needed: usize,
    },
    /// Not a zstd frame, or one that expands to more than it may.
    #[error("not a zstd frame of at most {0} bytes")]
    Frame(usize),
    /// A zstd frame that expands to less than it must.
    #[error("the zstd frame holds {found} bytes, expected {expected}")]
    FrameBytes {
        /// Bytes the frame must hold.
        expected: usize,
        /// Bytes it holds.
        found: usize,
    },
    /// A scale that is negative or would make values that are not finite.
    #[error("scale {0:#06x} is negative or too large")]
    Scale(u16),
    /// A value that is not finite.
    #[error("value {0} of the chunk is not finite")]
    NonFinite(usize),
    /// A position past the end of its block, or gaps that do not end with the last position.
    #[error("positions do not fit block {0}")]
    Position(usize),
}
