//! What a plan is made from.

use std::fmt;

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::Rounds;
use atoll_protocol::limits::FRAGMENT_ELEMENTS_MAX;
use serde::Serialize;

use super::words;

/// What a plan is made from, checked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Inputs {
    /// Parameters of the model (N).
    pub params: u64,
    /// Islands (M).
    pub islands: u64,
    /// Milliseconds of one step.
    pub step_ms: u64,
    /// Own steps between captures of a fragment (H).
    pub steps: u64,
    /// Each island's link.
    pub link: Link,
    /// How pseudo-gradients are encoded.
    pub codec: Codec,
    /// Fragments (F).
    pub fragments: u64,
    /// Rounds kept open for late contributions (W).
    pub horizon: u64,
    /// Milliseconds between a node's frontiers.
    pub heartbeat_ms: u64,
}

/// Bits that an island sends and receives in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Sent.
    pub up: f64,
    /// Received.
    pub down: f64,
}

impl Link {
    /// The thinner direction: a round needs as much of both.
    pub fn least(&self) -> f64 {
        self.up.min(self.down)
    }
}

impl Inputs {
    /// Seconds in which an island takes H steps.
    pub fn cycle_seconds(&self) -> f64 {
        self.steps as f64 * self.step_ms as f64 / 1e3
    }

    /// Bits that the codec makes of one parameter, as `docs/benchmarks.md` measured them.
    pub fn bits(&self) -> f64 {
        bits_per_parameter(self.codec)
    }

    /// The fragments that a model of `params` parameters has if nobody chooses.
    pub fn usual_fragments(params: u64) -> u64 {
        FRAGMENTS_USUAL.max(params.div_ceil(FRAGMENT_ELEMENTS_MAX as u64)).min(params)
    }
}

impl Default for Inputs {
    /// The published run: 12 billion parameters on four islands, with our usual rounds.
    fn default() -> Self {
        let rounds = Rounds::default();
        let params = 12_000_000_000;
        Self {
            params,
            islands: 4,
            step_ms: 1000,
            steps: u64::from(rounds.steps),
            link: Link { up: 10e9, down: 10e9 },
            codec: Codec::Int4,
            fragments: Self::usual_fragments(params),
            horizon: u64::from(rounds.horizon),
            heartbeat_ms: rounds.heartbeat_ms,
        }
    }
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { islands, step_ms, steps, codec, fragments, horizon, .. } = self;
        let params = words::number(self.params as f64);
        let (up, down) = (self.link.up, self.link.down);
        let (up, down) = (words::bits_per_second(up), words::bits_per_second(down));
        let (codec, bits) = (codec.name(), self.bits());
        write!(
            f,
            "N = {params} parameters, M = {islands} islands, H = {steps} steps of s = {step_ms} ms, \
             F = {fragments} fragments,\ncodec {codec} (b = {bits} bits per parameter), W = \
             {horizon} rounds, L = {up} up and {down} down for each island"
        )
    }
}

/// Bits for each parameter: `cargo bench -p atoll-protocol`, see `docs/benchmarks.md`.
pub(super) const fn bits_per_parameter(codec: Codec) -> f64 {
    match codec {
        Codec::F32 => 24.55,
        Codec::Int8 => 7.49,
        Codec::Int4 => 3.32,
        Codec::Low => 2.00,
        Codec::Sparse => 0.189,
    }
}

/// As many as the published runs had.
const FRAGMENTS_USUAL: u64 = 24;

#[cfg(test)]
pub(super) mod tests {
    use atoll_protocol::codec::{encode, payload_bytes_max};
    use atoll_protocol::pool::Inline;
    use atoll_protocol::rng::Rng;

    use super::*;

    /// Sums of uniform draws are bell-shaped; real pseudo-gradients have heavier tails.
    pub(in crate::plan) fn bell(elements: usize) -> Vec<f32> {
        let mut rng = Rng::new(5);
        let mut draw = || rng.below(1 << 20) as f32 - (1 << 19) as f32;
        (0..elements).map(|_| draw() + draw() + draw() + draw()).collect()
    }

    #[test]
    fn the_bits_are_about_what_the_codecs_make() {
        let values = bell(1 << 19);
        for codec in Codec::ALL {
            let bytes = encode(codec, &values, &Inline).unwrap().len();
            let bits = bytes as f64 * 8.0 / values.len() as f64;
            let (said, most) = (bits_per_parameter(codec), payload_bytes_max(codec, 1 << 19));
            assert!((bits / said - 1.0).abs() < 0.2, "{codec:?}: {bits} against {said}");
            assert!(said / 8.0 * (1 << 19) as f64 <= most as f64, "{codec:?}");
        }
    }

    #[test]
    fn no_fragment_is_larger_than_the_protocol_allows() {
        assert_eq!(Inputs::usual_fragments(12_000_000_000), 24);
        assert_eq!(Inputs::usual_fragments(100_000_000_000), 187);
        assert_eq!(Inputs::usual_fragments(1000), 24);
    }
}
