//! Any bytes, opened as a payload of each codec: values that are all finite, or an error.

#![no_main]

use atoll_protocol::codec::{Codec, Payload};
use atoll_protocol::pool::Inline;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (codec, elements, bytes) = input;
    let codec = Codec::ALL[usize::from(codec) % Codec::ALL.len()];
    let elements = usize::from(elements % 2048);
    // The header is what a fuzzer would spend its time on; so every other input gets a good one.
    let framed = framed(codec, elements, bytes);
    for bytes in [bytes, framed.as_slice()] {
        let Ok(payload) = Payload::open(bytes, codec, elements) else { continue };
        let mut decoded = vec![f32::NAN; elements];
        if payload.decode(&mut decoded, &Inline).is_err() {
            continue;
        }
        assert!(decoded.iter().all(|value| value.is_finite()));
        let mut added = vec![0.5f32; elements];
        for index in 0..payload.chunks() {
            payload.accumulate_chunk(index, 2.0, &mut added).expect("what decodes can be added");
        }
        let sums = decoded.iter().map(|value| 0.5 + 2.0 * value);
        assert!(added.iter().zip(sums).all(|(added, sum)| added.to_bits() == sum.to_bits()));
    }
});

/// `body` as the one chunk of a payload.
fn framed(codec: Codec, elements: usize, body: &[u8]) -> Vec<u8> {
    let position = Codec::ALL.iter().position(|other| *other == codec);
    let id = u8::try_from(position.expect("all are listed")).expect("five codecs");
    let chunks = u32::from(elements > 0);
    let mut bytes = b"ATPL".to_vec();
    bytes.extend([1, id]);
    bytes.extend(u32::try_from(elements).expect("at most 2047").to_le_bytes());
    bytes.extend(chunks.to_le_bytes());
    if chunks == 1 {
        bytes.extend(u32::try_from(body.len()).expect("inputs are short").to_le_bytes());
        bytes.extend_from_slice(body);
    }
    bytes
}
