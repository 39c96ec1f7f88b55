//! The swarm at one moment.

use super::{Recording, Seen, mean};

/// The swarm at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::up) struct Frame {
    /// Seconds since the start.
    pub(in crate::up) at: f64,
    /// Tokens that all islands trained.
    pub(in crate::up) tokens: u64,
    pub(in crate::up) tokens_per_s: f64,
    /// Bytes that all islands sent.
    pub(in crate::up) bytes_up: u64,
    pub(in crate::up) bytes_down: u64,
    /// Contributions that all islands signed, and those of them that every peer has merged.
    pub(in crate::up) contributions: u64,
    pub(in crate::up) merged_by_all: u64,
    /// The mean of the islands' own losses.
    pub(in crate::up) loss: Option<f64>,
    /// The swarm's loss on held-out text.
    pub(in crate::up) held_out: Option<f64>,
    /// The share of islands that agree, averaged over the fragments.
    pub(in crate::up) agreement: f64,
    pub(in crate::up) islands: Vec<Point>,
}

/// One island at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::up) struct Point {
    pub(in crate::up) step: u64,
    pub(in crate::up) tokens: u64,
    pub(in crate::up) tokens_per_s: f64,
    pub(in crate::up) loss: Option<f64>,
    pub(in crate::up) held_out: Option<f64>,
    pub(in crate::up) training_share: f64,
    pub(in crate::up) bytes_up: u64,
    pub(in crate::up) bytes_down: u64,
    pub(in crate::up) alive: u32,
    pub(in crate::up) staleness: u32,
    pub(in crate::up) merged_share: f64,
    pub(in crate::up) contributions: u64,
    pub(in crate::up) versions: Vec<u32>,
}

impl Frame {
    pub(super) fn of(recording: &Recording, at: f64) -> Self {
        Self {
            at,
            tokens: recording.tokens(),
            tokens_per_s: recording.tokens_per_s(),
            bytes_up: recording.bytes_up(),
            bytes_down: recording.bytes_down(),
            contributions: recording.islands.iter().map(|it| it.contributions).sum(),
            merged_by_all: recording.islands.iter().map(Seen::merged_by_all).sum(),
            loss: recording.loss(),
            held_out: recording.held_out(),
            agreement: recording.agreement_share(),
            islands: recording.islands.iter().map(Point::of).collect(),
        }
    }
}

impl Point {
    /// The mean version over the fragments.
    pub(in crate::up) fn version(&self) -> f64 {
        mean(self.versions.iter().map(|version| f64::from(*version))).unwrap_or(0.0)
    }

    fn of(seen: &Seen) -> Self {
        let Some(status) = &seen.status else { return Self::default() };
        // Who is not there trains nothing and measures nothing.
        let here = seen.live().is_some();
        Self {
            step: seen.steps(),
            tokens: seen.tokens(),
            tokens_per_s: if here { status.training.tokens_per_s } else { 0.0 },
            loss: seen.loss().filter(|_| here),
            held_out: seen.held_out.last().map(|(_, loss)| *loss),
            training_share: seen.training_share(),
            bytes_up: seen.bytes_up(),
            bytes_down: seen.bytes_down(),
            alive: status.gauges.alive,
            staleness: status.gauges.staleness,
            merged_share: status.gauges.merged_in_last_round.share,
            contributions: seen.contributions,
            versions: status.fragments.iter().map(|it| it.version).collect(),
        }
    }
}
