//! Properties of the payload codec.

#![expect(clippy::cast_possible_truncation, reason = "tests build values from small numbers")]

#[path = "support/threads.rs"]
mod threads;

use atoll_protocol::codec::{
    self, CHUNK, Codec, NonFinite, Payload, PayloadError, payload_bytes_max,
};
use atoll_protocol::pool::Inline;
use proptest::prelude::*;
use threads::Threads;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn decoded_values_are_near(codec in codecs(), values in values()) {
        let payload = encode(codec, &values);
        prop_assert!(payload.len() <= payload_bytes_max(codec, values.len()));
        let decoded = decode(codec, &payload, values.len());
        prop_assert!(decoded.iter().all(|value| value.is_finite()));
        check_error(codec, &values, &decoded)?;
    }

    /// Holds for three codecs: `f32` loses nothing, and the scales of `int4` and the magnitudes
    /// of `sparse` are found again. It does not hold for `int8`, where rounding a scale up can
    /// leave the largest level unused, nor for `low`, whose step follows the mean square.
    #[test]
    fn decoded_values_encode_to_themselves(
        codec in prop::sample::select(vec![Codec::F32, Codec::Int4, Codec::Sparse]),
        values in values(),
    ) {
        let once = decode(codec, &encode(codec, &values), values.len());
        let twice = decode(codec, &encode(codec, &once), values.len());
        prop_assert_eq!(bits(&once), bits(&twice));
    }

    #[test]
    fn accumulating_is_decoding_then_adding(
        codec in codecs(),
        values in values(),
        weight in prop::num::f32::NORMAL,
        start in prop::sample::select(vec![0.0f32, -0.0, 1.0, -1e-3, 3e38]),
    ) {
        let bytes = encode(codec, &values);
        let payload = Payload::open(&bytes, codec, values.len()).unwrap();
        let decoded = decode(codec, &bytes, values.len());
        let mut expected = vec![start; values.len()];
        for (slot, value) in expected.iter_mut().zip(&decoded) {
            *slot += weight * value;
        }
        let mut acc = vec![start; values.len()];
        for (index, part) in acc.chunks_mut(CHUNK).enumerate() {
            payload.accumulate_chunk(index, weight, part).unwrap();
        }
        prop_assert_eq!(bits(&expected), bits(&acc));
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(
        codec in codecs(),
        elements in 0usize..5000,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        framed in any::<bool>(),
    ) {
        // Behind a good header and table the chunk decoders are reached as well.
        let bytes = if framed { with_header(codec, elements, &bytes) } else { bytes };
        decodes_totally(codec, &bytes, elements)?;
    }

    #[test]
    fn any_symbols_are_a_value_or_an_error(
        codec in codecs(),
        elements in 1usize..300,
        raw in prop::collection::vec(any::<u8>(), 5000),
        fixed in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        // A good frame of the right length with whatever symbols and scales.
        let raw = &raw[..raw_bytes(codec, elements).min(raw.len())];
        let mut chunk = if codec == Codec::Sparse { fixed } else { Vec::new() };
        chunk.extend(zstd::bulk::compress(raw, 1).unwrap());
        decodes_totally(codec, &with_header(codec, elements, &chunk), elements)?;
    }

    #[test]
    fn a_changed_byte_is_a_value_or_an_error(
        codec in codecs(),
        values in values(),
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut bytes = encode(codec, &values);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        decodes_totally(codec, &bytes, values.len())?;
    }

    #[test]
    fn another_length_is_refused(
        codec in codecs(),
        values in values(),
        cut in any::<prop::sample::Index>(),
        more in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let mut bytes = encode(codec, &values);
        let cut = cut.index(bytes.len());
        prop_assert!(Payload::open(&bytes[..cut], codec, values.len()).is_err());
        bytes.extend(more);
        let error = Payload::open(&bytes, codec, values.len()).unwrap_err();
        let is_length = matches!(error, PayloadError::Length { .. });
        prop_assert!(is_length, "{error}");
    }

    #[test]
    fn what_is_not_finite_is_found(
        codec in codecs(),
        values in values(),
        at in any::<prop::sample::Index>(),
        bad in prop::sample::select(vec![f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
    ) {
        prop_assume!(!values.is_empty());
        let mut values = values;
        let index = at.index(values.len());
        values[index] = bad;
        prop_assert_eq!(codec::encode(codec, &values, &Inline), Err(NonFinite { index }));
    }
}

#[test]
fn every_codec_over_several_chunks() {
    let values = normal(2 * CHUNK + 12_345);
    for codec in Codec::ALL {
        let bytes = encode(codec, &values);
        assert!(bytes.len() <= payload_bytes_max(codec, values.len()));
        let four = Threads::new(4);
        assert_eq!(bytes, codec::encode(codec, &values, &four).unwrap(), "{codec:?}");
        let payload = Payload::open(&bytes, codec, values.len()).unwrap();
        assert_eq!(payload.chunks(), 3);
        let inline = decode(codec, &bytes, values.len());
        let mut parallel = vec![0.0; values.len()];
        payload.decode(&mut parallel, &four).unwrap();
        assert_eq!(bits(&inline), bits(&parallel));
        let mut last = vec![0.0; 12_345];
        payload.decode_chunk(2, &mut last).unwrap();
        assert_eq!(bits(&inline[2 * CHUNK..]), bits(&last));
    }
}

#[test]
fn errors_and_sizes_on_normal_values() {
    let values = normal(CHUNK);
    let limits = [(27.1, 0.0), (7.8, 5e-5), (3.6, 0.015), (2.2, 0.085), (0.2, 0.88)];
    for (codec, (bits_max, error_max)) in Codec::ALL.into_iter().zip(limits) {
        let bytes = encode(codec, &values);
        let decoded = decode(codec, &bytes, values.len());
        let bits = bytes.len() as f64 * 8.0 / values.len() as f64;
        let error = squares(values.iter().zip(&decoded).map(|(x, y)| x - y))
            / squares(values.iter().copied());
        assert!(bits <= bits_max, "{codec:?}: {bits} bits");
        assert!(error <= error_max, "{codec:?}: error {error}");
    }
}

#[test]
fn extremes_stay_finite() {
    for extreme in [f32::MAX, f32::MIN_POSITIVE, 1e-45, 0.0, -0.0] {
        for codec in Codec::ALL {
            let values = [extreme, -extreme, extreme / 2.0, 0.0, extreme];
            let decoded = decode(codec, &encode(codec, &values), values.len());
            assert!(decoded.iter().all(|value| value.is_finite()), "{codec:?} {extreme:e}");
            assert!(decoded.iter().all(|value| value.abs() <= extreme.abs() * 1.01));
        }
    }
}

#[test]
fn nothing_is_a_payload_too() {
    for codec in Codec::ALL {
        let bytes = encode(codec, &[]);
        assert_eq!(bytes.len(), payload_bytes_max(codec, 0));
        let payload = Payload::open(&bytes, codec, 0).unwrap();
        assert_eq!(payload.chunks(), 0);
        assert_eq!(payload.decode(&mut [], &Inline), Ok(()));
        assert_eq!(payload.decode_chunk(0, &mut []), Err(PayloadError::NoSuchChunk(0)));
    }
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let good = encode(Codec::Int4, &[1.0; 300]);
    let open = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Payload::open(&bytes, Codec::Int4, 300).map(|_| ()).unwrap_err()
    };
    assert_eq!(open(0, b'X'), PayloadError::Tag(*b"XTPL"));
    assert_eq!(open(4, 9), PayloadError::Version(9));
    assert_eq!(open(5, 1), PayloadError::Codec { expected: 2, found: 1 });
    assert_eq!(open(6, 0), PayloadError::Elements { expected: 300, found: 256 });
    assert_eq!(open(10, 2), PayloadError::Chunks { expected: 1, found: 2 });
    assert!(matches!(open(17, 1), PayloadError::ChunkBytes { index: 0, .. }));
    let error = Payload::open(&good, Codec::Int4, 1 << 30).unwrap_err();
    assert_eq!(error, PayloadError::TooManyElements(1 << 30));
    let payload = Payload::open(&good, Codec::Int4, 300).unwrap();
    let error = payload.decode_chunk(0, &mut [0.0; 299]);
    assert_eq!(error, Err(PayloadError::Slice { expected: 300, found: 299 }));
}

#[test]
fn bombs_and_short_frames_are_refused() {
    for codec in Codec::ALL {
        for (expanded, level) in [(1 << 24, 19), (3, 1)] {
            let frame = zstd::bulk::compress(&vec![0; expanded], level).unwrap();
            let mut chunk = vec![0; if codec == Codec::Sparse { 11 } else { 0 }];
            chunk.extend(frame);
            let bytes = with_header(codec, 1300, &chunk);
            let mut out = vec![7.0; 1300];
            let error = match Payload::open(&bytes, codec, 1300) {
                Ok(payload) => payload.decode(&mut out, &Inline).unwrap_err(),
                Err(error) => error,
            };
            let refused = matches!(
                error,
                PayloadError::Frame(_)
                    | PayloadError::FrameBytes { .. }
                    | PayloadError::Position(_)
                    | PayloadError::ChunkBytes { .. }
            );
            assert!(refused, "{codec:?}: {error}");
            assert!(out.iter().all(|&value| value == 7.0), "{codec:?}: written before the error");
        }
    }
}

#[test]
fn names_are_those_of_a_genesis() {
    for codec in Codec::ALL {
        assert_eq!(genesis_name(codec), codec.name());
    }
}

fn codecs() -> impl Strategy<Value = Codec> {
    prop::sample::select(Codec::ALL.to_vec())
}

/// Lengths around block borders; values of one size, of all sizes, or mostly zeros.
fn values() -> impl Strategy<Value = Vec<f32>> {
    let length = prop_oneof![0usize..300, 3900usize..4300, 8190usize..8195];
    let value = prop_oneof![
        Just((-1e-3f32..1e-3).boxed()),
        Just((prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL).boxed()),
        Just(prop_oneof![20 => Just(0.0f32), 1 => -1.0f32..1.0].boxed()),
    ];
    (length, value).prop_flat_map(|(length, value)| prop::collection::vec(value, length))
}

fn check_error(codec: Codec, values: &[f32], decoded: &[f32]) -> Result<(), TestCaseError> {
    let (block, levels) = match codec {
        Codec::F32 => {
            prop_assert_eq!(bits(values), bits(decoded));
            return Ok(());
        }
        Codec::Int8 => (128, 127.0),
        Codec::Int4 => (128, 7.0),
        Codec::Low | Codec::Sparse => {
            // Never worse than sending nothing; half a step for what is not clipped.
            let error = squares_f64(values.iter().zip(decoded).map(|(&x, &y)| x as f64 - y as f64));
            let energy = squares_f64(values.iter().map(|&x| f64::from(x)));
            prop_assert!(error <= energy, "{error:e} of {energy:e}");
            return Ok(());
        }
    };
    for (values, decoded) in values.chunks(block).zip(decoded.chunks(block)) {
        let largest = values.iter().fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
        // Half a step; a scale is at most 1/128 above what it must be, and blocks that are
        // smaller than any normal number are lost.
        let bound = largest / levels * (0.5 * 129.0 / 128.0 + 1e-4) + 1e-35;
        // Past the largest scale whose levels are all finite, values are clipped.
        let bound = if largest > 2e38 { largest * 0.15 } else { bound };
        for (value, decoded) in values.iter().zip(decoded) {
            let error = (f64::from(*value) - f64::from(*decoded)).abs();
            prop_assert!(error <= bound, "{value:e} became {decoded:e}, bound {bound:e}");
        }
    }
    Ok(())
}

fn decodes_totally(codec: Codec, bytes: &[u8], elements: usize) -> Result<(), TestCaseError> {
    let Ok(payload) = Payload::open(bytes, codec, elements) else { return Ok(()) };
    let mut out = vec![7.0f32; elements];
    if payload.decode(&mut out, &Inline).is_ok() {
        prop_assert!(out.iter().all(|value| value.is_finite()));
    } else {
        prop_assert!(out.iter().all(|&value| value == 7.0), "written before the error");
    }
    Ok(())
}

/// A payload of one chunk.
fn with_header(codec: Codec, elements: usize, chunk: &[u8]) -> Vec<u8> {
    let number = Codec::ALL.iter().position(|&other| other == codec).expect("ALL has all");
    let mut bytes = b"ATPL\x01".to_vec();
    bytes.push(number as u8);
    bytes.extend((elements as u32).to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((chunk.len() as u32).to_le_bytes());
    bytes.extend(chunk);
    bytes
}

fn raw_bytes(codec: Codec, elements: usize) -> usize {
    match codec {
        Codec::F32 => elements * 4,
        Codec::Int8 => elements.div_ceil(128) * 130,
        Codec::Int4 => elements.div_ceil(128) * 66,
        Codec::Low => elements.div_ceil(4096) * 2050,
        Codec::Sparse => (elements * 82).div_ceil(4096),
    }
}

fn encode(codec: Codec, values: &[f32]) -> Vec<u8> {
    codec::encode(codec, values, &Inline).expect("finite values")
}

fn decode(codec: Codec, bytes: &[u8], elements: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; elements];
    let payload = Payload::open(bytes, codec, elements).expect("an honest payload");
    payload.decode(&mut out, &Inline).expect("an honest payload");
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn squares(values: impl Iterator<Item = f32>) -> f64 {
    squares_f64(values.map(f64::from))
}

fn squares_f64(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum()
}

/// Sums of twelve uniform numbers, near enough to normal.
fn normal(count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| ((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * 1e-3).collect()
}

fn genesis_name(codec: Codec) -> String {
    let value = toml::Value::try_from(codec).expect("a unit variant");
    value.as_str().expect("a unit variant is a string").to_owned()
}
