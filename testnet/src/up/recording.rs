//! All that was seen of a swarm, for the screen, the summary and the report.

mod agreement;
mod frame;
mod marks;
mod rounds;
mod seen;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::chaos::Deed;
use super::happening::{self, Happening, Names, Weight};
use super::status::{Fates, Receipt, Status, Warning};

pub(super) use agreement::Agreement;
pub(super) use frame::{Frame, Point};
pub(super) use marks::{Mark, SeenLiar};
pub(super) use rounds::{Round, RoundName};
pub(super) use seen::{Presence, Seen};

/// All that was seen of a swarm.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    pub(super) islands: Vec<Seen>,
    /// The swarm at one moment after another.
    pub(super) frames: Vec<Frame>,
    pub(super) happenings: Vec<Happening>,
    /// What was done to the swarm on purpose, and when.
    pub(super) inflicted: Vec<(f64, Deed)>,
    /// When training ended, once it has.
    pub(super) trained: Option<f64>,
    /// Whether all leave, so that it is no news that nobody is there.
    pub(super) over: bool,
    /// Nodes that lie.
    pub(super) liars: Vec<SeenLiar>,
    /// Moments that are marked in every chart: when, at which island, what.
    pub(super) marks: Vec<(f64, usize, Mark)>,
    /// What nodes say a person should look at, and which islands' nodes do.
    pub(super) warnings: BTreeMap<Warning, BTreeSet<usize>>,
    pub(super) rounds: BTreeMap<RoundName, Round>,
    /// Seconds between frames.
    frame_every: f64,
}

impl Recording {
    /// For islands of these speeds, over about so many seconds.
    pub(super) fn new(speeds: impl IntoIterator<Item = f64>, seconds: f64) -> Self {
        let seen = |speed| Seen::new(speed, true);
        let frame_every = (seconds / FRAMES).max(FRAME_EVERY_MIN);
        Self { islands: speeds.into_iter().map(seen).collect(), frame_every, ..Self::default() }
    }

    /// An island comes, freezes or goes.
    pub(super) fn turns(&mut self, at: f64, island: usize, presence: Presence) {
        if let Some(seen) = self.islands.get_mut(island) {
            seen.turns(at, presence);
        }
    }

    /// Something is done to the swarm on purpose.
    pub(super) fn inflict(&mut self, at: f64, deed: &Deed) {
        self.note(at, deed.island(), deed.words(), Weight::Inflicted);
        self.inflicted.push((at, deed.clone()));
    }

    /// An island says where it stands.
    pub(super) fn status(&mut self, at: f64, island: usize, status: Status) {
        if let Some(seen) = self.islands.get_mut(island) {
            for warning in status.warnings.iter().filter(|_| !self.over) {
                self.warnings.entry(warning.clone()).or_default().insert(island);
            }
            seen.status(at, status);
        }
    }

    /// A line of an island's event log.
    pub(super) fn event(&mut self, at: f64, island: usize, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let Some(seen) = self.islands.get_mut(island) else { return };
        match text("event") {
            "started" => {
                seen.node = Some(text("node").to_owned());
                seen.began(event["incarnation"].as_u64().unwrap_or(0));
            }
            "contributed" => seen.contributions += 1,
            "stable" if event["forced"] != true => {
                let version = event["version"].as_u64().unwrap_or(0);
                seen.stable.insert(event["fragment"].as_u64().unwrap_or(0), version);
            }
            "held_out" => seen.held_out.extend(event["loss"].as_f64().map(|loss| (at, loss))),
            "receipt" => {
                if let Ok(receipt) = serde_json::from_value::<Receipt>(event.clone()) {
                    seen.receipts.insert(receipt.round.clone(), receipt);
                }
            }
            _ => {}
        }
        self.mark(at, island, event);
        if self.round_event(at, island, event) {
            self.tell(at, island, event);
        }
    }

    /// Notes what an event means in words, if it is worth a line.
    fn tell(&mut self, at: f64, island: usize, event: &Value) {
        let islands: Vec<Option<String>> = self.islands.iter().map(|it| it.node.clone()).collect();
        let liars: Vec<Option<String>> = self.liars.iter().map(|it| it.node.clone()).collect();
        let names = Names { islands: &islands, liars: &liars };
        if let Some((words, mut weight)) = happening::words(event, names) {
            // Who joins connects once to ask for the genesis, and then again.
            let met = event["event"] != "peer_down" || self.has_met(event["node"].as_str());
            if !met
                || (self.over && ["peer_down", "warning"].iter().any(|it| event["event"] == *it))
            {
                weight = Weight::Usual;
            }
            self.note(at, Some(island), words, weight);
        }
    }

    /// Something happened that no node tells of.
    pub(super) fn note(
        &mut self,
        at: f64,
        island: Option<usize>,
        words: impl Into<String>,
        weight: Weight,
    ) {
        self.happenings.push(Happening { at, island, words: words.into(), weight });
    }

    /// Keeps the present moment, if the last one that was kept is long enough ago.
    pub(super) fn frame(&mut self, at: f64) {
        let last = self.frames.last().map(|frame| frame.at);
        if last.is_none_or(|last| at - last >= self.frame_every) {
            self.frames.push(Frame::of(self, at));
        }
    }

    /// Islands that take part, and those that should.
    pub(super) fn ready(&self) -> (usize, usize) {
        let ready = self.islands.iter().filter_map(Seen::live).filter(|it| it.is_caught_up());
        let there = |it: &&Seen| it.belongs() && !matches!(it.presence, Presence::Ended(_));
        (ready.count(), self.islands.iter().filter(there).count())
    }

    /// Whether nobody is there, and nobody will come.
    pub(super) fn is_deserted(&self) -> bool {
        let gone = |presence: &Presence| matches!(presence, Presence::Left | Presence::Ended(_));
        self.islands.iter().all(|it| gone(&it.presence))
    }

    /// The last status of each island that gave one.
    pub(super) fn statuses(&self) -> impl Iterator<Item = &Status> {
        self.islands.iter().filter_map(|it| it.status.as_ref())
    }

    /// The swarm's loss on held-out text: the mean of what islands measured lately. All have nearly
    /// the same parameters, but each measures seldom, so that what one measured last may be old.
    pub(super) fn held_out(&self) -> Option<f64> {
        let last = || self.islands.iter().filter_map(|it| it.held_out.last());
        let newest = last().map(|(at, _)| *at).max_by(f64::total_cmp)?;
        mean(last().filter(|(at, _)| newest - at <= LATELY).map(|(_, loss)| *loss))
    }

    /// The swarm's loss on held-out text over something: one point for each change, because nothing
    /// is known of what was between two measurements.
    pub(super) fn held_out_curve(&self, of: fn(&Frame) -> f64) -> Vec<(f64, f64)> {
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for (x, loss) in self.frames.iter().filter_map(|it| Some((of(it), it.held_out?))) {
            if curve.last().is_none_or(|it| it.1 != loss) {
                curve.push((x, loss));
            }
        }
        curve
    }

    /// What was measured first on held-out text.
    pub(super) fn held_out_first(&self) -> Option<f64> {
        let first = self.islands.iter().filter_map(|it| it.held_out.first());
        first.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, loss)| *loss)
    }

    /// The mean of the islands' own losses.
    pub(super) fn loss(&self) -> Option<f64> {
        mean(self.present().filter_map(Seen::loss))
    }

    /// Those that are there.
    pub(super) fn present(&self) -> impl Iterator<Item = &Seen> {
        self.islands.iter().filter(|it| it.presence == Presence::Here)
    }

    /// Tokens that all islands trained.
    pub(super) fn tokens(&self) -> u64 {
        self.islands.iter().map(Seen::tokens).sum()
    }

    /// Steps of the fastest island that nothing was done to; of the fastest, if there is none.
    pub(super) fn steps_of_fastest(&self) -> u64 {
        let most = |spared: bool| {
            self.islands.iter().filter(|it| it.spared == spared).map(Seen::steps).max()
        };
        most(true).filter(|steps| *steps > 0).or_else(|| most(false)).unwrap_or(0)
    }

    /// Tokens that the swarm has merged, as far as the island knows that knows most.
    pub(super) fn swarm_tokens(&self) -> u64 {
        self.statuses().map(|it| it.swarm_tokens).max().unwrap_or(0)
    }

    /// When the last moment was, in seconds.
    pub(super) fn end(&self) -> f64 {
        self.frames.last().map_or(0.0, |it| it.at)
    }

    pub(super) fn tokens_per_s(&self) -> f64 {
        self.present().filter_map(Seen::live).map(|it| it.training.tokens_per_s).sum()
    }

    pub(super) fn bytes_up(&self) -> u64 {
        self.islands.iter().map(Seen::bytes_up).sum()
    }

    pub(super) fn bytes_down(&self) -> u64 {
        self.islands.iter().map(Seen::bytes_down).sum()
    }

    /// Where all tokens are; each counts once for every fragment.
    pub(super) fn fates(&self) -> Fates {
        self.statuses().map(|it| it.fates).sum()
    }

    /// Whether every token of every fragment of every island has one fate.
    pub(super) fn fates_add_up(&self) -> bool {
        self.statuses()
            .all(|it| it.fates.add_up() && it.fragments.iter().all(|it| it.fates.add_up()))
    }

    pub(super) fn fragments(&self) -> usize {
        self.statuses().map(|it| it.fragments.len()).max().unwrap_or(0)
    }

    /// The mean over the islands of the share of the time they could train that they trained.
    pub(super) fn training_share(&self) -> f64 {
        let trained = self.islands.iter().filter(|it| it.status.is_some());
        mean(trained.map(Seen::training_share)).unwrap_or(0.0)
    }

    /// The least such share of an island to which nothing was done; none if there is no such.
    pub(super) fn spared_share(&self) -> Option<f64> {
        let spared = self.islands.iter().filter(|it| it.spared && it.status.is_some());
        spared.map(Seen::training_share).min_by(f64::total_cmp)
    }

    /// The longest time that such an island took no step.
    pub(super) fn longest_wait(&self) -> Option<f64> {
        let spared = self.islands.iter().filter(|it| it.spared && it.status.is_some());
        spared.map(Seen::longest_wait).max_by(f64::total_cmp)
    }

    /// Tokens that were trained and then lost with a killed process, before they were captured or
    /// kept in a checkpoint. What a process did between its last status and its end is not seen.
    pub(super) fn lost_tokens(&self) -> u64 {
        let fragments = self.fragments().max(1) as u64;
        self.tokens().saturating_sub(self.fates().trained / fragments)
    }

    /// Whether this node is an island that has taken part.
    fn has_met(&self, node: Option<&str>) -> bool {
        let mut seen = self.islands.iter().filter(|it| it.node.as_deref() == node);
        seen.any(|it| it.status.as_ref().is_some_and(Status::is_caught_up))
    }
}

/// The mean, if there is anything to take it of.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), it| (sum + it, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Seconds.
const LATELY: f64 = 5.0;
/// Enough for a smooth curve.
const FRAMES: f64 = 400.0;
const FRAME_EVERY_MIN: f64 = 0.5;

#[cfg(test)]
pub(super) mod example {
    use serde_json::json;

    use super::super::status::example::status;
    use super::*;

    /// Three islands after a minute, the third at half speed.
    pub(in crate::up) fn recording() -> Recording {
        let mut recording = Recording::new([1.0, 1.0, 0.5], 60.0);
        for moment in 0..120_u32 {
            let at = f64::from(moment) / 2.0;
            for island in 0..3_u8 {
                let loss = 1.5 + 4.0 / (1.0 + at / 5.0) + f64::from(island) * 0.02;
                let mut status = status(island, 1 + moment / 10, loss);
                status.training.step = u64::from(moment) * 2;
                status.training.tokens = u64::from(moment) * 2048;
                status.bytes.content.up = u64::from(moment) * 40_000;
                let node = status.node.clone();
                recording.status(at, island.into(), status);
                if moment % 20 == u32::from(island) {
                    let event = json!({ "event": "held_out", "step": 2 * moment, "loss": loss });
                    recording.event(at, island.into(), &event);
                }
                if moment % 10 == 0 {
                    let round = format!("f0/r{}", moment / 10);
                    let event = json!({ "event": "contributed", "round": round });
                    recording.event(at, island.into(), &event);
                    let event = json!({ "event": "admitted", "round": round, "author": node });
                    recording.event(at, 0, &event);
                    let event = json!({
                        "event": "closed", "round": round, "have": 3, "need": 2,
                        "because": { "reason": "everyone" },
                    });
                    recording.event(at, island.into(), &event);
                }
            }
            recording.frame(at);
        }
        recording
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::status::example::status;
    use super::*;

    #[test]
    fn a_round_is_told_once_and_counts_once() {
        let mut recording = Recording::new([1.0, 1.0], 60.0);
        recording.status(0.0, 0, status(1, 3, 2.0));
        recording.status(0.0, 1, status(2, 3, 2.0));
        let closed = json!({ "event": "closed", "round": "f0/r1", "have": 2 });
        recording.event(1.0, 0, &json!({ "event": "contributed", "round": "f0/r1" }));
        let admitted = json!({ "event": "admitted", "round": "f0/r1", "author": "02".repeat(32) });
        recording.event(1.0, 0, &admitted);
        recording.event(2.0, 0, &closed);
        recording.event(2.1, 1, &closed);
        recording.event(2.2, 1, &json!({ "event": "contributed", "round": "f0/r2" }));
        assert_eq!(recording.happenings.len(), 1);
        assert_eq!((recording.participation(0), recording.participation(1)), ((1, 1), (1, 1)));
        assert_eq!(recording.islands[0].contributions, 1);
    }

    #[test]
    fn a_stable_round_is_merged_by_all() {
        let mut recording = Recording::new([1.0], 60.0);
        for (round, merged_by) in [("f0/r1", 2), ("f1/r1", 2), ("f1/r2", 3), ("f1/r3", 1)] {
            let event =
                json!({ "event": "receipt", "round": round, "merged_by": merged_by, "of": 3 });
            recording.event(1.0, 0, &event);
        }
        assert_eq!(recording.islands[0].merged_by_all(), 1);
        let stable = json!({ "event": "stable", "fragment": 0, "version": 1, "forced": false });
        recording.event(2.0, 0, &stable);
        let forced = json!({ "event": "stable", "fragment": 1, "version": 3, "forced": true });
        recording.event(2.0, 0, &forced);
        assert_eq!(recording.islands[0].merged_by_all(), 2);
    }

    #[test]
    fn only_an_island_that_took_part_can_be_lost() {
        let mut recording = Recording::new([1.0, 1.0], 60.0);
        let down = json!({ "event": "peer_down", "node": "02".repeat(32) });
        recording.event(1.0, 0, &down);
        recording.status(2.0, 1, status(2, 3, 2.0));
        recording.event(3.0, 0, &down);
        let weights: Vec<Weight> = recording.happenings.iter().map(|it| it.weight).collect();
        assert_eq!(weights, [Weight::Usual, Weight::Notable]);
        recording.over = true;
        recording.event(4.0, 0, &down);
        assert_eq!(recording.happenings[2].weight, Weight::Usual, "all leave");
    }

    #[test]
    fn a_loss_is_averaged_over_seconds() {
        let mut recording = Recording::new([1.0], 60.0);
        recording.status(0.0, 0, status(1, 3, 4.0));
        recording.status(0.1, 0, status(1, 3, 1.0));
        assert!(recording.loss().unwrap() > 3.8);
        recording.status(60.0, 0, status(1, 3, 1.0));
        assert!(recording.loss().unwrap() < 1.01);
    }

    #[test]
    fn means_and_sums_are_over_the_islands() {
        let mut recording = Recording::new([1.0, 0.5], 60.0);
        assert_eq!((recording.loss(), recording.held_out()), (None, None));
        recording.status(0.0, 0, status(1, 3, 2.0));
        recording.status(0.0, 1, status(2, 3, 4.0));
        assert_eq!(recording.loss(), Some(3.0));
        for (at, island, loss) in [(9.0, 0, 5.0), (8.0, 1, 6.0), (10.0, 1, 3.0)] {
            recording.event(at, island, &json!({ "event": "held_out", "loss": loss }));
        }
        assert_eq!((recording.held_out_first(), recording.held_out()), (Some(6.0), Some(4.0)));
        recording.event(60.0, 1, &json!({ "event": "held_out", "loss": 2.5 }));
        assert_eq!(recording.held_out(), Some(2.5), "the other one measured long ago");
        assert_eq!(recording.tokens(), 204_800);
        recording.islands[1].spared = false;
        assert_eq!((recording.steps_of_fastest(), recording.swarm_tokens()), (100, 400_000));
        assert_eq!(recording.bytes_up(), 1_900_000);
        assert!(recording.fates_add_up());
        assert_eq!(recording.islands[0].training_share(), 0.98);
        assert_eq!(recording.islands[1].training_share(), 1.0, "it rests half of the time");
    }

    #[test]
    fn frames_are_kept_now_and_then() {
        let mut recording = Recording::new([1.0], 4000.0);
        for second in 0..100 {
            recording.frame(f64::from(second));
        }
        assert_eq!(recording.frames.len(), 10);
    }
}
