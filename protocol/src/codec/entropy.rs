//! zstd as an entropy coder.
//!
//! Quantised pseudo-gradients repeat nothing, so all that zstd can gain is in its Huffman stage.

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

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
}
