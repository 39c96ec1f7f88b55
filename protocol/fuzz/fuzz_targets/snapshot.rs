//! Any bytes as a snapshot: an error, or a state whose bytes they are, every value finite.

#![no_main]

use atoll_protocol::fragment::{Fragment, Piece};
use atoll_protocol::genesis::TensorKind;
use atoll_protocol::id::FragmentId;
use atoll_protocol::outer::OuterState;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (id, bytes) = input;
    // As many elements as the length allows for, so that the length is seldom what is wrong.
    let elements = bytes.len().saturating_sub(32) / 8;
    let piece = Piece { tensor: 0, kind: TensorKind::Vector, start: 0, len: elements };
    let fragment = Fragment { id: FragmentId(id), pieces: vec![piece], elements };
    if let Ok(state) = OuterState::from_bytes(bytes, &fragment) {
        assert_eq!(state.bytes(), bytes);
        assert_eq!(state.fragment(), fragment.id);
        assert!(state.params().iter().chain(state.momentum()).all(|value| value.is_finite()));
    }
});
