//! Lessons: sums in digits, sorted lists, spelling, and questions about what was just told.

use std::fmt::Write as _;

use super::memory::Slot;
use super::writer::Writer;

impl Writer<'_> {
    /// A lesson of a few exercises.
    pub(super) fn lesson(&mut self) {
        self.say("lesson-open");
        self.push("\n\n");
        for _ in 0..self.rng.range(3, 6) {
            match self.rng.below(6) {
                0 => self.sums(),
                1 => self.order(),
                2 => self.spelling(),
                3 => self.count_scene(),
                4 => self.nesting_scene(),
                _ => self.quiz(),
            }
            self.line_end();
        }
        self.say("lesson-end");
        self.line_end();
    }

    fn sums(&mut self) {
        for _ in 0..self.rng.range(2, 4) {
            let [x, y, z] = [self.rng.range(2, 12), self.rng.range(1, 12), self.rng.range(2, 9)];
            let text = match self.rng.below(5) {
                0 => format!("{x} + {y} = {}", x + y),
                1 => format!("{} - {y} = {x}", x + y),
                2 => format!("{x} * {z} = {}", x * z),
                3 => format!("({x} + {y}) * {z} = {} * {z} = {}", x + y, (x + y) * z),
                _ => format!("{x} + ({y} * {z}) = {x} + {} = {}", y * z, x + y * z),
            };
            self.push(&text);
            self.push("\n");
        }
    }

    fn order(&mut self) {
        let count = self.rng.range(3, 6);
        let mut numbers: Vec<u64> = (0..count).map(|_| self.rng.below(100)).collect();
        let mut text = format!("{numbers:?} ");
        let (word, largest) = (self.rng.below(3), numbers.iter().max().copied().unwrap_or(0));
        // Writing to a string never fails.
        let _ = match word {
            0 => {
                numbers.sort_unstable();
                write!(text, "in order is {numbers:?}.")
            }
            1 => {
                numbers.reverse();
                write!(text, "backwards is {numbers:?}.")
            }
            _ => write!(text, "has {} numbers, the largest is {largest}.", numbers.len()),
        };
        self.push(&text);
    }

    fn spelling(&mut self) {
        let word = self.draw("thing");
        self.recall(Slot::First);
        self.push(" can spell \"");
        self.push(&word);
        self.push("\": ");
        for (index, letter) in word.chars().enumerate() {
            if index > 0 {
                self.push("-");
            }
            self.push(letter.encode_utf8(&mut [0; 4]));
        }
        self.push(". ");
    }

    /// Who has what, then questions in another order.
    fn quiz(&mut self) {
        let people = [Slot::First, Slot::Second, Slot::Third];
        let things = self.draw_different("object", people.len());
        for (person, thing) in people.into_iter().zip(&things) {
            self.recall(person);
            self.push(" has ");
            self.say("an");
            self.push(thing);
            self.push(". ");
        }
        let mut order = [0, 1, 2];
        self.rng.shuffle(&mut order);
        for index in order {
            if self.rng.ratio(1, 2) {
                self.push("Who has the ");
                self.push(&things[index]);
                self.push("? ");
                self.recall(people[index]);
                self.push(". ");
            } else {
                self.push("What does ");
                self.recall(people[index]);
                self.push(" have? The ");
                self.push(&things[index]);
                self.push(". ");
            }
        }
    }
}
