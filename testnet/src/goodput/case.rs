//! One thing to simulate.

/// Chips, how they are divided, and what islands do when one fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// All chips.
    pub chips: u64,
    /// Islands they are divided into; one is a single job.
    pub islands: u64,
    /// What an island does when a chip fails.
    pub policy: Policy,
    /// Mean time between interruptions of one chip, in seconds; infinite if chips never fail.
    pub mtbi_seconds: f64,
}

/// What an island does when one of its chips fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// It stands until the chip is replaced, and then until it has caught up.
    Restart {
        /// Seconds of catching up for each second that it stood.
        catch_up: f64,
        /// Catching up takes no longer than this many seconds: a snapshot is shorter.
        catch_up_max: f64,
    },
    /// It goes on without the slice, and takes it in again later. Both need a short stop, in
    /// which the node lives: what it missed it fetches while it trains.
    Elastic,
}

impl Policy {
    /// A job that has nobody to catch up with.
    pub const ALONE: Self = Self::Restart { catch_up: 0.0, catch_up_max: 0.0 };
}
