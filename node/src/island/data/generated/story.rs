//! Stories: an opening, scenes that the same people live through, an ending that looks back.

use super::memory::Slot;
use super::number;
use super::writer::Writer;

impl Writer<'_> {
    /// A whole story with its title.
    pub(super) fn story(&mut self) {
        self.title();
        self.say("opening");
        for _ in 0..self.rng.below(3) {
            self.say("habit");
        }
        self.say("wish");
        self.paragraph();
        self.say("travel");
        self.say("meeting");
        self.say("greeting");
        let scenes = self.rng.range(2, 5);
        for _ in 0..scenes {
            self.scene();
            if self.rng.ratio(1, 2) {
                self.paragraph();
            }
        }
        let good = self.rng.ratio(2, 3);
        self.say(if good { "ending-good" } else { "ending-bad" });
        self.say("home-again");
        self.line_end();
    }

    /// Things put away now and taken out again later, in the same order or backwards.
    pub(super) fn list_scene(&mut self) {
        let count = usize::try_from(self.rng.range(2, 5)).expect("a small number");
        let things = self.draw_different("object", count);
        self.say("pack");
        self.list(things.iter());
        self.push(". ");
        if self.rng.ratio(1, 2) {
            let filler = if self.rng.ratio(1, 2) { "nature" } else { "talk" };
            self.say(filler);
        }
        let last = &things[count - 1];
        self.memory.write(Slot::Item, last);
        if self.rng.ratio(1, 3) {
            self.say("last");
        } else if self.rng.ratio(1, 2) {
            self.push("Backwards that is ");
            self.list(things.iter().rev());
            self.push(". ");
        } else {
            self.say("unpack-plain");
            self.list(things.iter());
            self.push(". ");
        }
    }

    /// A sum that is right, in words.
    pub(super) fn sum_scene(&mut self) {
        let (rule, one, two, three) = match self.rng.below(5) {
            0..2 => {
                let (one, two) = (self.rng.range(1, 20), self.rng.range(2, 20));
                ("sum-have", one, two, one + two)
            }
            2..4 => {
                let (one, two) = (self.rng.range(2, 12), self.rng.range(2, 12));
                ("sum-left", one, two, one + two)
            }
            _ => {
                let (one, two) = (self.rng.range(2, 10), self.rng.range(2, 10));
                ("sum-times", one, two, one * two)
            }
        };
        self.memory.write(Slot::One, &number::words(one));
        self.memory.write(Slot::Two, &number::words(two));
        self.memory.write(Slot::Three, &number::words(three));
        self.say(rule);
    }

    /// "One gull, two gulls, three gulls".
    pub(super) fn count_scene(&mut self) {
        let plural = self.draw("coins");
        let from = self.rng.range(1, 8);
        let to = from + self.rng.range(2, 5);
        self.recall(Slot::First);
        self.push(" counted ");
        for count in from..=to {
            self.push(&number::words(count));
            self.push(" ");
            self.push(if count == 1 { &plural[..plural.len() - 1] } else { &plural });
            self.push(if count < to { ", " } else { ", and stopped at " });
        }
        self.push(&number::words(to));
        self.push(". ");
    }

    /// Things inside things, then the same from the inside out.
    pub(super) fn nesting_scene(&mut self) {
        let count = usize::try_from(self.rng.range(3, 5)).expect("a small number");
        let things = self.draw_different("thing", count);
        for pair in things.windows(2) {
            self.say("in-the");
            self.push(&pair[0]);
            self.push(" was ");
            self.say("an");
            self.push(&pair[1]);
            self.push(". ");
        }
        self.push("So the ");
        for (index, thing) in things.iter().rev().enumerate() {
            if index > 0 {
                self.push(if index == 1 { " was in the " } else { " in the " });
            }
            self.push(thing);
        }
        self.push(". ");
    }

    /// "a cup, an egg and a red key".
    pub(super) fn list<'t>(&mut self, things: impl ExactSizeIterator<Item = &'t String>) {
        let count = things.len();
        for (index, thing) in things.enumerate() {
            if index > 0 {
                self.push(if index + 1 == count { " and " } else { ", " });
            }
            self.say("an");
            self.push(thing);
        }
    }

    fn scene(&mut self) {
        match self.rng.below(20) {
            0..3 => {
                self.say("talk");
                if self.rng.ratio(1, 2) {
                    self.say("talk");
                }
            }
            3..5 => self.say("nature"),
            5..7 => {
                self.say("trouble");
                self.say("rescue");
                self.say("thanks");
            }
            7 => self.say("song"),
            8..10 => self.list_scene(),
            10..12 => self.sum_scene(),
            12 => self.count_scene(),
            13 => self.nesting_scene(),
            14 => self.day_scene(),
            15 => self.aside_scene(),
            _ => {
                for _ in 0..self.rng.range(1, 3) {
                    self.say("rumour");
                }
            }
        }
    }

    fn day_scene(&mut self) {
        let today = usize::try_from(self.rng.below(7)).expect("a day of the week");
        self.memory.write(Slot::Day, DAYS[today]);
        self.memory.write(Slot::Next, DAYS[(today + 1) % 7]);
        self.say("next-day");
    }

    /// A sentence with asides inside asides, each in its own brackets.
    fn aside_scene(&mut self) {
        let depth = usize::try_from(self.rng.range(1, 3)).expect("a small number");
        self.say("the-spot");
        for (open, _) in &BRACKETS[..depth] {
            self.push(" ");
            self.push(open);
            self.say("aside-note");
        }
        for (_, close) in BRACKETS[..depth].iter().rev() {
            self.push(close);
        }
        self.say("is-old");
    }
}

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const BRACKETS: [(&str, &str); 3] = [("(", ")"), ("[", "]"), ("{", "}")];
