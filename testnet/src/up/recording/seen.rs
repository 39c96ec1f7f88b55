//! What was seen of one island.

use std::collections::BTreeMap;

use super::RoundName;
use crate::up::status::{Receipt, Status};

/// What was seen of one island.
#[derive(Clone, Debug, Default)]
pub(in crate::up) struct Seen {
    /// How fast it may be, of 1.
    pub(in crate::up) speed: f64,
    pub(in crate::up) node: Option<String>,
    /// The last status.
    pub(in crate::up) status: Option<Status>,
    /// Whether it is there.
    pub(in crate::up) presence: Presence,
    /// Whether it is left alone by all that is done to the swarm.
    pub(in crate::up) spared: bool,
    /// When it came, froze and went: from when on it was what.
    pub(in crate::up) lives: Vec<(f64, Presence)>,
    /// Its own loss, averaged over the last seconds, and when that was so.
    loss: Option<(f64, f64)>,
    /// When it measured its held-out loss, and what it was.
    pub(in crate::up) held_out: Vec<(f64, f64)>,
    /// Contributions it signed.
    pub(in crate::up) contributions: u64,
    /// How far they came, by round.
    pub(in crate::up) receipts: BTreeMap<String, Receipt>,
    /// For each fragment, the version up to which all peers agreed.
    pub(super) stable: BTreeMap<u64, u64>,
    /// What processes did that are no more.
    past: Totals,
    /// The newest of its processes that was heard of, counted by the node, and the newest of those
    /// that are no more.
    begun: u64,
    gone: Option<u64>,
    /// When it last came to another step, and the longest time between two.
    stepped: Option<f64>,
    longest_wait: f64,
}

/// Whether an island is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::up) enum Presence {
    /// It has not come yet.
    #[default]
    Awaited,
    Here,
    /// Its process is stopped where it stands.
    Frozen,
    /// It was killed, and comes back.
    Away,
    /// It said goodbye.
    Left,
    /// It ended before it was asked to.
    Ended(String),
}

/// What one process of an island did, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    steps: u64,
    tokens: u64,
    bytes_up: u64,
    bytes_down: u64,
    /// Tokens, weighted with the share of the time that was spent in steps.
    weighted: f64,
}

impl Totals {
    fn of(status: &Status) -> Self {
        let training = &status.training;
        Self {
            steps: training.step,
            tokens: training.tokens,
            bytes_up: status.bytes.up(),
            bytes_down: status.bytes.down(),
            weighted: training.tokens as f64 * training.training_share,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            tokens: self.tokens + other.tokens,
            bytes_up: self.bytes_up + other.bytes_up,
            bytes_down: self.bytes_down + other.bytes_down,
            weighted: self.weighted + other.weighted,
        }
    }
}

impl Seen {
    pub(super) fn new(speed: f64, spared: bool) -> Self {
        Self { speed, spared, ..Self::default() }
    }

    /// Whether it takes part, or will again.
    pub(in crate::up) fn belongs(&self) -> bool {
        !matches!(self.presence, Presence::Awaited | Presence::Left)
    }

    /// Its status, if it is there to have one: what a dead process said of itself is no more.
    pub(in crate::up) fn live(&self) -> Option<&Status> {
        let lives = |it: &&Status| self.gone.is_none_or(|gone| it.incarnation > gone);
        self.status.as_ref().filter(|_| self.presence == Presence::Here).filter(lives)
    }

    /// The share of the time it could train that it did train.
    pub(in crate::up) fn training_share(&self) -> f64 {
        let totals = self.totals();
        let now = self.status.as_ref().map_or(0.0, |it| it.training.training_share);
        // Before its first step there is nothing to weigh with.
        let share = if totals.tokens > 0 { totals.weighted / totals.tokens as f64 } else { now };
        (share / self.speed.max(f64::EPSILON)).min(1.0)
    }

    /// Steps of all its lives.
    pub(in crate::up) fn steps(&self) -> u64 {
        self.totals().steps
    }

    pub(in crate::up) fn tokens(&self) -> u64 {
        self.totals().tokens
    }

    pub(in crate::up) fn bytes_up(&self) -> u64 {
        self.totals().bytes_up
    }

    pub(in crate::up) fn bytes_down(&self) -> u64 {
        self.totals().bytes_down
    }

    /// The longest time, in seconds, that passed between two steps while it was there.
    pub(in crate::up) fn longest_wait(&self) -> f64 {
        self.longest_wait
    }

    /// Its own loss over the last seconds.
    pub(in crate::up) fn loss(&self) -> Option<f64> {
        self.loss.map(|(_, loss)| loss)
    }

    /// Contributions that every peer has merged: by their receipts, or because their round is
    /// stable, after which no receipt comes.
    pub(in crate::up) fn merged_by_all(&self) -> u64 {
        let merged = self.receipts.values().filter(|receipt| {
            let by_all = receipt.of > 0 && receipt.merged_by >= receipt.of;
            let stable = RoundName::read(&receipt.round).is_some_and(|it| {
                self.stable.get(&it.fragment).is_some_and(|version| it.number <= *version)
            });
            by_all || stable
        });
        merged.count() as u64
    }

    /// From now on it is there, or not.
    pub(super) fn turns(&mut self, at: f64, presence: Presence) {
        if self.presence != presence {
            self.lives.push((at, presence.clone()));
            if presence == Presence::Away {
                // What its next process begins with is another loss.
                self.loss = None;
            }
            self.presence = presence;
            self.stepped = None;
            self.bury();
        }
    }

    /// A process of it was heard of.
    pub(super) fn began(&mut self, incarnation: u64) {
        self.begun = self.begun.max(incarnation);
        self.bury();
    }

    /// While it is away, every process that was ever heard of is dead or dying.
    fn bury(&mut self) {
        if matches!(self.presence, Presence::Away | Presence::Left | Presence::Ended(_)) {
            self.gone = Some(self.begun);
        }
    }

    pub(super) fn status(&mut self, at: f64, status: Status) {
        // A dead node's port may be somebody else's by now.
        if self.node.as_ref().is_some_and(|node| *node != status.node) {
            return;
        }
        self.node = Some(status.node.clone());
        self.began(status.incarnation);
        if let Some(before) = &self.status
            && before.incarnation < status.incarnation
        {
            self.past = self.past.plus(Totals::of(before));
        }
        if self.presence == Presence::Awaited {
            self.turns(at, Presence::Here);
        }
        self.notice_steps(at, &status);
        for receipt in &status.receipts {
            self.receipts.insert(receipt.round.clone(), receipt.clone());
        }
        if let Some(last) = status.loss.last {
            let (before, smooth) = self.loss.unwrap_or((at, last));
            let weight = 1.0 - (-(at - before) / SMOOTH_OVER).exp();
            self.loss = Some((at, smooth + (last - smooth) * weight));
        }
        self.status = Some(status);
    }

    fn notice_steps(&mut self, at: f64, status: &Status) {
        let before = self.status.as_ref().map_or(0, |it| it.training.step);
        if status.training.step != before {
            let waited = self.stepped.map_or(0.0, |since| at - since);
            self.longest_wait = self.longest_wait.max(waited);
            self.stepped = Some(at);
        }
    }

    fn totals(&self) -> Totals {
        self.past.plus(self.status.as_ref().map(Totals::of).unwrap_or_default())
    }
}

/// Seconds over which an island's own loss is averaged.
const SMOOTH_OVER: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::super::super::status::example::status;
    use super::*;

    fn lived(incarnation: u64, step: u64) -> Status {
        let mut status = status(1, 3, 2.0);
        status.incarnation = incarnation;
        status.training.step = step;
        status.training.tokens = step * 1000;
        status
    }

    #[test]
    fn what_a_killed_process_did_counts_on() {
        let mut seen = Seen::new(1.0, false);
        seen.status(0.0, lived(1, 10));
        seen.status(1.0, lived(1, 30));
        let bytes = seen.bytes_up();
        seen.turns(2.0, Presence::Away);
        assert_eq!((seen.steps(), seen.live()), (30, None));
        seen.turns(5.0, Presence::Here);
        seen.status(6.0, lived(2, 5));
        assert_eq!((seen.steps(), seen.tokens(), seen.bytes_up()), (35, 35_000, 2 * bytes));
        assert!((seen.training_share() - 0.98).abs() < 1e-9);
        assert_eq!(seen.lives.len(), 3);
    }

    #[test]
    fn a_dead_process_does_not_speak_for_the_next_one() {
        let mut seen = Seen::new(1.0, false);
        seen.status(0.0, lived(1, 10));
        seen.turns(1.0, Presence::Away);
        seen.turns(2.0, Presence::Here);
        assert_eq!(seen.live(), None, "the new process has said nothing yet");
        seen.status(2.5, lived(1, 11));
        assert_eq!(seen.live(), None, "that was still the old one");
        seen.status(3.0, lived(2, 1));
        assert!(seen.live().is_some());
        seen.turns(4.0, Presence::Frozen);
        seen.turns(5.0, Presence::Here);
        assert!(seen.live().is_some(), "a thawed process is the one it was");
    }

    #[test]
    fn what_a_dying_process_says_late_makes_nobody_live() {
        let mut seen = Seen::new(1.0, false);
        seen.turns(0.0, Presence::Here);
        seen.turns(1.0, Presence::Away);
        seen.status(1.5, lived(1, 10));
        seen.turns(2.0, Presence::Here);
        assert_eq!(seen.live(), None);
    }

    #[test]
    fn a_strangers_status_is_not_taken() {
        let mut seen = Seen::new(1.0, false);
        seen.status(0.0, lived(1, 10));
        seen.status(1.0, Status { node: "ff".repeat(32), ..lived(1, 999) });
        assert_eq!(seen.steps(), 10);
    }

    #[test]
    fn only_waiting_while_it_is_there_counts() {
        let mut seen = Seen::new(1.0, false);
        for (at, step) in [(0.0, 1), (1.0, 2), (1.5, 2), (4.0, 3)] {
            seen.status(at, lived(1, step));
        }
        assert_eq!(seen.longest_wait(), 3.0);
        seen.turns(5.0, Presence::Frozen);
        seen.turns(50.0, Presence::Here);
        seen.status(51.0, lived(1, 4));
        assert_eq!(seen.longest_wait(), 3.0);
    }
}
