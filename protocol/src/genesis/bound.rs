//! The range of every number in a genesis, in one place for TOML and for bytes.

use super::error::GenesisError;
use crate::limits::{FRAGMENTS_MAX, HORIZON_MAX, ROUND_AUTHORS_MAX};

/// The range of a whole number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Where the number stands in TOML.
    pub(super) key: &'static str,
    low: u64,
    high: u64,
}

impl Whole {
    /// Refuses a value outside the range.
    pub(super) fn check(&self, value: impl Into<u64>) -> Result<(), GenesisError> {
        let value = value.into();
        if (self.low..=self.high).contains(&value) { Ok(()) } else { Err(self.refuse(value)) }
    }

    /// What TOML says, as the field's type, or `default` if it says nothing.
    pub(super) fn read<T: TryFrom<i64>>(
        &self,
        raw: Option<i64>,
        default: T,
    ) -> Result<T, GenesisError> {
        let Some(value) = raw else { return Ok(default) };
        let inside = u64::try_from(value).is_ok_and(|value| self.check(value).is_ok());
        match T::try_from(value) {
            Ok(narrow) if inside => Ok(narrow),
            _ => Err(self.refuse(value)),
        }
    }

    /// [`Whole::read`] for a number without a default.
    pub(super) fn need<T: TryFrom<i64>>(&self, raw: Option<i64>) -> Result<T, GenesisError> {
        let needed = format!("{}..={}", self.low, self.high);
        let value = raw.ok_or(GenesisError::Missing { key: self.key.into(), needed })?;
        T::try_from(value).map_err(|_| self.refuse(value))
    }

    fn refuse(&self, value: impl std::fmt::Display) -> GenesisError {
        GenesisError::value(self.key, value, format!("{}..={}", self.low, self.high))
    }
}

/// The range of a real number; none may be negative, not even as a zero, so that equal values
/// have equal bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Real {
    /// Where the number stands in TOML.
    pub(super) key: &'static str,
    low: (f32, Edge),
    high: (f32, Edge),
}

impl Real {
    /// Refuses a value outside the range.
    pub(super) fn check(&self, value: f32) -> Result<(), GenesisError> {
        self.check_at(self.key, value)
    }

    /// [`Real::check`] for a number whose place in TOML is `key`.
    pub(super) fn check_at(&self, key: &str, value: f32) -> Result<(), GenesisError> {
        if self.contains(value) { Ok(()) } else { Err(self.refuse(key, f64::from(value))) }
    }

    /// What TOML says, or `default` if it says nothing.
    pub(super) fn read(&self, raw: Option<f64>, default: f32) -> Result<f32, GenesisError> {
        raw.map_or(Ok(default), |value| self.read_at(self.key, value))
    }

    /// The value that stands at `key` in TOML.
    pub(super) fn read_at(&self, key: &str, value: f64) -> Result<f32, GenesisError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding to the field's type is meant"
        )]
        let narrow = value as f32;
        if self.contains(narrow) { Ok(narrow) } else { Err(self.refuse(key, value)) }
    }

    fn contains(&self, value: f32) -> bool {
        let above = match self.low {
            (low, Edge::In) => value >= low,
            (low, Edge::Out) => value > low,
        };
        let below = match self.high {
            (high, Edge::In) => value <= high,
            (high, Edge::Out) => value < high,
        };
        above && below && value.is_sign_positive()
    }

    fn refuse(&self, key: &str, value: f64) -> GenesisError {
        let sign = |edge| if edge == Edge::In { "<=" } else { "<" };
        let ((low, from), (high, to)) = (self.low, self.high);
        let allowed = format!("{low} {} value {} {high}", sign(from), sign(to));
        GenesisError::value(key, value, allowed)
    }
}

/// Whether the end of a range belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    In,
    Out,
}

const fn whole(key: &'static str, low: u64, high: u64) -> Whole {
    Whole { key, low, high }
}

const fn above(key: &'static str, low: f32, high: f32) -> Real {
    Real { key, low: (low, Edge::Out), high: (high, Edge::In) }
}

const fn closed(key: &'static str, low: f32, high: f32) -> Real {
    Real { key, low: (low, Edge::In), high: (high, Edge::In) }
}

const fn below_one(key: &'static str) -> Real {
    Real { key, low: (0.0, Edge::In), high: (1.0, Edge::Out) }
}

/// TOML has no larger integers, and what has no TOML form cannot be read by people.
const TOML_MAX: u64 = i64::MAX as u64;
/// An hour: nothing a round waits for may take longer.
const HOUR_MS: u64 = 3_600_000;

pub(super) const INIT_SEED: Whole = whole("init_seed", 0, TOML_MAX);
pub(super) const FRAGMENTS: Whole = whole("fragments", 1, FRAGMENTS_MAX as u64);

pub(super) const VOCAB: Whole = whole("model.vocab", 2, 1 << 20);
pub(super) const WIDTH: Whole = whole("model.width", 2, 1 << 16);
pub(super) const LAYERS: Whole = whole("model.layers", 1, 1024);
pub(super) const HEADS: Whole = whole("model.heads", 1, 1024);
pub(super) const KV_HEADS: Whole = whole("model.kv_heads", 1, 1024);
pub(super) const HIDDEN: Whole = whole("model.hidden", 1, 1 << 20);
pub(super) const CONTEXT: Whole = whole("model.context", 1, 1 << 24);
pub(super) const ROPE_THETA: Real = closed("model.rope_theta", 1.0, 1e9);
pub(super) const NORM_EPSILON: Real = above("model.norm_epsilon", 0.0, 0.1);
/// Standard deviation of a tensor's initial values; its key depends on the tensor.
pub(super) const INIT: Real = above("tensor.init", 0.0, 10.0);

pub(super) const SEQUENCE: Whole = whole("data.sequence", 1, 1 << 24);
pub(super) const BATCH: Whole = whole("data.batch", 1, 1 << 16);

pub(super) const PEAK: Real = above("schedule.peak", 0.0, 10.0);
pub(super) const WARMUP_TOKENS: Whole = whole("schedule.warmup_tokens", 0, TOML_MAX);
pub(super) const TOTAL_TOKENS: Whole = whole("schedule.total_tokens", 1, TOML_MAX);
pub(super) const FLOOR_PERCENT: Whole = whole("schedule.floor_percent", 0, 100);

pub(super) const WEIGHT_DECAY: Real = closed("inner.weight_decay", 0.0, 1.0);
pub(super) const INNER_MOMENTUM: Real = below_one("inner.momentum");

pub(super) const STEPS: Whole = whole("rounds.steps", 1, 100_000);
pub(super) const STEPS_MIN: Whole = whole("rounds.steps_min", 1, 100_000);
pub(super) const QUORUM_MIN: Whole = whole("rounds.quorum_min", 1, ROUND_AUTHORS_MAX as u64);
pub(super) const QUORUM_PERCENT: Whole = whole("rounds.quorum_percent", 1, 100);
pub(super) const GRACE_MS_MIN: Whole = whole("rounds.grace_ms_min", 0, HOUR_MS);
pub(super) const GRACE_MS_MAX: Whole = whole("rounds.grace_ms_max", 0, HOUR_MS);
pub(super) const HORIZON: Whole = whole("rounds.horizon", 4, HORIZON_MAX as u64);
pub(super) const HEARTBEAT_MS: Whole = whole("rounds.heartbeat_ms", 1, HOUR_MS);
pub(super) const ALIVE_MS: Whole = whole("rounds.alive_ms", 2, 24 * HOUR_MS);
pub(super) const FORGET_MS: Whole = whole("rounds.forget_ms", 2, 7 * 24 * HOUR_MS);

pub(super) const LEARNING_RATE: Real = above("outer.learning_rate", 0.0, 10.0);
pub(super) const MOMENTUM: Real = below_one("outer.momentum");

pub(super) const WEIGHT_CAP: Whole = whole("merge.weight_cap", 1, 1000);
pub(super) const CLIP: Real = closed("merge.clip", 1.0, 1e6);
pub(super) const NORM_MAX: Real = above("merge.norm_max", 0.0, 1e12);
