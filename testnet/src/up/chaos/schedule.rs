//! What a plan comes to: who, when, for a seed. Drawn before anything starts, so that equal seeds
//! do equal things.

use atoll_protocol::rng::Rng;

use super::deed::{Deed, Verb};
use super::plan::{Plan, Rule, When};
use super::raw::Who;
use super::span::Length;
use crate::up::error::UpError;
use crate::up::happening;
use crate::up::units;

/// Everything that will be done, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::up) struct Schedule {
    /// Seconds since training began, and what is done then.
    pub(in crate::up) deeds: Vec<(f64, Deed)>,
    /// Islands in all, those that join included.
    pub(in crate::up) islands: usize,
}

impl Schedule {
    /// What `plan` does to `islands` islands that train for `seconds`.
    pub(in crate::up) fn draw(
        plan: &Plan,
        islands: usize,
        seconds: f64,
        seed: u64,
    ) -> Result<Self, UpError> {
        refuse_what_never_happens(plan, islands, seconds)?;
        let mut draw = Draw::new(plan, islands, seconds, seed);
        for (at, rule) in draw.moments() {
            draw.undo_until(at);
            draw.happen(at, rule)?;
        }
        draw.undo_until(f64::INFINITY);
        Ok(Self { deeds: draw.deeds, islands: draw.states.len() })
    }

    /// Whether nothing is ever done to island `index` that would make it train less.
    pub(in crate::up) fn spares(&self, index: usize) -> bool {
        let hurt = self.deeds.iter().filter(|(_, deed)| !matches!(deed, Deed::Partition(_)));
        !hurt.flat_map(|(_, deed)| deed.victims()).any(|it| it == index)
    }
}

/// How an island is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Frozen,
    /// Killed.
    Down,
    Left,
}

struct Draw<'a> {
    plan: &'a Plan,
    seconds: f64,
    rng: Rng,
    states: Vec<State>,
    throttled: Vec<bool>,
    spared: Vec<bool>,
    parted: bool,
    bootstrap: bool,
    deeds: Vec<(f64, Deed)>,
    /// What is to be taken back, and when.
    undo: Vec<(f64, Deed)>,
}

impl<'a> Draw<'a> {
    fn new(plan: &'a Plan, islands: usize, seconds: f64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let spare = plan.spare.unwrap_or_else(|| islands.div_ceil(4));
        let mut order: Vec<usize> = (0..islands).collect();
        rng.shuffle(&mut order);
        let mut spared = vec![false; islands];
        for index in order.into_iter().take(spare) {
            spared[index] = true;
        }
        Self {
            plan,
            seconds,
            rng,
            states: vec![State::Up; islands],
            throttled: vec![false; islands],
            spared,
            parted: false,
            bootstrap: true,
            deeds: Vec::new(),
            undo: Vec::new(),
        }
    }

    /// When which rule does something, in order.
    fn moments(&mut self) -> Vec<(f64, &'a Rule)> {
        let mut moments = Vec::new();
        for rule in &self.plan.rules {
            match rule.when {
                When::At(at) => moments.push((at.seconds(self.seconds), rule)),
                When::Every { every, from, until } => {
                    let every = every.seconds(self.seconds).max(EVERY_MIN);
                    let (mut at, until) = (from.seconds(self.seconds), until.seconds(self.seconds));
                    while at <= until.min(self.seconds) {
                        let late = every * self.fraction() * LATE_BY;
                        moments.push((at + late, rule));
                        at += every;
                    }
                }
            }
        }
        moments.retain(|(at, _)| *at < self.seconds);
        moments.sort_by(|one, other| one.0.total_cmp(&other.0));
        moments
    }

    fn happen(&mut self, at: f64, rule: &Rule) -> Result<(), UpError> {
        let victims = match (&rule.who, rule.verb.has_victim()) {
            (_, false) => vec![None],
            (Who::These(numbers), true) => self.named(at, rule, numbers)?,
            (Who::Any, true) => self.any(rule.verb).map(Some).into_iter().collect(),
            (Who::Half, true) => self.half().into_iter().map(Some).collect(),
        };
        if rule.verb.needs_bootstrap() && !self.bootstrap {
            return self.nobody_can_join(at, rule);
        }
        if rule.verb == Verb::Partition {
            let side: Vec<usize> = victims.into_iter().flatten().collect();
            if !side.is_empty() && !self.parted {
                self.carry_out(at, rule, Deed::Partition(side));
            }
            return Ok(());
        }
        for victim in victims {
            if let Some(deed) = self.deed(rule.verb, victim, rule.rate) {
                self.carry_out(at, rule, deed);
            }
        }
        Ok(())
    }

    /// Whoever is new asks the bootstrap; what is done again and again is left out this time.
    fn nobody_can_join(&self, at: f64, rule: &Rule) -> Result<(), UpError> {
        if !matches!(rule.when, When::At(_)) {
            return Ok(());
        }
        let (name, line, clock) = (&self.plan.name, rule.line, units::clock(at));
        Err(UpError::usage(
            format!("{name} line {line}: nobody can join at {clock}, while the bootstrap is gone"),
            "choose a time before `lose-bootstrap` or after `restore-bootstrap`",
        ))
    }

    /// The islands of these numbers, if it can be done to them now.
    fn named(
        &self,
        at: f64,
        rule: &Rule,
        numbers: &[usize],
    ) -> Result<Vec<Option<usize>>, UpError> {
        let wrong = |what: String, hint: &str| {
            let place = format!("{} line {}", self.plan.name, rule.line);
            Err(UpError::usage(format!("{place}: {what}"), hint))
        };
        let mut victims = Vec::new();
        for number in numbers {
            let known = number.checked_sub(1).filter(|index| *index < self.states.len());
            let Some(index) = known else {
                let there = self.states.len();
                return wrong(
                    format!("there is no island {number}"),
                    &format!("at that time there are 1 to {there}; --islands makes more"),
                );
            };
            if self.can(rule.verb, index) {
                victims.push(Some(index));
            } else if matches!(rule.when, When::At(_)) {
                let (name, clock) = (happening::island(index), units::clock(at));
                let state = format!("{:?}", self.states[index]).to_lowercase();
                return wrong(
                    format!("{name} is {state} at {clock}, so this cannot be done to it"),
                    "choose another time or island",
                );
            }
        }
        Ok(victims)
    }

    /// One to whom it can be done, if that leaves enough.
    fn any(&mut self, verb: Verb) -> Option<usize> {
        let up = self.states.iter().filter(|state| **state == State::Up).count();
        let takes_away = matches!(verb, Verb::Kill | Verb::Freeze | Verb::Leave | Verb::Restart);
        // Rounds close with half of the islands; fewer would only show a swarm that waits.
        if takes_away && up * 2 < self.states.len() + 2 {
            return None;
        }
        let all = 0..self.states.len();
        let able: Vec<usize> =
            all.filter(|index| !self.spared[*index] && self.can(verb, *index)).collect();
        self.rng.pick(&able).copied()
    }

    fn half(&mut self) -> Vec<usize> {
        let all = 0..self.states.len();
        let mut up: Vec<usize> = all.filter(|index| self.states[*index] == State::Up).collect();
        self.rng.shuffle(&mut up);
        up.truncate(up.len() / 2);
        up.sort_unstable();
        up
    }

    /// Whether it makes sense to do that to this island now.
    fn can(&self, verb: Verb, index: usize) -> bool {
        let state = self.states[index];
        match verb {
            Verb::Kill | Verb::Freeze | Verb::Leave | Verb::Partition => state == State::Up,
            Verb::Restart => matches!(state, State::Up | State::Down),
            Verb::Thaw => state == State::Frozen,
            Verb::Throttle => !self.throttled[index],
            Verb::Unthrottle => self.throttled[index],
            _ => true,
        }
    }

    fn deed(&self, verb: Verb, victim: Option<usize>, rate: Option<f64>) -> Option<Deed> {
        match (verb, victim) {
            (Verb::Kill, Some(index)) => Some(Deed::Kill(index)),
            (Verb::Restart, Some(index)) if self.states[index] == State::Down => {
                Some(Deed::Revive(index))
            }
            (Verb::Restart, Some(index)) => Some(Deed::Restart(index)),
            (Verb::Freeze, Some(index)) => Some(Deed::Freeze(index)),
            (Verb::Thaw, Some(index)) => Some(Deed::Thaw(index)),
            (Verb::Leave, Some(index)) => Some(Deed::Leave(index)),
            (Verb::Throttle, Some(index)) => Some(Deed::Throttle(index, rate?)),
            (Verb::Unthrottle, Some(index)) => Some(Deed::Unthrottle(index)),
            (Verb::Join, None) => Some(Deed::Join(self.states.len())),
            (Verb::Heal, None) => self.parted.then_some(Deed::Heal),
            (Verb::Lie, None) => Some(Deed::Lie),
            (Verb::LoseBootstrap, None) => self.bootstrap.then_some(Deed::LoseBootstrap),
            (Verb::RestoreBootstrap, None) => (!self.bootstrap).then_some(Deed::RestoreBootstrap),
            _ => None,
        }
    }

    /// Notes a deed, and when it is taken back.
    fn carry_out(&mut self, at: f64, rule: &Rule, deed: Deed) {
        let back = rule.verb.undone_by().and_then(|verb| match (&deed, verb) {
            (Deed::Partition(_), _) => Some(Deed::Heal),
            (Deed::Kill(index), _) => Some(Deed::Revive(*index)),
            (Deed::Join(index), _) => Some(Deed::Leave(*index)),
            (Deed::Leave(index), _) => Some(Deed::Return(*index)),
            (Deed::LoseBootstrap, _) => Some(Deed::RestoreBootstrap),
            (other, verb) => self.deed(verb, other.island(), None),
        });
        if let (Some(back), Some(lasts)) = (back, rule.lasts) {
            let seconds = self.length(lasts);
            self.undo.push((at + seconds, back));
        }
        self.note(at, deed);
    }

    fn note(&mut self, at: f64, deed: Deed) {
        match &deed {
            Deed::Kill(index) => self.states[*index] = State::Down,
            Deed::Freeze(index) => self.states[*index] = State::Frozen,
            Deed::Leave(index) => self.states[*index] = State::Left,
            Deed::Revive(index)
            | Deed::Restart(index)
            | Deed::Thaw(index)
            | Deed::Return(index) => self.states[*index] = State::Up,
            Deed::Join(_) => {
                self.states.push(State::Up);
                self.throttled.push(false);
                self.spared.push(false);
            }
            Deed::Throttle(index, _) => self.throttled[*index] = true,
            Deed::Unthrottle(index) => self.throttled[*index] = false,
            Deed::Partition(_) => self.parted = true,
            Deed::Heal => self.parted = false,
            Deed::LoseBootstrap => self.bootstrap = false,
            Deed::RestoreBootstrap => self.bootstrap = true,
            Deed::Lie => {}
        }
        self.deeds.push((at, deed));
    }

    /// Takes back what is due; what no longer makes sense is left.
    fn undo_until(&mut self, until: f64) {
        self.undo.sort_by(|one, other| one.0.total_cmp(&other.0));
        while self.undo.first().is_some_and(|(at, _)| *at <= until) {
            let (at, deed) = self.undo.remove(0);
            let sense = match &deed {
                Deed::Revive(index) => self.states[*index] == State::Down,
                Deed::Thaw(index) => self.states[*index] == State::Frozen,
                Deed::Return(index) => self.states[*index] == State::Left,
                Deed::Leave(index) => self.states[*index] == State::Up,
                Deed::Unthrottle(index) => self.throttled[*index],
                Deed::Heal => self.parted,
                Deed::RestoreBootstrap => !self.bootstrap,
                _ => true,
            };
            if sense {
                self.note(at, deed);
            }
        }
    }

    fn length(&mut self, length: Length) -> f64 {
        match length {
            Length::Fixed(span) => span.seconds(self.seconds),
            Length::Between(low, high) => {
                let (low, high) = (low.seconds(self.seconds), high.seconds(self.seconds));
                low + (high - low) * self.fraction()
            }
        }
    }

    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        self.rng.below(1 << 20) as f64 / f64::from(1_u32 << 20)
    }
}

/// A plan of one's own that does nothing is a mistake in it.
fn refuse_what_never_happens(plan: &Plan, islands: usize, seconds: f64) -> Result<(), UpError> {
    for rule in &plan.rules {
        let place = format!("{} line {}", plan.name, rule.line);
        if let When::At(at) = rule.when
            && at.seconds(seconds) >= seconds
        {
            let training = units::clock(seconds);
            return Err(UpError::usage(
                format!("{place}: at = \"{at}\" is not within the training of {training}"),
                "raise --minutes, or name an earlier time",
            ));
        }
        if let Some(spare) = plan.spare.filter(|spare| *spare >= islands)
            && rule.verb.has_victim()
            && rule.who == Who::Any
        {
            return Err(UpError::usage(
                format!("{place}: spare = {spare} leaves nobody of {islands} islands to do it to"),
                "spare fewer, raise --islands, or name an island",
            ));
        }
    }
    Ok(())
}

/// Seconds; a plan that does more often only shows how fast processes start.
const EVERY_MIN: f64 = 0.5;
/// What is done again and again is late by this share of the time between, at most: a swarm must
/// not get used to it.
const LATE_BY: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(plan: &str, islands: usize, seed: u64) -> Schedule {
        Schedule::draw(&Plan::find(plan).unwrap(), islands, 300.0, seed).unwrap()
    }

    fn written(text: &str, islands: usize) -> Result<Schedule, UpError> {
        Schedule::draw(&Plan::read("my.toml", text).unwrap(), islands, 100.0, 1)
    }

    #[test]
    fn a_plan_that_would_do_nothing_is_refused() {
        let late = "[[event]]\ndo = \"kill\"\nat = \"30m\"";
        let said = written(late, 4).unwrap_err().to_string();
        assert!(said.contains("line 1: at = \"1800s\" is not within the training"), "{said}");
        let spared = "spare = 9\n[[event]]\ndo = \"kill\"\nat = \"3s\"";
        let said = written(spared, 4).unwrap_err().to_string();
        assert!(said.contains("line 2: spare = 9 leaves nobody of 4 islands"), "{said}");
        assert_eq!(written(spared, 10).unwrap().islands, 10);
    }

    #[test]
    fn equal_seeds_do_equal_things() {
        assert_eq!(schedule("storm", 8, 1), schedule("storm", 8, 1));
        assert_ne!(schedule("storm", 8, 1), schedule("storm", 8, 2));
        assert!(schedule("calm", 8, 1).deeds.is_empty());
    }

    #[test]
    fn a_storm_spares_some_and_brings_everybody_back() {
        for seed in 0..50 {
            let storm = schedule("storm", 8, seed);
            assert!((0..8).filter(|index| storm.spares(*index)).count() >= 2, "{seed}");
            assert!(storm.deeds.iter().filter(|it| matches!(it.1, Deed::Kill(_))).count() >= 6);
            assert!(storm.deeds.is_sorted_by(|one, other| one.0 <= other.0), "{storm:?}");
            for index in 0..8 {
                let last = storm.deeds.iter().rfind(|(_, deed)| deed.island() == Some(index));
                let back = |deed: &Deed| {
                    matches!(deed, Deed::Revive(_) | Deed::Restart(_) | Deed::Thaw(_))
                };
                assert!(last.is_none_or(|(_, deed)| back(deed)), "{last:?}");
            }
        }
    }

    #[test]
    fn every_preset_fits_every_swarm() {
        for name in ["calm", "storm", "split", "churn", "byzantine"] {
            for islands in 1..20 {
                schedule(name, islands, islands as u64);
            }
        }
        assert_eq!(schedule("churn", 4, 3).islands, 6);
    }

    #[test]
    fn half_of_the_islands_are_always_there() {
        let storm = schedule("storm", 8, 5);
        let mut away = 0_i32;
        for (_, deed) in &storm.deeds {
            away += match deed {
                Deed::Kill(_) | Deed::Freeze(_) => 1,
                Deed::Revive(_) | Deed::Thaw(_) => -1,
                _ => 0,
            };
            assert!(away <= 4, "{storm:?}");
        }
    }

    #[test]
    fn a_plan_that_cannot_be_is_refused_with_its_line() {
        let text = "[[event]]\ndo = \"kill\"\nat = \"3s\"\nisland = 9";
        let said = written(text, 4).unwrap_err().to_string();
        assert!(said.contains("my.toml line 1: there is no island 9\nhint: "), "{said}");
        let text = "[[event]]\ndo = \"kill\"\nat = \"3s\"\nisland = 2\n\
                    [[event]]\ndo = \"freeze\"\nat = \"10%\"\nisland = [1, 2]";
        let said = written(text, 4).unwrap_err().to_string();
        assert!(said.contains("line 5: island 2 is down at 0:10"), "{said}");
    }

    #[test]
    fn nobody_joins_while_the_bootstrap_is_gone() {
        let lost = "[[event]]\ndo = \"lose-bootstrap\"\nat = \"10s\"\nfor = \"20s\"\n";
        for verb in ["join", "lie"] {
            let plan =
                |when: &str| written(&format!("{lost}[[event]]\ndo = \"{verb}\"\n{when}"), 4);
            let said = plan("at = \"20s\"").unwrap_err().to_string();
            assert!(
                said.contains("line 5: nobody can join at 0:20, while the bootstrap"),
                "{said}"
            );
            plan("at = \"31s\"").unwrap();
            plan("every = \"15s\"").unwrap();
        }
    }

    #[test]
    fn starting_a_killed_island_is_no_restart() {
        let text = "[[event]]\ndo = \"kill\"\nat = \"3s\"\nisland = 1\nfor = \"5s\"\n\
                    [[event]]\ndo = \"kill\"\nat = \"4s\"\nisland = 2\n\
                    [[event]]\ndo = \"restart\"\nat = \"9s\"\nisland = [1, 2]\n\
                    [[event]]\ndo = \"leave\"\nat = \"10s\"\nisland = 1\nfor = \"1s\"";
        let deeds: Vec<Deed> = written(text, 4).unwrap().deeds.into_iter().map(|it| it.1).collect();
        assert_eq!(
            deeds,
            [
                Deed::Kill(0),
                Deed::Kill(1),
                Deed::Revive(0),
                Deed::Restart(0),
                Deed::Revive(1),
                Deed::Leave(0),
                Deed::Return(0),
            ]
        );
    }

    #[test]
    fn what_has_a_length_is_taken_back() {
        let text = "[[event]]\ndo = \"throttle\"\nat = \"3s\"\nisland = 2\nrate = \"1mbit\"\n\
                    for = \"5s\"\n[[event]]\ndo = \"partition\"\nat = \"4s\"\nisland = [1, 3]\n\
                    for = [\"2s\", \"2s\"]";
        let deeds = written(text, 4).unwrap().deeds;
        assert_eq!(
            deeds,
            [
                (3.0, Deed::Throttle(1, 1e6)),
                (4.0, Deed::Partition(vec![0, 2])),
                (6.0, Deed::Heal),
                (8.0, Deed::Unthrottle(1)),
            ]
        );
    }
}
