//! zstd as an entropy coder.
//!
//! Quantised pseudo-gradients repeat nothing, so all that zstd can gain is in its Huffman stage.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, ParamSwitch};

use super::error::PayloadError;

/// The most bytes that a frame of `raw` bytes can have: zstd's own formula, written out because
/// what we refuse must not change with the library.
pub(super) const fn bytes_max(raw: usize) -> usize {
    const BLOCK: usize = 128 * 1024;
    let margin = if raw < BLOCK { (BLOCK - raw) >> 11 } else { 0 };
    raw + (raw >> 8) + margin
}

/// What writes frames.
pub(super) fn compressor() -> Compressor<'static> {
    let possible = "there is memory, and the settings are constants";
    let mut compressor = Compressor::new(LEVEL).expect(possible);
    compressor
        .set_parameter(CParameter::LiteralCompressionMode(ParamSwitch::Enable))
        .expect(possible);
    compressor
}

/// What the frame holds, which must be `exact` bytes.
pub(super) fn expand(frame: &[u8], exact: usize) -> Result<Vec<u8>, PayloadError> {
    let raw = expand_up_to(frame, exact)?;
    if raw.len() != exact {
        return Err(PayloadError::FrameBytes { expected: exact, found: raw.len() });
    }
    Ok(raw)
}

/// What the frame holds, which may be at most `max` bytes; no more memory is ever used for it.
pub(super) fn expand_up_to(frame: &[u8], max: usize) -> Result<Vec<u8>, PayloadError> {
    let mut raw = vec![0; max];
    let mut decompressor = Decompressor::new().map_err(|_| PayloadError::Frame(max))?;
    let written = decompressor
        .decompress_to_buffer(frame, &mut raw[..])
        .map_err(|_| PayloadError::Frame(max))?;
    raw.truncate(written);
    Ok(raw)
}

/// The fastest level that still writes Huffman codes: searching for matches gains nothing.
const LEVEL: i32 = -50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_zstds() {
        for raw in [0, 1, 1000, 131_071, 131_072, 131_073, 1 << 20, 1 << 29] {
            assert_eq!(bytes_max(raw), zstd::zstd_safe::compress_bound(raw));
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 19).unwrap();
        assert!(bomb.len() < 200);
        assert_eq!(expand(&bomb, 1000), Err(PayloadError::Frame(1000)));
        assert_eq!(expand(&bomb, 1 << 20).map(|raw| raw.len()), Ok(1 << 20));
    }
}
