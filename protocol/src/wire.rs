//! Bytes and back: serde + bincode 2 with one fixed configuration.
//!
//! Integers have a fixed width and are little-endian, so a value has one encoding; decoding
//! checks that by encoding again. Every decode has a byte limit and refuses trailing bytes.
//! Wire types are never recursive: a decoder's depth is known when it is compiled.

pub mod tag;
pub mod version;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::limits::GENESIS_BYTES_MAX;

/// Why bytes are not a value of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// More bytes than any value of this kind may have.
    #[error("{bytes} bytes, at most {max} allowed")]
    TooLong {
        /// Bytes received.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The bytes do not describe a value, or do so in another way than ours.
    #[error("malformed or not in canonical form")]
    Malformed,
}

/// The one encoding of `value`.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config())
        .expect("wire types hold nothing that cannot be encoded")
}

/// The value that `bytes` encode, if they are exactly its encoding and at most `max` long.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, WireError> {
    if bytes.len() > max {
        return Err(WireError::TooLong { bytes: bytes.len(), max });
    }
    let (value, used) = bincode::serde::decode_from_slice::<T, _>(bytes, config())
        .map_err(|_| WireError::Malformed)?;
    // Encoding again costs little and closes every door at once: trailing bytes, padded
    // integers, unsorted maps.
    if used != bytes.len() || encode(&value) != bytes {
        return Err(WireError::Malformed);
    }
    Ok(value)
}

/// The limit is that of the longest value there is, a genesis; callers of [`decode`] set a lower
/// one for what they expect.
fn config() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_little_endian()
        .with_fixed_int_encoding()
        .with_limit::<GENESIS_BYTES_MAX>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = encode(&(7u32, vec![1u8, 2]));
        assert_eq!(decode::<(u32, Vec<u8>)>(&bytes, 100), Ok((7, vec![1, 2])));
        bytes.push(0);
        assert_eq!(decode::<(u32, Vec<u8>)>(&bytes, 100), Err(WireError::Malformed));
    }

    #[test]
    fn a_length_bomb_is_refused_without_the_memory() {
        let bytes = encode(&u64::MAX);
        assert_eq!(decode::<Vec<u64>>(&bytes, 100), Err(WireError::Malformed));
    }

    #[test]
    fn a_bool_has_two_encodings_only() {
        assert_eq!(decode::<bool>(&[2], 8), Err(WireError::Malformed));
    }
}
