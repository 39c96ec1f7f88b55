//! A byte stream, read as a sequence of inputs to one engine.

#![no_main]

#[path = "../../tests/support/stranger.rs"]
mod stranger;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    stranger::Stranger::new(script).play();
});
